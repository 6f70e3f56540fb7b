"""An HTTPS server that answers every request with the same bytes; for what no
API server does on demand.
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
        self.times = []
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
            threading.Thread(target=self.one, args=(conn,),
                             daemon=True).start()

    def one(self, conn):
        with contextlib.suppress(OSError):
            with self.context.wrap_socket(conn, server_side=True) as s:
                if s.recv(65536):
                    self.times.append(time.monotonic())
                    s.sendall(self.answer)
                    s.unwrap()

    def wait_for(self, n):
        while len(self.times) < n:
            time.sleep(0.05)

    def close(self):
        self.listener.close()
