"""A real Kubernetes API server with its etcd, on loopback, for a test.

Both are programs of their own, known by process id and ended with the test.
The certificates are made for it and last a day.  There is no controller, no
scheduler and no kubelet: what is in the cluster is what the test puts there.
"""
import base64
import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

NUMBERS = itertools.count()
DEADLINE = float(os.environ.get("WEIR_TEST_DEADLINE", "120"))


def free_ports(n):
    """Ports nobody has; all at once, so that they differ."""
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def data(path):
    with open(path, "rb") as f:
        return base64.b64encode(f.read()).decode()


def kubeconfig(folder, port, user, ca, cluster=None):
    """A file that names a server on loopback, in that folder."""
    path = os.path.join(folder, f"kubeconfig.{next(NUMBERS)}")
    where = {"server": f"https://127.0.0.1:{port}",
             "certificate-authority-data": data(ca)}
    with open(path, "w", encoding="ascii") as f:
        json.dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": where | (cluster or {})}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c",
                                                   "user": "u"}}]}, f)
    return path


class Pki:
    """A certificate authority and what it signs."""

    def __init__(self, folder, name="test-ca"):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.ca = self.path("ca.crt")
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-keyout",
                 self.path("ca.key"), "-out", self.ca, "-subj", f"/CN={name}",
                 "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
                 "keyUsage=critical,keyCertSign,digitalSignature")

    def path(self, name):
        return os.path.join(self.folder, name)

    @staticmethod
    def run(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def sign(self, name, subject, usage, san="", ended=False):
        """(certificate, key); one that has ended did so long ago."""
        crt, key, csr = (self.path(f"{name}.{e}") for e in ("crt", "key",
                                                            "csr"))
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes", "-keyout", key, "-out", csr, "-subj", subject)
        with open(self.path("ext"), "w", encoding="ascii") as f:
            f.write("basicConstraints=CA:FALSE\nkeyUsage=critical,"
                    f"digitalSignature\nextendedKeyUsage={usage}\n"
                    + (f"subjectAltName={san}\n" if san else ""))
        if not ended:
            self.run("x509", "-req", "-in", csr, "-CA", self.ca, "-CAkey",
                     self.path("ca.key"), "-CAcreateserial", "-days", "1",
                     "-extfile", self.path("ext"), "-out", crt)
            return crt, key
        with open(self.path("index"), "w", encoding="ascii"):
            pass
        with open(self.path("conf"), "w", encoding="ascii") as f:
            f.write("[ca]\ndefault_ca=d\n[d]\n"
                    f"database={self.path('index')}\nrand_serial=yes\n"
                    f"new_certs_dir={self.folder}\ndefault_md=sha256\n"
                    "policy=p\n[p]\norganizationName=optional\n"
                    "commonName=supplied\n")
        self.run("ca", "-batch", "-config", self.path("conf"), "-in", csr,
                 "-cert", self.ca, "-keyfile", self.path("ca.key"),
                 "-startdate", "20200101000000Z", "-enddate",
                 "20200102000000Z", "-extfile", self.path("ext"), "-notext",
                 "-out", crt)
        return crt, key


class Program:
    """A program that runs until it is ended, by its process id."""

    def __init__(self, name, argv, folder):
        self.name = name
        self.argv = argv
        self.log = os.path.join(folder, f"{name}.log")
        self.proc = None

    def start(self):
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL,
                                         stdout=log, stderr=log)

    def alive(self):
        return self.proc is not None and self.proc.poll() is None

    def end(self, sig=signal.SIGKILL):
        if self.proc is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.proc.send_signal(sig)
        try:
            self.proc.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.proc = None

    def tail(self):
        with contextlib.suppress(OSError), open(self.log, "rb") as f:
            return f.read()[-3000:].decode(errors="replace")
        return ""


class Cluster:
    def __init__(self, programs):
        self.folder = tempfile.mkdtemp(prefix="weir-kube.")
        self.pki = Pki(os.path.join(self.folder, "pki"))
        self.port, self.etcd_port, peer = free_ports(3)
        try:
            self.set_up(programs, peer)
            self.start()
        except BaseException:
            self.close()
            raise

    def set_up(self, programs, peer):
        pki, sa = self.pki, self.pki.path("sa.key")
        crt, key = pki.sign("server", "/CN=kube-apiserver", "serverAuth",
                            "DNS:kubernetes,DNS:localhost,IP:127.0.0.1")
        self.admin = pki.sign("admin", "/O=system:masters/CN=admin",
                              "clientAuth")
        pki.run("genrsa", "-out", sa, "2048")
        pki.run("rsa", "-in", sa, "-pubout", "-out", pki.path("sa.pub"))
        self.tokens = pki.path("tokens.csv")
        with open(self.tokens, "w", encoding="ascii") as f:
            f.write("good-token,watcher,1,system:masters\n"
                    "weak-token,weak,2\n")
        at = f"http://127.0.0.1:{self.etcd_port}"
        self.etcd = Program("etcd", [
            shutil.which("etcd") or "/usr/bin/etcd", "--name", "e",
            "--data-dir", os.path.join(self.folder, "etcd"),
            "--unsafe-no-fsync", "--log-level", "warn",
            "--listen-client-urls", at, "--advertise-client-urls", at,
            "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"e=http://127.0.0.1:{peer}"], self.folder)
        self.api = Program("apiserver", [
            os.path.join(programs, "kube-apiserver"), f"--etcd-servers={at}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}", "--endpoint-reconciler-type=none",
            f"--tls-cert-file={crt}", f"--tls-private-key-file={key}",
            f"--client-ca-file={pki.ca}", f"--token-auth-file={self.tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.path('sa.pub')}",
            f"--service-account-signing-key-file={sa}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC", "--shutdown-delay-duration=0s",
            # A pod needs no account, and a node no controller to be ready.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--cert-dir={self.folder}"], self.folder)

    def start(self):
        self.etcd.start()
        self.start_api()

    def start_api(self):
        self.api.start()
        end = time.monotonic() + DEADLINE
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            for p in self.etcd, self.api:
                if not p.alive():
                    raise RuntimeError(f"{p.name} ended:\n{p.tail()}")
            if time.monotonic() > end:
                raise TimeoutError(f"no API server:\n{self.api.tail()}")
            time.sleep(0.1)

    def close(self):
        for name in "api", "etcd":
            if hasattr(self, name):
                getattr(self, name).end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Requests of the test's own, by Python's means and not by ours.

    def connect(self):
        context = ssl.create_default_context(cafile=self.pki.ca)
        context.load_cert_chain(*self.admin)
        return http.client.HTTPSConnection("127.0.0.1", self.port,
                                           timeout=DEADLINE, context=context)

    def ask(self, method, path, body=None, over=None,
            kind="application/json"):
        conn = over or self.connect()
        conn.request(method, path, body and json.dumps(body),
                     {"Content-Type": kind})
        r = conn.getresponse()
        text = r.read()
        if not over:
            conn.close()
        return r.status, text

    def need(self, method, path, body=None, over=None,
             kind="application/json"):
        status, text = self.ask(method, path, body, over, kind)
        if not 200 <= status < 300:
            raise RuntimeError(f"{method} {path}: {status} {text[:500]!r}")
        return json.loads(text)

    def kubeconfig(self, user, port=None, cluster=None, ca=None):
        return kubeconfig(self.folder, port or self.port, user,
                          ca or self.pki.ca, cluster)

    @staticmethod
    def by_cert(crt, key):
        return {"client-certificate-data": data(crt),
                "client-key-data": data(key)}
