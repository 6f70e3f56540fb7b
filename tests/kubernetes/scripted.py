#!/usr/bin/env python3
"""scripted.py FOLLOW - our client of Kubernetes' API against a server that
does what it is told, step by step: for what a real one does only when it wants
to.  The real one is client.py's.
"""
import contextlib
import http.server
import json
import os
import queue
import shutil
import ssl
import sys
import tempfile
import threading
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from cluster import Pki, kubeconfig  # noqa: E402
from follow import Follow, said  # noqa: E402
from stub import OK, Stub  # noqa: E402
from weirtest import Tap, as_sigterm_exit  # noqa: E402

TAP = Tap()
FOLLOW = sys.argv[1]
WAIT = 60


class Server:
    """Each request waits until the test has answered it.  Only requests for
    nodes come to the test; pods there are none.
    """

    def __init__(self, cert):
        self.asked = queue.Queue()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):          # noqa: N802
                url = urllib.parse.urlparse(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                if url.path.endswith("/pods"):
                    server.no_pods(self, query)
                    return
                one = Asked(self, query)
                server.asked.put(one)
                one.over.wait()

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*cert)
        self.http.socket = context.wrap_socket(self.http.socket,
                                               server_side=True)
        self.port = self.http.server_address[1]
        self.ends = threading.Event()
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def no_pods(self, handler, query):
        if "watch" in query:
            handler.send_response(200)
            handler.end_headers()
            handler.close_connection = True
            self.ends.wait()
        else:
            body = json.dumps(page([], "1")).encode()
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

    def next(self):
        return self.asked.get(timeout=WAIT)

    def close(self):
        self.ends.set()
        self.http.shutdown()
        self.http.server_close()


class Asked:
    """One request for nodes."""

    def __init__(self, handler, query):
        self.handler, self.query = handler, query
        self.over = threading.Event()
        self.watch = "watch" in query
        self.bearer = handler.headers.get("Authorization")

    def answer(self, status, body, **headers):
        data = json.dumps(body).encode()
        h = self.handler
        h.send_response(status)
        for k, v in headers.items():
            h.send_header(k.replace("_", "-"), v)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        h.wfile.write(data)
        self.over.set()

    def begin(self):
        self.handler.close_connection = True
        self.handler.send_response(200)
        self.handler.end_headers()
        self.handler.wfile.flush()

    def event(self, kind, obj):
        self.handler.wfile.write(json.dumps({"type": kind, "object": obj}
                                            ).encode() + b"\n")
        self.handler.wfile.flush()

    def end(self, text=b""):
        with contextlib.suppress(OSError):
            self.handler.wfile.write(text)
        self.over.set()


def node(name, version="1", gpus="8"):
    return {"kind": "Node", "metadata": {"name": name,
                                         "resourceVersion": version},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi",
                                       "nvidia.com/gpu": gpus}}}


def page(items, version, more=""):
    return {"kind": "NodeList", "metadata": {"resourceVersion": version,
                                             "continue": more},
            "items": items}


def gone(text="too old resource version"):
    return {"kind": "Status", "status": "Failure", "code": 410,
            "reason": "Expired", "message": text}


def has(f, nodes, gpus, text):
    got = f.until({"nodes": nodes, "gpus": gpus})
    TAP.equal((got["nodes"], got["gpus"]), (nodes, gpus), text)


def test_pages(server, f):
    q = server.next()
    TAP.equal((q.query.get("limit"), q.query.get("continue")), ("500", None),
              "the first page")
    q.answer(200, page([node("a"), node("b")], "7", "go on&on"))
    q = server.next()
    TAP.equal(q.query.get("continue"), "go on&on", "the list goes on")
    q.answer(410, gone("the provided continue parameter is too old"))
    q = server.next()
    TAP.equal(q.query.get("continue"), None, "too old to go on: it begins anew")
    q.answer(200, page([node("b"), node("c")], "9", "more"))
    q = server.next()
    q.answer(200, page([node("d")], "9"))
    w = server.next()
    TAP.equal((w.watch, w.query.get("resourceVersion"),
               w.query.get("allowWatchBookmarks")), (True, "9", "true"),
              "then a watch from the list's version on")
    has(f, 3, 24, "what was only in the first try is not there")
    return w


def test_watch(server, f, w):
    w.begin()
    w.event("ADDED", node("e", "10"))
    w.event("MODIFIED", node("b", "11", "4"))
    w.event("DELETED", node("c", "12"))
    has(f, 3, 20, "came, changed, went")
    w.event("MODIFIED", {"kind": "Node", "metadata": {
        "name": "b", "resourceVersion": "13"}, "status": {
        "allocatable": {"cpu": "lots"}}})
    TAP.ok("nodes: passed over: node b: status.allocatable.cpu: 'lots'" in
           f.next("trouble")["trouble"], "one odd object is said")
    w.event("BOOKMARK", {"kind": "Node", "metadata": {
        "resourceVersion": "99"}})
    has(f, 3, 20, "and passed over")
    w.end()
    w = server.next()
    TAP.equal((w.watch, w.query.get("resourceVersion")), (True, "99"),
              "the next goes on from the bookmark")
    w.begin()
    w.end(b'{"type":"ADDED","object":{"kind":"No')
    w = server.next()
    TAP.equal(w.query.get("resourceVersion"), "99",
              "half an event is none, and no trouble")
    w.begin()
    w.event("ADDED", node("f", "100"))
    w.event("ERROR", gone())
    w.end()
    q = server.next()
    TAP.equal(q.watch, False, "too old: a list again")
    q.answer(200, page([node("z")], "200"))
    has(f, 1, 8, "all else is gone")
    return server.next()


def test_trouble(server, f, w):
    w.answer(403, {"kind": "Status", "code": 403, "message":
                   'nodes is forbidden: User "u" cannot watch resource'})
    TAP.ok('nodes: not allowed (403): nodes is forbidden: User "u" cannot '
           'watch' in f.next("trouble")["trouble"], "not allowed to watch")
    w = server.next()
    TAP.equal((w.watch, w.query.get("resourceVersion")), (True, "200"),
              "tried again, from where it was")
    w.begin()
    TAP.equal(f.next("well"), {"well": "nodes"}, "and well again")
    w.event("SOMETHING", node("q"))
    TAP.ok("with the type 'SOMETHING'" in f.next("trouble")["trouble"],
           "an event nobody knows")
    w.end()
    w = server.next()
    w.begin()
    f.next("well")
    w.end(b"<html>\n")
    TAP.ok("not JSON" in f.next("trouble")["trouble"], "garbage in a watch")
    w = server.next()
    w.begin()
    f.next("well")
    return w


def test_follow(pki, server, folder):
    conf = kubeconfig(folder, server.port, {"token": "t"}, pki.ca)
    with Follow(FOLLOW, conf) as f:
        w = test_pages(server, f)
        TAP.equal(w.bearer, "Bearer t", "with the token")
        w = test_watch(server, f, w)
        w = test_trouble(server, f, w)
        TAP.equal(f.end(), 0, "it ends in the midst of a watch")
        w.end()


def test_token_renewed(pki, server, folder):
    """A token that is refused is read anew from its file, in time."""
    path = os.path.join(folder, "token")
    with open(path, "w", encoding="ascii") as f:
        f.write("old\n")
    conf = kubeconfig(folder, server.port, {"tokenFile": path}, pki.ca)
    with Follow(FOLLOW, conf) as f:
        q = server.next()
        TAP.equal(q.bearer, "Bearer old", "the token of a file")
        with open(path, "w", encoding="ascii") as t:
            t.write("new\n")
        q.answer(401, {"kind": "Status", "code": 401,
                       "message": "Unauthorized"})
        while True:
            q = server.next()
            if q.bearer == "Bearer new":
                break
            q.answer(401, {})
        TAP.ok(True, "and the new one after a while")
        q.answer(200, page([node("a")], "1"))
        f.next("well")
        has(f, 1, 8, "which is taken")
        server.next().end()


def test_wrong(pki, folder):
    other = Pki(os.path.join(folder, "other"), "other-ca")
    good = pki.sign("stub", "/CN=stub", "serverAuth", "IP:127.0.0.1,DNS:stub")
    ended = pki.sign("old", "/CN=old", "serverAuth", "IP:127.0.0.1",
                     ended=True)
    user = {"token": "t"}
    for what, cert, answer, words, more in (
            ("a wrong CA", good, b"",
             ["certificate is not signed by an authority that is trusted"],
             {"ca": other.ca}),
            ("a certificate that has ended", ended, b"", ["expired"], {}),
            ("another name", good, b"", ["other"],
             {"cluster": {"tls-server-name": "other"}}),
            ("the name it has", good, OK % (7, b"<html>\n"), ["not JSON"],
             {"cluster": {"tls-server-name": "stub"}}),
            ("garbage", good, OK % (7, b"<html>\n"),
             ["does not answer as an API server does", "not JSON"], {}),
            ("no list", good, OK % (15, b'{"kind":"List"}'),
             ["no list of objects"], {}),
            ("not even HTTP", good, b"SSH-2.0-x\r\n",
             ["what answers does not speak HTTP"], {}),
            ("half an answer", good,
             b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
             ["the connection broke"], {}),
            ("a proxy's page", good,
             b"HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n"
             b"Connection: close\r\n\r\noops",
             ["in trouble (502)", "oops"], {})):
        stub = Stub(cert, answer)
        conf = kubeconfig(folder, stub.port, user,
                          more.get("ca", pki.ca), more.get("cluster"))
        said(TAP, FOLLOW, conf, words, what)
        stub.close()


def test_busy(pki, folder):
    """Retry-After is kept, by all together."""
    wait = 1
    cert = pki.sign("busy", "/CN=busy", "serverAuth", "IP:127.0.0.1")
    stub = Stub(cert, b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\n"
                b"Retry-After: %d\r\nContent-Length: 0\r\n\r\n" % wait)
    conf = kubeconfig(folder, stub.port, {"token": "t"}, pki.ca)
    with Follow(FOLLOW, conf) as f:
        stub.wait_for(6)
        lines = f.troubles()
    stub.close()
    # Both lists ask before the first answer is there; then they wait.
    gaps = [b - a for a, b in zip(stub.times, stub.times[2:])]
    TAP.ok(min(gaps) >= wait - 0.3, "429: none comes before it may",
           f"gaps {[round(g, 2) for g in gaps]}")
    TAP.ok(len(lines) == 2 and all("too much to do (429)" in x
                                   for x in lines), "said once", *lines)


def main():
    as_sigterm_exit()
    folder = tempfile.mkdtemp(prefix="weir-scripted.")
    try:
        pki = Pki(os.path.join(folder, "pki"))
        cert = pki.sign("server", "/CN=server", "serverAuth", "IP:127.0.0.1")
        for test in test_follow, test_token_renewed:
            server = Server(cert)
            test(pki, server, folder)
            server.close()
        test_wrong(pki, folder)
        test_busy(pki, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return TAP.done()


if __name__ == "__main__":
    sys.exit(main())
