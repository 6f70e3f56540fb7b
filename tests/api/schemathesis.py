#!/usr/bin/env python3
"""The API against its own OpenAPI document, with schemathesis.

    schemathesis.py API_SERVER FOLDER

Schemathesis makes requests from the document, valid ones and others, and
compares the answers with what the document says: statuses, content types,
schemas, that what is not allowed is refused, and that nothing fails.  It is not
in Debian: it is installed into FOLDER from PyPI, in the version below.  The
run is bounded and the same each time.  Two TAP points.
"""
import os
import subprocess
import sys
import tempfile

from apitest import JOB, Server, Tap
from tls_test import Certs, free_port

VERSION = "4.32.5"
CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "schemathesis.toml")
HOOKS = os.path.join(os.path.dirname(CONFIG), "schemathesis_hooks.py")
# A server may take more than the document names: unknown headers, a method
# that HTTP itself adds.
NOT_CHECKED = "unsupported_method"


def install(folder):
    tool = os.path.join(folder, "bin", "schemathesis")
    if not os.path.exists(tool):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([os.path.join(folder, "bin", "pip"), "-q", "install",
                        f"schemathesis=={VERSION}"], check=True)
    return tool


def fill(server):
    """Something to find: workloads and a tenant.  The workloads have ended, so
    that following a log comes to an end.
    """
    for n in range(1, 4):
        server.admin.submit(dict(JOB, name=f"job{n}"))
        server.do(f"claim {n} 0 0")
        server.do(f"log {n} 0 0 hello")
        server.do(f"end {n} 0 0 {n - 1}")
    server.admin.need("PUT", "/v1/tenants/red", {"members": ["uid:1000"]},
                      want=201)


def main():
    tap = Tap()
    tool = install(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="weir-st.") as folder:
        certs = Certs(folder)
        port = free_port()
        with Server(f"127.0.0.1:{port}", certs.path("server.pem"),
                    certs.path("server.key")) as server:
            fill(server)
            token = server.token("admin", expires="never")
            backups = os.path.join(folder, "backups")
            os.mkdir(backups)
            env = dict(os.environ, SCHEMATHESIS_HOOKS=HOOKS,
                       WEIR_SOCKET=server.socket, WEIR_BACKUPS=backups,
                       WEIR_TOKEN=token.token, WEIR_TOKEN_ID=token.id)
            done = subprocess.run(
                [tool, "--config-file", CONFIG, "run", f"https://127.0.0.1:{port}/v1/openapi.json",
                 "--tls-verify", certs.path("ca.pem"), "--seed", "1",
                 "--generation-deterministic",
                 "-n", "20", "--request-timeout", "90", "--no-color",
                 "--exclude-checks", NOT_CHECKED, "--continue-on-failure"],
                cwd=folder, env=env, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=1500)
            tap.ok(done.returncode == 0, "schemathesis finds nothing",
                   done.stdout[-12000:])
            tap.ok(os.listdir(backups), "and made backups")
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
