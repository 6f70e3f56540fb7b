#!/usr/bin/env python3
"""TCP: TLS alone, with a token or a client certificate."""
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile

from apitest import JOB, TIMEOUT, Server, Tap, status, until


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


class Certs:
    """An authority, a server and clients, made with openssl(1)."""

    def __init__(self, folder):
        self.folder = folder
        self.authority("ca", "Test CA")
        self.authority("other", "Other CA")
        self.leaf("server", "localhost", "ca")

    def path(self, name):
        return os.path.join(self.folder, name)

    def authority(self, name, cn):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={cn}", "-keyout", self.path(name + ".key"),
                "-out", self.path(name + ".pem"))

    def leaf(self, name, cn, ca):
        conf = self.path(name + ".cnf")
        with open(conf, "w", encoding="ascii") as f:
            f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("req", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={cn}",
                "-keyout", self.path(name + ".key"), "-out",
                self.path(name + ".csr"))
        openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA",
                self.path(ca + ".pem"), "-CAkey", self.path(ca + ".key"),
                "-CAcreateserial", "-days", "2", "-extfile", conf, "-out",
                self.path(name + ".pem"))


class TlsClient:
    def __init__(self, certs, port, cert=None, token=None, **context):
        self.port = port
        self.token = token
        self.context = ssl.create_default_context(cafile=certs.path("ca.pem"))
        for name, value in context.items():
            setattr(self.context, name, value)
        if cert:
            self.context.load_cert_chain(certs.path(cert + ".pem"),
                                         certs.path(cert + ".key"))

    def call(self, method, path, body=None):
        conn = http.client.HTTPSConnection("127.0.0.1", self.port,
                                           context=self.context,
                                           timeout=TIMEOUT)
        head = {"Content-Type": "application/json"} if body else {}
        if self.token:
            head["Authorization"] = "Bearer " + self.token
        try:
            conn.request(method, path, json.dumps(body) if body else None,
                         head)
            r = conn.getresponse()
            return r.status, r.read()
        finally:
            conn.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def no_answer(port, data):
    """What a plain client gets."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as s:
        s.sendall(data)
        try:
            return s.recv(4096)
        except ConnectionResetError:
            return b""


def refusals(tap, certs):
    """It does not start half configured."""
    for args, text in (
            ((), "without a certificate"),
            ((certs.path("server.pem"), certs.path("none.key")),
             "with a key that is not there"),
            ((certs.path("server.pem"), certs.path("ca.key")),
             "with another's key"),
            ((certs.path("server.key"), certs.path("server.pem")),
             "the wrong way round")):
        try:
            with Server(f"127.0.0.1:{free_port()}", *args):
                tap.ok(False, f"listen {text}: refused")
        except RuntimeError:
            tap.ok(True, f"listen {text}: refused")


def main():
    tap = Tap()
    folder = tempfile.mkdtemp(prefix="weir-tls.")
    certs = Certs(folder)
    port = free_port()
    with Server(f"127.0.0.1:{port}", certs.path("server.pem"),
                certs.path("server.key"), certs.path("ca.pem")) as server:
        nobody = TlsClient(certs, port)
        code, body = nobody.call("GET", "/v1/workloads")
        tap.ok(code == 401 and b"token" in body, "without a token: 401", body)
        tap.equal(nobody.call("GET", "/healthz")[0], 200,
                  "healthz needs none")
        t = server.admin.need("POST", "/v1/tokens",
                              {"name": "x", "role": "user"}, want=201)
        user = TlsClient(certs, port, token=t["token"])
        tap.equal(user.call("POST", "/v1/workloads", JOB)[0], 201,
                  "with a token: 201")
        tap.equal(user.call("POST", "/v1/nodes/box/drain")[0], 403,
                  "and no more than its role")
        certs.leaf("client", t["id"], "ca")
        certs.leaf("forged", t["id"], "other")
        certs.leaf("nobody", "somebody", "ca")
        cert = TlsClient(certs, port, cert="client")
        tap.equal(cert.call("POST", "/v1/workloads", JOB)[0], 201,
                  "with a certificate whose CN is the token's id: 201")
        code = None
        try:
            code = TlsClient(certs, port, cert="forged").call(
                "GET", "/v1/workloads")[0]
        except (OSError, http.client.HTTPException):
            code = 401                 # the handshake is refused
        tap.equal(code, 401, "with one of another authority: refused")
        tap.equal(TlsClient(certs, port, cert="nobody").call(
            "GET", "/v1/workloads")[0], 401, "with a CN that is no token: 401")
        server.admin.need("DELETE", f"/v1/tokens/{t['id']}", want=204)
        tap.equal(user.call("GET", "/v1/workloads")[0], 401,
                  "the token revoked: 401")
        tap.equal(cert.call("GET", "/v1/workloads")[0], 401,
                  "and the certificate with it: 401")
        got = no_answer(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        tap.ok(status(got) != 200, "plain HTTP is not served", got)
        try:
            code = TlsClient(certs, port, maximum_version=ssl.TLSVersion
                             .TLSv1_1, minimum_version=ssl.TLSVersion.TLSv1_1
                             ).call("GET", "/healthz")[0]
        except (OSError, ValueError):
            code = "refused"
        tap.equal(code, "refused", "TLS 1.1: refused")
        tap.ok(until(lambda: any(
            e["who"] == "anonymous" and e["data"]["from"] == "127.0.0.1"
            for e in server.admin.events(type="access.denied")), "the audit"),
            "refusals are in the journal, with the address")
        tap.equal(server.end(), 0, "it ends well")
    refusals(tap, certs)
    shutil.rmtree(folder)
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
