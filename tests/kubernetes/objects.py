"""Nodes and pods as objects alone: no machine stands behind them."""
import concurrent.futures

PODS = "/api/v1/namespaces/default/pods"


def node(name, gpus=8):
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                       "allocatable": {
                           "cpu": "64", "memory": "512Gi", "pods": "110",
                           "nvidia.com/gpu": str(gpus)}}}


def pod(name, gpus=0, on=None, cpu="100m"):
    """Bound to a node, or to none."""
    want = {"cpu": cpu} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
            "spec": {"nodeName": on, "containers": [
                {"name": "c", "image": "i", "resources": {
                    "requests": want, "limits": want}}]}}


def each(cluster, calls, width=4):
    """Requests (method, path, body) over a few connections at once."""
    def some(mine):
        conn = cluster.connect()
        for method, path, body in mine:
            cluster.need(method, path, body, over=conn)
        conn.close()
    calls = list(calls)
    with concurrent.futures.ThreadPoolExecutor(width) as pool:
        list(pool.map(some, [calls[k::width] for k in range(width)]))
