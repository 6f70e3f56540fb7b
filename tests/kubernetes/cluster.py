"""A real Kubernetes for a test: etcd and API server; where it is asked for,
controllers, a scheduler and real nodes (node.py).

All of them are programs of their own, known by process id and ended with the
test, in a network of its own (space.py).  The certificates are made for it and
last a day.  Without controllers what is in the cluster is what the test puts
there.
"""
import base64
import contextlib
import http.client
import itertools
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time

from space import DEADLINE, Program, command, until

HERE = os.path.dirname(os.path.abspath(__file__))

NUMBERS = itertools.count()
CLUSTERS = itertools.count()


def programs():
    """The folder of Kubernetes' programs; they are built when they are not
    there.
    """
    out = subprocess.run([os.path.join(HERE, "programs")], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return out.strip().split("\n")[-1]


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


def kubeconfig(folder, port, user, ca, cluster=None, host="127.0.0.1"):
    """A file that names a server, by default on loopback, in that folder."""
    path = os.path.join(folder, f"kubeconfig.{next(NUMBERS)}")
    where = {"server": f"https://{host}:{port}",
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


class Cluster:
    """`control`: with controllers and a scheduler.

    Its service "kubernetes" has the API server's own address, and port 443, so
    that pods find it without anybody who forwards packets.
    """

    PORT = 443
    LEFT_OUT = "ServiceAccount,TaintNodesByCondition"

    def __init__(self, folder_of_programs, control=False):
        self.programs = folder_of_programs
        self.control = control
        self.number = next(CLUSTERS)
        self.host = f"10.{96 + self.number}.0.1"
        self.port = self.PORT
        self.folder = tempfile.mkdtemp(prefix="weir-kube.")
        self.nodes, self.parts = [], []
        self.pki = Pki(os.path.join(self.folder, "pki"))
        try:
            command("ip", "address", "add", f"{self.host}/32", "dev", "lo")
            self.set_up()
            self.start()
        except BaseException:
            self.close()
            raise

    def program(self, name, *args, call=None, env=None):
        p = Program(call or name, [os.path.join(self.programs, name), *args],
                    self.folder, env=env)
        self.parts.append(p)
        return p

    def set_up(self):
        pki, sa = self.pki, self.pki.path("sa.key")
        self.etcd_port, peer = free_ports(2)
        crt, key = pki.sign(
            "server", "/CN=kube-apiserver", "serverAuth", "DNS:kubernetes,"
            f"DNS:localhost,IP:127.0.0.1,IP:{self.host}")
        self.admin = pki.sign("admin", "/O=system:masters/CN=admin",
                              "clientAuth")
        pki.run("genrsa", "-out", sa, "2048")
        pki.run("rsa", "-in", sa, "-pubout", "-out", pki.path("sa.pub"))
        self.tokens = pki.path("tokens.csv")
        with open(self.tokens, "w", encoding="ascii") as f:
            f.write("good-token,watcher,1,system:masters\n"
                    "follow-token,follower,2,followers\n")
        at = f"http://127.0.0.1:{self.etcd_port}"
        peer = f"http://127.0.0.1:{peer}"
        self.etcd = self.program(
            "etcd", "--name", "e", "--data-dir",
            os.path.join(self.folder, "etcd"), "--unsafe-no-fsync",
            "--log-level", "warn", "--listen-client-urls", at,
            "--advertise-client-urls", at, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"e={peer}", call="etcd-server")
        self.api = self.program("kube-apiserver", *self.api_args(at, crt, key))
        if self.control:
            self.set_up_control()

    def api_args(self, etcd, crt, key):
        pki = self.pki
        self.audit = os.path.join(self.folder, "audit.log")
        policy = os.path.join(self.folder, "audit.json")
        with open(policy, "w", encoding="ascii") as f:
            json.dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
                       "rules": [{"level": "Metadata",
                                  "userGroups": [
                                      "followers",
                                      "system:serviceaccounts:weir"]},
                                 {"level": "None"}]}, f)
        nodes = pki.sign("to-kubelets", "/O=system:masters/CN=to-kubelets",
                         "clientAuth")
        return [
            f"--etcd-servers={etcd}", f"--bind-address={self.host}",
            f"--advertise-address={self.host}", f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none", f"--tls-cert-file={crt}",
            f"--tls-private-key-file={key}", f"--client-ca-file={pki.ca}",
            f"--token-auth-file={self.tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.path('sa.pub')}",
            f"--service-account-signing-key-file={pki.path('sa.key')}",
            f"--service-cluster-ip-range=10.{96 + self.number}.0.0/16",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            f"--kubelet-client-certificate={nodes[0]}",
            f"--kubelet-client-key={nodes[1]}",
            f"--kubelet-certificate-authority={pki.ca}",
            "--kubelet-preferred-address-types=InternalIP",
            "--shutdown-delay-duration=0s", f"--cert-dir={self.folder}",
            f"--audit-log-path={self.audit}", f"--audit-policy-file={policy}",
            # A pod needs no account, and a node no controller to be ready.
            "--enable-admission-plugins=NodeRestriction" if self.control
            else f"--disable-admission-plugins={self.LEFT_OUT}"]

    def set_up_control(self):
        pki = self.pki
        loop = pki.sign("loop", "/CN=127.0.0.1", "serverAuth",
                        "DNS:localhost,IP:127.0.0.1")
        ports = free_ports(2)
        common = []
        for port, name in zip(ports, ("kube-controller-manager",
                                      "kube-scheduler")):
            conf = self.kubeconfig(self.by_cert(*pki.sign(
                name, f"/CN=system:{name}", "clientAuth")))
            common.append([
                f"--kubeconfig={conf}", f"--authentication-kubeconfig={conf}",
                f"--authorization-kubeconfig={conf}", "--leader-elect=false",
                "--bind-address=127.0.0.1", f"--secure-port={port}",
                f"--tls-cert-file={loop[0]}",
                f"--tls-private-key-file={loop[1]}"])
        self.controllers = self.program(
            "kube-controller-manager", *common[0],
            "--use-service-account-credentials=true",
            f"--root-ca-file={pki.ca}", "--node-monitor-grace-period=20s",
            f"--service-account-private-key-file={pki.path('sa.key')}")
        self.scheduler = self.program("kube-scheduler", *common[1])

    def start(self):
        self.etcd.start()
        self.start_api()
        if self.control:
            self.controllers.start()
            self.scheduler.start()
            self.wait("the first account", lambda: self.ask(
                "GET", "/api/v1/namespaces/default/serviceaccounts/default"
            )[0] == 200)

    def start_api(self):
        self.api.start()
        self.wait("the API server", lambda: self.ask("GET", "/readyz")[0] ==
                  200)

    def wait(self, what, cond):
        """Until it is so, as long as all that was started runs."""
        def so():
            with contextlib.suppress(OSError, http.client.HTTPException):
                if cond():
                    return True
            for p in self.parts:
                if p.proc is not None:
                    p.need()
            return False
        try:
            until(so, what)
        except TimeoutError as e:
            raise TimeoutError(f"{e}\n" + "\n".join(
                f"{p.name}: {p.tail()[-1000:]}" for p in self.parts)) from e

    def compact(self):
        """etcd forgets what was before now."""
        def ask(path, body):
            conn = http.client.HTTPConnection("127.0.0.1", self.etcd_port,
                                              timeout=DEADLINE)
            conn.request("POST", path, json.dumps(body))
            r = conn.getresponse()
            text = r.read()
            conn.close()
            if r.status != 200:
                raise RuntimeError(f"etcd {path}: {r.status} {text!r}")
            return json.loads(text)
        now = ask("/v3/kv/range", {"key": base64.b64encode(
            b"x").decode()})["header"]["revision"]
        ask("/v3/kv/compaction", {"revision": now, "physical": True})

    def close(self):
        with contextlib.ExitStack() as stack:          # all of it, whatever
            stack.callback(shutil.rmtree, self.folder)
            for p in self.parts:
                stack.callback(p.end)
            for n in self.nodes:
                stack.callback(n.close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Requests of the test's own, by Python's means and not by ours.

    def connect(self, cert=None):
        """As that user, by default one who may do all; (): nobody."""
        context = ssl.create_default_context(cafile=self.pki.ca)
        if cert is None or cert:
            context.load_cert_chain(*(cert or self.admin))
        return http.client.HTTPSConnection(self.host, self.port,
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
        """At its own address, or at a port on loopback."""
        return kubeconfig(self.folder, port or self.port, user,
                          ca or self.pki.ca, cluster,
                          "127.0.0.1" if port else self.host)

    @staticmethod
    def by_cert(crt, key):
        return {"client-certificate-data": data(crt),
                "client-key-data": data(key)}
