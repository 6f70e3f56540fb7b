#!/usr/bin/env python3
"""The server against clients that do not behave: sizes, counts, broken
requests, slow ones.  Every one gets an answer or a clean end, none hangs, and
the next client is served as if nothing had been.
"""
import contextlib
import json
import os
import random
import socket

from apitest import JOB, Client, Server, Tap, status, until, whole


def get(target="/healthz", *lines):
    head = [f"GET {target} HTTP/1.1", "Host: x", *lines]
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1")


def post(body, *lines, target="/v1/workloads", length=None):
    head = [f"POST {target} HTTP/1.1", "Host: x",
            f"Content-Length: {len(body) if length is None else length}",
            *lines]
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body


def problem(tap, data, want, text):
    """That status, with a problem object in it."""
    got = status(data)
    detail = None
    if got == want:
        head, _, body = data.partition(b"\r\n\r\n")
        if b"application/problem+json" in head:
            detail = json.loads(body).get("detail")
    tap.ok(got == want and detail, f"{text}: {want}", data and data[:300])


def sweep(tap, server, name, sizes, make, good, bad):
    """Requests of every size: `good` up to some size, one of `bad` or a clean
    end from there on, never silence.
    """
    seen, wrong, over = [], [], False
    for n in sizes:
        got = status(server.raw(make(n), timeout=10))
        seen.append(got)
        if got == good and not over:
            continue
        over = True
        if got not in bad:
            wrong.append((n, got))
    tap.ok(not wrong and good in seen and over,
           f"{name}: {len(seen)} sizes, answers {sorted(set(map(str, seen)))}",
           f"wrong (size, status): {wrong[:10]}", f"all: {seen[:40]}")


def sizes(tap, server):
    many = sorted({0, 1, 100} | {2 ** k + d for k in range(9, 18)
                                 for d in (-1, 0, 1)} |
                  {8150, 8180, 8192, 8193, 16000, 16350, 65400, 131000,
                   300000})
    sweep(tap, server, "URL length", many,
          lambda n: get("/healthz?" + "&" * n), 200, (414, 431, 0))
    sweep(tap, server, "path length", many,
          lambda n: get("/v1/workloads/w1" + "x" * n), 404, (414, 431, 0))
    sweep(tap, server, "query arguments", [0, 1, 50, 99, 100, 101, 150, 500,
                                           1000, 2000, 4000, 20000],
          lambda n: get("/v1/workloads?" + "&".join(["limit=1"] * n)
                        if n < 2 else "/v1/workloads?" +
                        "&".join(f"a{i}=1" for i in range(n))),
          200, (400, 414, 431, 0))
    sweep(tap, server, "size of a header", many,
          lambda n: get("/healthz", "X-Large: " + "x" * n), 200, (431, 0))
    sweep(tap, server, "number of headers",
          [0, 1, 50, 98, 99, 100, 101, 200, 500, 1000, 2000, 5000],
          lambda n: get("/healthz", *[f"X-{i}: y" for i in range(n)]),
          200, (431, 0))
    sweep(tap, server, "empty headers", [0, 10, 98, 200, 1000, 5000, 20000],
          lambda n: get("/healthz", *["a:"] * n), 200, (431, 0))
    sweep(tap, server, "length of the method", [3, 10, 20, 100, 1000, 10000,
                                               100000],
          lambda n: b"G" * n + b" /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
          405, (414, 431, 400, 0))


def broken(tap, server):
    for text, data, want in (
            ("no request at all", b"\r\n\r\n\r\n", (400, 0)),
            ("no version", b"GET /healthz\r\n\r\n", (400, 505, 0)),
            ("HTTP/3", b"GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n",
             (505, 400, 0)),
            ("TLS on the plain socket", b"\x16\x03\x01\x02\x00\x01\x00\x01"
             + bytes(200), (400, 0)),
            ("a header without a colon", get("/healthz", "nonsense"),
             (400, 0)),
            ("a negative length", post(b"", length=-1), (400, 0)),
            ("a length that is no number", post(b"", length="x"), (400, 0)),
            ("a length past 64 bits",
             post(b"", length="99999999999999999999999"), (413, 400, 0)),
            ("two lengths", post(b"{}", "Content-Length: 2"), (400, 0)),
            ("length and chunks", post(b"0\r\n\r\n",
                                       "Transfer-Encoding: chunked"),
             (400, 0)),
            ("a chunk that is no chunk",
             b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\n"
             b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
             (400, 0)),
            ("a chunk longer than it says",
             b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\n"
             b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
             (400, 0)),
            ("a chunk of 16 EiB",
             b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\n"
             b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
             (400, 413, 0))):
        got = status(server.raw(data, half=True))
        tap.ok(got in want, f"{text}: {got}")
    for text, data in (
            ("no host", b"GET /healthz HTTP/1.1\r\n\r\n"),
            ("two hosts", get("/healthz", "Host: y")),
            ("a blank before a colon", get("/healthz", "X-Header : y")),
            ("a blank in a header's name", get("/healthz", "X Header: y")),
            ("a header's name that is no ASCII", get("/healthz", "\xe4: y")),
            ("a length that might hide a request",
             post(get("/healthz"), "Content-Length : 2", length=0)),
            ("a blank in the URL", get("/v1/a b"))):
        got = server.raw(data)
        problem(tap, got, 400, text)
        tap.ok(got and b"HTTP/1.1 200" not in got and
               b"\r\nConnection: close\r\n" in got, f"{text}: and closed")
    got = server.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    tap.ok(status(got) == 200, "HTTP/1.0 needs no host", got)
    for text, target in (("a NUL", "/v1/%00"), ("no UTF-8", "/v1/%ff"),
                         ("half a number", "/v1/%4"),
                         ("a control character", "/v1/tenants/a%0Ab")):
        problem(tap, server.raw(get(target)), 400, f"URL with {text}")
    got = server.raw(b"GET /heal", half=True)
    tap.ok(got == b"", "half a request and gone: closed", got)
    got = server.raw(post(b"{}", length=10), half=True)
    tap.ok(status(got) in (0, 400), "half a body and gone: closed", got)


def bodies(tap, server):
    large = b"#" + b"x" * (8 * 1024 * 1024)
    problem(tap, server.raw(post(large), timeout=60), 413,
            "a body of 8 MiB and a byte")
    tap.ok(status(server.raw(post(large[:-1]), timeout=60)) == 422,
           "8 MiB are read")
    got = server.raw(post(b"", length=10 ** 12))
    problem(tap, got, 413, "a terabyte is refused before it comes")
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    got = server.raw(b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 10
                     + b"0\r\n\r\n", timeout=60)
    problem(tap, got, 413, "ten chunks of 1 MiB")
    got = server.raw(b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 30
                     + b"0\r\n\r\n", timeout=60)
    tap.ok(status(got) in (413, 0), "thirty: refused or cut off", got)
    problem(tap, server.raw(post(b"{}" * 600000,
                                 target="/v1/workloads/w1/abort")), 413,
            "a JSON body past 1 MiB")
    got = server.raw(post(b"x" * 100000, target="/v1/workloads/w1/retry"))
    problem(tap, got, 413, "a body where none is wanted")
    got = server.raw(b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n"
                     b"14\r\nweir: 1\nkind: job\nru\r\n7\r\nn: true\r\n"
                     b"0\r\n\r\n")
    tap.ok(status(got) in (201, 422), "a document in chunks is read", got)
    got = server.raw(post(json.dumps(JOB).encode(), "Expect: 100-continue"))
    tap.ok(status(got) == 201, "Expect: 100-continue", got)
    problem(tap, server.raw(post(b"<x/>", "Content-Type: text/xml")), 415,
            "XML")
    deep = b'{"a":' * 100 + b"1" + b"}" * 100
    problem(tap, server.raw(post(deep, target="/v1/backup")), 400,
            "JSON nested 100 deep")
    for body in (b"{", b"[]", b"{} x", b'{"file": "/a", "file": "/b"}',
                 b'{"file": "\xff"}', b'{"file": "a\\u0000b"}', b"null"):
        problem(tap, server.raw(post(body, target="/v1/backup")), 400,
                f"body {body!r}")


def pipelined(tap, server):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(server.socket)
        s.sendall(get("/healthz") + get("/v1/version") + get("/v1/nope")
                  + get("/readyz", "Connection: close"))
        got = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
    codes = [int(p.split(b" ")[0]) for p in got.split(b"HTTP/1.1 ")[1:]]
    tap.equal(codes, [200, 200, 404, 200],
              "four requests in one go are answered in order")
    got = server.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    tap.equal(status(got), 200, "HTTP/1.0 is served")


def open_slow(server, data):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(server.socket)
    s.sendall(data)
    return s


def is_closed(s):
    try:
        return s.recv(4096) == b""
    except ConnectionResetError:
        return True


def slow(tap, server):
    """A client that sends a byte now and then holds nothing for ever."""
    heads = [open_slow(server, b"GET /healthz HTTP/1.1\r\nX: ")
             for _ in range(20)]
    idle = open_slow(server, b"")
    body = open_slow(server, post(b"weir: 1\n", length=1000))
    for s in heads:
        s.sendall(b"y")
    tap.ok(server.admin.get("/healthz").status == 200,
           "slow clients do not keep others waiting")
    server.do("later 31000")
    server.admin.get("/healthz")
    tap.ok(all(is_closed(s) for s in heads),
           "a head that is not there after 30 s is cut off")
    tap.ok(is_closed(idle), "so is a connection that asks nothing")
    body.sendall(b"kind")
    server.do("later 91000")
    server.admin.get("/healthz")
    tap.ok(is_closed(body), "a body that is not there after 120 s too")
    for s in heads + [idle, body]:
        s.close()


def many(tap, server):
    """More connections than a client should have, all of them at once."""
    conns = [open_slow(server, b"") for _ in range(1000)]
    for s in conns:
        s.sendall(get("/v1/version"))
    answers = 0
    for s in conns:
        got = b""
        while not whole(got):
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
        answers += status(got) == 200
        s.close()
    tap.equal(answers, 1000, "1000 connections at once are served")


def rubbish(tap, server):
    """Seeded noise: pieces of requests in any order."""
    draw = random.Random(1)
    pieces = [b"GET ", b"POST ", b"/healthz", b"/v1/workloads", b" HTTP/1.1",
              b"\r\n", b"\r\n\r\n", b"Host: x\r\n", b"Content-Length: 5\r\n",
              b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n",
              b"0\r\n\r\n", b"\0", b"\xff\xfe", b"%00", b"?", b"&" * 200,
              b"Expect: 100-continue\r\n", b": ", b"\n", b"a" * 3000]
    conns = []
    for _ in range(300):
        s = open_slow(server, b"")
        with contextlib.suppress(OSError):   # closed before all was sent
            s.sendall(b"".join(draw.choice(pieces)
                               for _ in range(draw.randrange(1, 20))))
            s.shutdown(socket.SHUT_WR)
        conns.append(s)
    silent = 0
    for s in conns:
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            silent += 1
        s.close()
    tap.equal(silent, 0, "300 times noise: every one is answered or closed")


def main():
    tap = Tap()
    with Server() as server:
        sizes(tap, server)
        broken(tap, server)
        bodies(tap, server)
        pipelined(tap, server)
        slow(tap, server)
        many(tap, server)
        rubbish(tap, server)
        c = Client(server.socket, timeout=10)
        tap.equal(c.submit(JOB).status, 201, "after all that it still works")
        def alone():
            r = c.get("/metrics").body.decode()
            return "weir_http_connections 1\n" in r
        tap.ok(until(alone, "connections are closed"),
               "and holds no connection but this one")
        tap.equal(server.end(), 0, "it ends well")
        tap.ok(not os.path.exists(server.socket), "and takes its socket along")
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
