"""What schemathesis cannot know about three operations, said before each of
their requests.  WEIR_SOCKET is the server's socket, WEIR_TOKEN an admin's
token, WEIR_TOKEN_ID its id, WEIR_BACKUPS a folder of the test's own.

watch has no end of its own: each request has a token of its own, which is
revoked a moment later, and the stream ends then, as the document says.
backup writes where it is told to: below WEIR_BACKUPS.
revokeToken is given another token where it would revoke the one in use.
"""
import hashlib
import os
import sys
import threading

import schemathesis
from hypothesis import strategies

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from apitest import Client  # noqa: E402

WATCH_S = 0.2
# By itself schemathesis puts letters and digits alone into headers.
schemathesis.openapi.format(
    "cursor", strategies.from_regex(r"\A[0-9]{1,18}:[0-9]{1,18}\Z",
                                    alphabet=strategies.characters(
                                        codec="ascii")))


def new_token():
    c = Client(os.environ["WEIR_SOCKET"], timeout=60)
    return c.need("POST", "/v1/tokens", {"name": "short", "role": "viewer",
                                         "tenant": "default"}, want=201)


def revoke(ident):
    Client(os.environ["WEIR_SOCKET"], timeout=60).need(
        "DELETE", f"/v1/tokens/{ident}", want=204)


@schemathesis.auth(refresh_interval=None)
class Auth:
    def get(self, case, context):
        del context
        if case.operation.label != "GET /v1/watch":
            return os.environ["WEIR_TOKEN"]
        token = new_token()
        threading.Timer(WATCH_S, revoke, (token["id"],)).start()
        return token["token"]

    def set(self, case, data, context):
        del context
        case.headers["Authorization"] = f"Bearer {data}"


def bound_backup(case):
    """What the document allows gets a file of its own, the same each time; the
    rest stays as it is and is refused.
    """
    file = case.body.get("file") if isinstance(case.body, dict) else None
    if isinstance(file, str) and file[:1] == "/" and 2 <= len(file) <= 4000:
        name = hashlib.sha256(file.encode("utf-8", "surrogatepass"))
        case.body["file"] = f"{os.environ['WEIR_BACKUPS']}/{name.hexdigest()}"


def spare_token(case):
    if case.path_parameters.get("id") == os.environ["WEIR_TOKEN_ID"]:
        case.path_parameters["id"] = new_token()["id"]


BEFORE = {"POST /v1/backup": bound_backup,
          "DELETE /v1/tokens/{id}": spare_token}


@schemathesis.hook
def before_call(context, case, kwargs):
    del kwargs
    if context.operation.label in BEFORE:
        BEFORE[context.operation.label](case)
