"""Images for containers, as archives, without a container engine.

An archive has the layout of OCI and beside it the list that `docker load`
wants.  The same input gives the same bytes, on every machine.
"""
import gzip
import hashlib
import io
import json
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


def content(source):
    """Of a file here, or bytes that stand for themselves."""
    if isinstance(source, bytes):
        return source
    with open(source, "rb") as f:
        return f.read()


def layer(files, links, modes=None):
    """files: path in the image to path here, or to bytes; links: path to
    target; modes: of those that are not to be run.
    """
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
            put(tar, path.strip("/"), content(source),
                mode=(modes or {}).get(path, 0o755))
        for path, target in sorted(links.items()):
            folders_of(tar, path)
            put(tar, path.strip("/"), type=tarfile.SYMTYPE, linkname=target)
    return out.getvalue()


def archive(path, name, files, links=None, entrypoint=None, env=None,
            modes=None, **config):
    """An image of one layer; `config` is more of its configuration (User,
    Labels).
    """
    blobs = {}

    def blob(kind, data):
        blobs[digest(data)] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}",
                "digest": f"sha256:{digest(data)}", "size": len(data)}

    tar = layer(files, links or {}, modes)
    config = blob("config.v1+json", json.dumps({
        "architecture": ARCH, "os": "linux",
        "config": {"Entrypoint": entrypoint, "WorkingDir": "/",
                   "Env": env or ["PATH=/bin"]} | config,
        "rootfs": {"type": "layers",
                   "diff_ids": [f"sha256:{digest(tar)}"]}}).encode())
    packed = blob("layer.v1.tar+gzip", gzip.compress(tar, 6, mtime=0))
    manifest = blob("manifest.v1+json", json.dumps({
        "schemaVersion": 2, "config": config,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "layers": [packed]}).encode())
    manifest["platform"] = {"architecture": ARCH, "os": "linux"}
    manifest["annotations"] = {"io.containerd.image.name": name,
                               "org.opencontainers.image.ref.name": name}

    def at(o):
        return "blobs/sha256/" + o["digest"].removeprefix("sha256:")

    with tarfile.open(path, "w") as out:
        put(out, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', mode=0o644)
        put(out, "index.json", json.dumps({
            "schemaVersion": 2, "manifests": [manifest],
            "mediaType": "application/vnd.oci.image.index.v1+json"}).encode(),
            mode=0o644)
        put(out, "manifest.json", json.dumps([{
            "Config": at(config), "RepoTags": [name],
            "Layers": [at(packed)]}]).encode(), mode=0o644)
        for name_, data in sorted(blobs.items()):
            put(out, f"blobs/sha256/{name_}", data, mode=0o644)
    return name


def needed(program):
    """The libraries of a dynamic program, those not found aside."""
    out = subprocess.run(["ldd", program], check=True, capture_output=True,
                         text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", out)))
