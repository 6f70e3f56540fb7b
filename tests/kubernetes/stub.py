"""An HTTPS server that answers every request with the same bytes, or with what
a function of the request says; for what no API server does on demand.
"""
import contextlib
import socket
import ssl
import threading
import time

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"


class Stub:
    def __init__(self, cert, answer):
        self.answer = answer
        self.times = []                # of requests
        self.met = 0                   # connections, whatever came of them
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*cert)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.met += 1
            threading.Thread(target=self.one, args=(conn,),
                             daemon=True).start()

    def one(self, conn):
        with contextlib.suppress(OSError):
            with self.context.wrap_socket(conn, server_side=True) as s:
                asked = s.recv(65536)
                if asked:
                    self.times.append(time.monotonic())
                    s.sendall(self.answer(asked) if callable(self.answer)
                              else self.answer)
                    s.unwrap()

    def wait_for(self, n):
        while len(self.times) < n:
            time.sleep(0.05)

    def close(self):
        self.listener.close()
