"""What weir-gpud and its askers say to each other: frames of JSON."""
import json
import struct


def send(conn, message):
    body = json.dumps(message).encode()
    conn.sendall(struct.pack("<I", len(body)) + body)


def receive(conn):
    """The next message; EOFError when the other side hangs up."""
    def exactly(n):
        data = b""
        while len(data) < n:
            more = conn.recv(n - len(data))
            if not more:
                raise EOFError("weir-gpud hung up")
            data += more
        return data
    return json.loads(exactly(struct.unpack("<I", exactly(4))[0]))
