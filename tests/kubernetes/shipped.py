"""What is shipped in deploy/kubernetes, as a test puts it into a cluster."""
import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "deploy", "kubernetes")
NAMESPACE = "weir"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:weir"
IMAGE = "weir.test/weir"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Kubectl:
    """kubectl, as one who may do all."""

    def __init__(self, cluster):
        self.program = os.path.join(cluster.programs, "kubectl")
        self.conf = cluster.kubeconfig(cluster.by_cert(*cluster.admin))

    def run(self, *args):
        return subprocess.run([self.program, "--kubeconfig", self.conf, *args],
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)

    def need(self, *args):
        r = self.run(*args)
        if r.returncode:
            raise RuntimeError(f"kubectl {' '.join(args)}: {r.returncode}: "
                               f"{r.stdout[-2000:]}{r.stderr[-2000:]}")
        return r.stdout

    def objects(self, folder):
        """What a folder of kustomize comes to."""
        listed = self.need("create", "--dry-run=client", "--validate=false",
                           "-o", "json", "-k", folder)
        decoder, found = json.JSONDecoder(), []
        while listed.strip():
            o, end = decoder.raw_decode(listed.lstrip())
            found.append(o)
            listed = listed.lstrip()[end:]
        return found


def overlay(folder, resources, components=(), patches=()):
    """A folder for `apply -k` in a copy of what is shipped: with the test's
    image, and what a test's cluster needs beside it.
    """
    copy = os.path.join(folder, "kubernetes")
    shutil.copytree(FOLDER, copy, dirs_exist_ok=True)
    at = os.path.join(copy, f"test-{len(os.listdir(copy))}")
    os.mkdir(at)
    with open(os.path.join(at, "kustomization.yaml"), "w",
              encoding="ascii") as f:
        json.dump({"resources": [f"../{r}" for r in resources],
                   "components": [f"../{c}" for c in components],
                   "images": [{"name": "weir", "newName": IMAGE,
                               "newTag": "1"}],
                   "patches": [{"target": t, "patch": json.dumps(p)}
                               for t, p in patches]}, f)
    return at


def token(cluster, hours=1):
    """Of the account that the control plane's pod has."""
    made = cluster.need(
        "POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/weir/token",
        {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
         "spec": {"expirationSeconds": hours * 3600}})
    return made["status"]["token"]


def may(cluster, verb, resource, namespace=None, group=""):
    """Whether the account may, as the server sees it."""
    name, _, part = resource.partition("/")
    where = {"namespace": namespace} if namespace else {}
    return cluster.need("POST", REVIEWS, {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"user": ACCOUNT, "resourceAttributes": {
            "verb": verb, "group": group, "resource": name,
            "subresource": part, **where}}})["status"].get("allowed", False)
