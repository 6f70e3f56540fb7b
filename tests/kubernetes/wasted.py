#!/usr/bin/env python3
"""`weir waste` of a pool whose API server does what it is told: what happens
when is known to the second, without a cluster.  The real one is waste.py's.
"""
import http.server
import json
import os
import queue
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Pki, kubeconfig  # noqa: E402
from recount import KINDS, stamp  # noqa: E402
from weirtest import Weir, until  # noqa: E402

HOUR = 3600


class Api:
    """Lists and watches of nodes and pods; `away`: it lets nobody in."""

    def __init__(self, cert):
        self.objects = {"nodes": {}, "pods": {}}
        self.watches = {"nodes": [], "pods": []}
        self.version = 1
        self.away = False
        self.lock = threading.Lock()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):          # noqa: N802
                url = urllib.parse.urlparse(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                kind = url.path.rsplit("/", 1)[-1]
                if api.away:
                    self.send_error(503)
                elif "watch" in query:
                    api.watch(self, kind)
                else:
                    api.list(self, kind)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*cert)
        self.http.socket = context.wrap_socket(self.http.socket,
                                               server_side=True)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def list(self, handler, kind):
        with self.lock:
            body = json.dumps({"metadata": {"resourceVersion":
                                            str(self.version)},
                               "items": list(self.objects[kind].values())})
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body.encode())

    def watch(self, handler, kind):
        events = queue.Queue()
        with self.lock:
            self.watches[kind].append(events)
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        while (event := events.get()) is not None:
            handler.wfile.write(json.dumps(event).encode() + b"\n")
            handler.wfile.flush()

    def put(self, kind, o, gone=False):
        with self.lock:
            self.version += 1
            o["metadata"]["resourceVersion"] = str(self.version)
            name = o["metadata"]["name"]
            if gone:
                del self.objects[kind][name]
            else:
                self.objects[kind][name] = o
            for w in self.watches[kind]:
                w.put({"type": "DELETED" if gone else "MODIFIED",
                       "object": o})

    def cut(self):
        """Whoever watches is let go."""
        with self.lock:
            for w in self.watches["nodes"] + self.watches["pods"]:
                w.put(None)
            self.watches = {"nodes": [], "pods": []}

    def close(self):
        self.cut()
        self.http.shutdown()
        self.http.server_close()


def at(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def node(name, gpus, made):
    return {"metadata": {"name": name, "creationTimestamp": at(made), "labels": {
                "nvidia.com/gpu.product": "H100"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                       "allocatable": {"cpu": "64", "memory": "512Gi",
                                       "nvidia.com/gpu": str(gpus)}}}


def pod(space, name, gpus, made, on=None, bound=None, ended=None):
    conditions = [{"type": "PodScheduled", "status": "False",
                   "message": "0/1 nodes are available:\n1 Insufficient gpu"}]
    if bound:
        conditions = [{"type": "PodScheduled", "status": "True",
                       "lastTransitionTime": at(bound)}]
    o = {"metadata": {"name": name, "namespace": space, "uid": name,
                      "creationTimestamp": at(made)},
         "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {
             "requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}}]},
         "status": {"phase": "Pending", "conditions": conditions}}
    if ended:
        o["status"] |= {"phase": "Succeeded", "containerStatuses": [
            {"name": "c", "state": {"terminated": {"finishedAt": at(ended)}}}]}
    return o


def waste(weir, **query):
    return weir.client.need("GET", "/v1/waste/lab?" +
                            urllib.parse.urlencode(query))


def rows(weir):
    return [e["data"] for e in weir.client.need(
        "GET", "/v1/events?type=pool.seen&limit=1000")["items"]]


def restart(weir):
    weir.stop()
    weir.start()


def ready(weir):
    return weir.client.need("GET", "/v1/pools/lab")["state"] == "ready"


def pause(seconds):
    """To the middle of a second, so many later."""
    time.sleep(seconds - time.time() % 1 + 0.5)


def test_words(tap, weir, conf):
    r = weir.cli("waste")
    tap.ok(r.returncode == 4 and "--observe" in r.stderr,
           f"no such pool: {r.stderr.strip()}")
    r = weir.cli("waste", "lab", "--since", "soon")
    tap.ok(r.returncode == 2 and "--since" in r.stderr, r.stderr.strip())
    tap.equal(weir.cli("waste", "lab").returncode, 4, "not there")
    r = weir.cli("waste", "local")
    tap.equal(r.returncode, 4, "our own has no such report")
    weir.cli("pool", "add", "side", "--engine", "fake", check=True)
    r = weir.cli("waste", "side")
    tap.ok(r.returncode == 7 and "--observe" in r.stderr, r.stderr.strip())
    weir.cli("pool", "add", "lab", "--engine", "kubernetes", "--kubeconfig",
             conf, "--observe", check=True)
    tap.equal(weir.client.call("GET", "/v1/waste/lab?since=soon").status, 422,
              "since when?")


def test_shares(tap, weir, api, began):
    """8 GPUs, 4 of them in use; who wants 8 fits nowhere until another node
    comes, which takes it."""
    until(lambda: ready(weir), "the pool")
    pause(3)
    came = int(time.time())
    api.put("nodes", node("n2", 8, came))
    pause(4)
    bound = int(time.time())
    api.put("pods", pod("speech", "big", 8, began - HOUR, "n2", bound))
    pause(3)
    ended = int(time.time())
    api.put("pods", pod("vision", "old", 4, began - HOUR, "n1", began - HOUR,
                        ended))
    pause(3)
    restart(weir)
    w = waste(weir)
    d, over = w["devices"], rows(weir)
    first, last = stamp(over[0]["from"]), stamp(over[-1]["to"])
    tap.ok(first < came and w["seen_seconds"] == last - first,
           f"{last - first} s were seen")
    tap.equal(d["idle_frag"], 4 * (came - first), "fragments until a node came")
    tap.equal(d["waste"], 12 * (bound - came), "wasted until it was bound")
    tap.equal(d["used"], 4 * (ended - first) + 8 * (last - bound),
              "in use, to the second")
    tap.equal(d["idle_nodemand"], 4 * (ended - bound) + 8 * (last - ended),
              "and then nobody waited")
    tap.equal((d["total"], d["asked"]), (sum(d[k] for k in KINDS),
                                         4 * (came - first) +
                                         8 * (bound - came)),
              "that is all, and what was asked for")
    tap.ok(abs(d["wr"] - (d["waste"] + d["idle_frag"]) / d["total"]) < 1e-6,
           "WR")
    one = w["waits"][0]
    tap.equal((one["pod"], one["devices"], one["going"], one["wait_seconds"]),
              ("speech/big", 8, False, bound - began + HOUR),
              "who waited, and how long")
    tap.ok(one["why"] == "0/1 nodes are available: 1 Insufficient gpu" and
           one["fits_seconds"] * 12 == d["waste"], "why, and who is to blame",
           one)
    tap.equal([s["name"] for s in w["namespaces"]],
              ["speech", "vision"] if 8 * (last - bound) > 4 * (ended - first)
              else ["vision", "speech"], "namespaces, by use")


def test_money(tap, weir):
    before = waste(weir)["devices"]
    policy = os.path.join(weir.folder, "policy.yaml")
    with open(policy, "w", encoding="ascii") as f:
        f.write("{weir: 1, kind: policy, models: [{model: H100, price: 3600}]}")
    tap.equal(before["cost"]["used"], 0, "no prices, no money")
    weir.cli("policy", "set", policy, check=True)
    after = waste(weir)
    tap.equal(after["devices"]["cost"]["waste"], after["devices"]["waste"],
              "a device at 3600 an hour costs 1 a second")
    tap.ok(abs(sum(s["cost"] for s in after["namespaces"]) -
               after["devices"]["used"]) < 1e-3, "by namespace")


def test_gap(tap, weir, api):
    until(lambda: ready(weir), "the pool")
    pause(2)
    before = rows(weir)
    api.away = True
    api.cut()
    until(lambda: not ready(weir), "the server to be away")
    pause(3)
    api.away = False
    until(lambda: ready(weir), "the server to be back")
    pause(2)
    restart(weir)
    after = rows(weir)
    tap.ok(len(after) >= len(before) + 2, "rows on both sides")
    gap = max(stamp(b["from"]) - stamp(a["to"])
              for a, b in zip(after[len(before):], after[len(before) + 1:]))
    tap.ok(gap >= 3, f"{gap} s are not seen")
    w = waste(weir)
    known = sum(stamp(r["to"]) - stamp(r["from"]) for r in after)
    tap.ok(w["seen_seconds"] >= known and w["not_seen_seconds"] >= gap and
           w["seen_seconds"] + w["not_seen_seconds"] ==
           stamp(w["to"]) - stamp(w["from"]), "and all the time is there", w)
    tap.equal(sum(p["seen_seconds"] for p in w["series"]), w["seen_seconds"],
              "in the series, too")
    tap.equal(sum(p["seconds"] for p in w["series"]),
              stamp(w["to"]) - stamp(w["from"]), "which has no hole")


def plan(weir):
    return json.loads(weir.cli("waste", "lab", "--plan", "-o",
                               "json").stdout)["items"][0]["plan"]


def test_faces(tap, weir):
    text = weir.cli("waste", "lab").stdout
    tap.ok("wasted" in text and "speech/big" in text and
           "0/1 nodes are available: 1 Insufficient gpu" in text and
           "seen for" in text, "the table", text)
    page = weir.cli("waste", "-o", "html").stdout
    tap.ok(page.startswith("<!DOCTYPE html>") and "What lab wastes" in page and
           page.count("<svg") == 1 and "speech/big" in page and
           "http" not in page and "nan" not in page, "the page", page[-300:])
    answer = json.loads(weir.cli("waste", "-o", "json").stdout)
    tap.equal([w["pool"] for w in answer["items"]], ["lab"], "as JSON")
    until(lambda: plan(weir).get("pods") == 2, "both pods in the plan")
    p = plan(weir)
    tap.ok(p["left_out"] == 0 and p["average_wait_seconds_plan"] <=
           p["average_wait_seconds"] and 0 <= p["wr_plan"] <= p["wr"] <= 1,
           "what our plan would have done", p)
    tap.ok("Weir's plan" in weir.cli("waste", "--plan").stdout and
           "What Weir would have done" in weir.cli(
               "waste", "--plan", "-o", "html").stdout, "and its faces")
    tap.ok(weir.cli("waste", "-o", "csv").stdout.count("\nlab,") >= 1,
           "the series as CSV")


def test_metrics(tap, weir, conf):
    until(lambda: ready(weir), "the pool")
    pause(2)
    weir.cli("pool", "add", "lab", "--engine", "kubernetes", "--kubeconfig",
             conf, "--conf", "namespace=x", "--observe", check=True)
    until(lambda: 'weir_observed_device_seconds_total{pool="lab",model="H100",'
          'kind="used"}' in weir.client.get("/metrics").body.decode(),
          "its numbers")
    tap.ok('weir_observed_seconds_total{pool="lab"} ' in
           weir.client.get("/metrics").body.decode(),
           "told something else, it keeps what it has seen")


def test_who(tap, weir):
    def status(role):
        token = weir.client.need("POST", "/v1/tokens", {
            "name": role, "role": role, "tenant": "default"}, want=201)
        return weirtest.Client(weir.socket, token=token["token"]).call(
            "GET", "/v1/waste/lab").status
    tap.equal((status("user"), status("operator")), (403, 200),
              "namespaces are for operators to see")
    weir.cli("pool", "remove", "lab", check=True)
    tap.equal(weir.cli("waste", "lab").returncode, 4, "removed")


def run(tap):
    with tempfile.TemporaryDirectory() as folder, \
            Weir(devices="none") as weir:
        pki = Pki(os.path.join(folder, "pki"))
        api = Api(pki.sign("server", "/CN=server", "serverAuth",
                           "IP:127.0.0.1"))
        began = int(time.time())
        api.put("nodes", node("n1", 8, began - HOUR))
        api.put("pods", pod("vision", "old", 4, began - HOUR, "n1",
                            began - HOUR))
        api.put("pods", pod("speech", "big", 8, began - HOUR))
        weir.start()
        conf = kubeconfig(folder, api.port, {"token": "t"}, pki.ca)
        test_words(tap, weir, conf)
        test_shares(tap, weir, api, began)
        test_money(tap, weir)
        test_gap(tap, weir, api)
        test_faces(tap, weir)
        test_metrics(tap, weir, conf)
        test_who(tap, weir)
        tap.none(weir.faults(), "no fault")
        api.close()


if __name__ == "__main__":
    weirtest.main(run)
