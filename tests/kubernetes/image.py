"""Images for containers, made from files of this machine."""
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import tarfile

ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}
ARCH = ARCHES.get(platform.machine(), platform.machine())


def digest(data):
    return hashlib.sha256(data).hexdigest()


def put(tar, name, data=b"", **how):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o755
    for key, value in how.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def layer(files, links):
    """files: path in the image to path here; links: path to target."""
    out, folders = io.BytesIO(), set()

    def folders_of(tar, path):
        at = ""
        for part in path.strip("/").split("/")[:-1]:
            at = f"{at}/{part}".strip("/")
            if at not in folders:
                folders.add(at)
                put(tar, at, type=tarfile.DIRTYPE)

    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        put(tar, "tmp", type=tarfile.DIRTYPE, mode=0o1777)
        folders.add("tmp")
        for path, source in sorted(files.items()):
            folders_of(tar, path)
            with open(source, "rb") as f:
                put(tar, path.strip("/"), f.read())
        for path, target in sorted(links.items()):
            folders_of(tar, path)
            put(tar, path.strip("/"), type=tarfile.SYMTYPE, linkname=target)
    return out.getvalue()


def archive(path, name, files, links=None, entrypoint=None, env=None):
    """An image of one layer as an archive in OCI's layout."""
    blobs = {}

    def blob(kind, data):
        blobs[digest(data)] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}",
                "digest": f"sha256:{digest(data)}", "size": len(data)}

    tar = layer(files, links or {})
    config = blob("config.v1+json", json.dumps({
        "architecture": ARCH, "os": "linux",
        "config": {"Entrypoint": entrypoint, "WorkingDir": "/",
                   "Env": env or ["PATH=/bin"]},
        "rootfs": {"type": "layers",
                   "diff_ids": [f"sha256:{digest(tar)}"]}}).encode())
    manifest = blob("manifest.v1+json", json.dumps({
        "schemaVersion": 2, "config": config,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "layers": [blob("layer.v1.tar", tar)]}).encode())
    manifest["platform"] = {"architecture": ARCH, "os": "linux"}
    manifest["annotations"] = {"io.containerd.image.name": name}
    with tarfile.open(path, "w") as out:
        put(out, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        put(out, "index.json", json.dumps({
            "schemaVersion": 2, "manifests": [manifest],
            "mediaType": "application/vnd.oci.image.index.v1+json"}).encode())
        for name_, data in blobs.items():
            put(out, f"blobs/sha256/{name_}", data)
    return name


def needed(program):
    """The libraries of a dynamic program, those not found aside."""
    out = subprocess.run(["ldd", program], check=True, capture_output=True,
                         text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", out)))


def busybox():
    """(files, links) of Debian's static busybox: a shell and what goes with
    it.
    """
    path = next(p for p in ("/bin/busybox", "/usr/bin/busybox")
                if os.path.exists(p))
    names = subprocess.run([path, "--list"], check=True, capture_output=True,
                           text=True).stdout.split()
    return {"/bin/busybox": path}, {f"/bin/{n}": "busybox" for n in names
                                    if n != "busybox"}
