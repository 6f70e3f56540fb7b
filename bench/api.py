#!/usr/bin/env python3
"""How long a submission waits while many watch, one JSON object a line.

    bench/api.py [--watchers 5000] [--slow 200] [--submits 200] [--rate 10]
                 [--quick]

The watchers (in a process of their own) read everything they are sent and
count it; of the slow clients a third watches and never reads, a third sends
its head byte by byte, a third its body.  Submissions come at a steady rate, of
a job that fits no device and of one that runs; each is timed from the first
byte sent to the whole answer, which is not sent before it is durable.  The
same is measured before anybody watches.
"""
import argparse
import json
import multiprocessing
import os
import resource
import select
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "tests"))
from figures import quantile, say                  # noqa: E402
from weirtest import Weir, until                   # noqa: E402

WAITS = {"weir": 1, "kind": "job", "name": "waits", "run": "true",
         "gpus": 64}
RUNS = {"weir": 1, "kind": "job", "name": "runs", "argv": ["true"],
        "cpus": 0.01}


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    while True:
        try:
            s.connect(path)
            return s
        except BlockingIOError:
            time.sleep(0.001)          # the backlog is full


def watch(path, n, pipe):
    """n watchers; the number of events seen so far, when asked for."""
    # On a small machine the readers would be what is measured otherwise.
    os.nice(10)
    poll = select.epoll()
    conns = {}
    for _ in range(n):
        s = connect(path)
        s.sendall(b"GET /v1/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        conns[s.fileno()] = s
        poll.register(s, select.EPOLLIN)
    poll.register(pipe, select.EPOLLIN)
    heads = events = 0
    while True:
        for fd, _ in poll.poll():
            if fd == pipe.fileno():
                if pipe.recv() is None:
                    return
                pipe.send((heads, events, len(conns)))
                continue
            data = conns[fd].recv(262144)
            heads += data.count(b"HTTP/1.1 200")
            events += data.count(b"\nevent: ")
            if not data:
                poll.unregister(fd)
                conns.pop(fd).close()


def slow_clients(path, n):
    conns = []
    for i in range(n):
        s = connect(path)
        s.sendall((b"GET /v1/watch HTTP/1.1\r\nHost: x\r\n\r\n",
                   b"GET /v1/workloads HTTP/1.1\r\nX: ",
                   b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\n"
                   b"Content-Length: 100000\r\n\r\n")[i % 3])
        conns.append(s)
    return conns


def trickle(conns):
    for i, s in enumerate(conns):
        if i % 3:
            try:
                s.sendall(b"x")
            except OSError:
                pass                   # cut off, as it should be


def answer(s):
    data = b""
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r")[0])
    while len(body) < length:
        body += s.recv(65536)
    return int(head.split(b" ")[1])


def submits(path, doc, count, rate, slow):
    """Milliseconds of each."""
    body = json.dumps(doc).encode()
    data = (b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\nContent-Type: "
            b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body)
    times = []
    s = connect(path)
    due = time.perf_counter()
    for _ in range(count):
        due += 1 / rate
        time.sleep(max(0, due - time.perf_counter()))
        trickle(slow)
        start = time.perf_counter()
        s.sendall(data)
        status = answer(s)
        times.append((time.perf_counter() - start) * 1000)
        if status != 201:
            raise RuntimeError(f"submit: {status}")
    s.close()
    return times


def report(name, times, **more):
    say(name, submits=len(times), p50_ms=round(quantile(times, .5), 2),
        p99_ms=round(quantile(times, .99), 2), max_ms=round(max(times), 2),
        **more)


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) // 1024
    return 0


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("--watchers", type=int, default=5000)
    parse.add_argument("--slow", type=int, default=200)
    parse.add_argument("--submits", type=int, default=200)
    parse.add_argument("--rate", type=float, default=10)
    parse.add_argument("--quick", action="store_true")
    args = parse.parse_args()
    if args.quick:
        args.watchers, args.slow, args.submits = 500, 30, 30
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Weir() as weir:
        weir.start()
        for name, doc in (("waits", WAITS), ("runs", RUNS)):
            report("api-alone", submits(weir.socket, doc, args.submits // 2,
                                        args.rate, []), job=name)
        ours, theirs = multiprocessing.Pipe()
        reader = multiprocessing.Process(
            target=watch, args=(weir.socket, args.watchers, theirs))
        reader.start()

        def seen():
            ours.send(1)
            return ours.recv()
        start = time.perf_counter()
        until(lambda: seen()[0] == args.watchers, "all watch")
        say("api-watchers", watchers=args.watchers,
            opened_s=round(time.perf_counter() - start, 2),
            rss_mib=rss(weir.proc.pid))
        slow = slow_clients(weir.socket, args.slow)
        for name, doc in (("waits", WAITS), ("runs", RUNS)):
            first = weir.client.events()[-1]["seq"]
            before = seen()[1]
            start = time.perf_counter()
            times = submits(weir.socket, doc, args.submits, args.rate, slow)
            made = until(lambda: quiet(weir), "the end") - first
            until(lambda: seen()[1] - before >= made * args.watchers,
                  "everybody has everything")
            took = time.perf_counter() - start
            report("api-watched", times, job=name, watchers=args.watchers,
                   slow=args.slow, events=made,
                   sent_per_s=round(made * args.watchers / took),
                   rss_mib=rss(weir.proc.pid))
        say("api-end", watchers=seen()[2])
        ours.send(None)
        reader.join()
        for s in slow:
            s.close()


def quiet(weir):
    """The newest event's number once nothing that can run is left."""
    left = [w for w in weir.client.get("/v1/workloads", state="live",
                                       limit=1000).json["items"]
            if w["name"] == "runs"]
    return None if left else weir.client.events()[-1]["seq"]


if __name__ == "__main__":
    main()
