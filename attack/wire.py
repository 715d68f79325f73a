"""The wire: a proxy that damages a real server's messages, and servers that only pretend."""

import os
import random
import socket
import struct
import threading
import time


def message(tag, body=b""):
    return tag + struct.pack("!I", len(body) + 4) + body


def error(text, code=b"XX000", severity=b"FATAL"):
    return message(b"E", b"S" + severity + b"\0V" + severity + b"\0C" + code + b"\0M" + text + b"\0\0")


def parameter(name, value):
    return message(b"S", name + b"\0" + value + b"\0")


OK = message(b"R", struct.pack("!I", 0))
READY = message(b"Z", b"I")
KEY = message(b"K", struct.pack("!II", 4242, 99))
WELCOME = OK + parameter(b"server_version", b"15.4") + parameter(b"client_encoding", b"UTF8") + parameter(
    b"standard_conforming_strings", b"on") + parameter(b"integer_datetimes", b"on") + KEY + READY


def row(*values):
    body = struct.pack("!H", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!I", len(value)) + value
    return message(b"D", body)


def columns(*names):
    return message(b"T", struct.pack("!H", len(names)) + b"".join(n + b"\0" + struct.pack("!IHIhih", 0, 0, 25, -1, -1, 0) for n in names))


class Listener:
    """Serves each connection on 127.0.0.1 in a thread, until it is closed."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(64)
        self.port = self.socket.getsockname()[1]
        self.connections, self.closed = [], False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.closed:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.guarded, args=(connection,), daemon=True).start()

    def guarded(self, connection):
        try:
            self.serve(connection)
        except (OSError, struct.error, EOFError):
            pass
        finally:
            self.end(connection)

    @staticmethod
    def end(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True
        self.socket.close()
        for connection in self.connections:
            self.end(connection)


def exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


class Hostile(Listener):
    """Says hello, then follows a script: a function of (connection, read) per phase."""

    def __init__(self, phase, what):
        self.phase, self.what, self.heard = phase, what, b""
        super().__init__()

    def read(self, connection):
        tag = exactly(connection, 1)
        body = exactly(connection, struct.unpack("!I", exactly(connection, 4))[0] - 4)
        self.heard += body
        return tag, body

    def serve(self, connection):
        if self.phase == "accepted":
            return self.what(self, connection)
        while True:
            length = struct.unpack("!I", exactly(connection, 4))[0]
            code = struct.unpack("!I", exactly(connection, 4))[0]
            rest = exactly(connection, max(0, min(length - 8, 100_000)))
            if code in (80877103, 80877104):
                if self.phase == "encryption":
                    self.what(self, connection)
                connection.sendall(b"N")
                continue
            if code == 80877102:
                return None
            self.heard += rest
            break
        if self.phase in ("started", "encryption"):
            return self.what(self, connection)
        if self.phase == "authenticated":
            connection.sendall(OK)
            return self.what(self, connection)
        connection.sendall(WELCOME)
        queries = 0
        after = int(self.phase.split("-")[1])
        while True:
            tag, _ = self.read(connection)
            if tag in (b"Q", b"S", b"H"):
                queries += 1
                if queries > after:
                    return self.what(self, connection)
                connection.sendall(columns(b"a", b"b", b"c") + row(b"1", b"2", b"3") + message(b"C", b"SELECT 1\0") + READY)


class Proxy(Listener):
    """Hands messages on and damages some of the server's."""

    def __init__(self, port, seed, rate):
        self.target, self.random, self.rate, self.damaged = port, random.Random(seed), rate, 0
        self.cut_now = threading.Event()
        super().__init__()

    def serve(self, client):
        server = socket.create_connection(("127.0.0.1", self.target), 10)
        self.connections.append(server)
        server.settimeout(None)
        threading.Thread(target=self.pass_on, args=(client, server), daemon=True).start()
        while True:
            head = exactly(server, 5)
            length = struct.unpack("!I", head[1:])[0]
            if not 4 <= length < 1 << 28:
                client.sendall(head)
                continue
            body = exactly(server, length - 4)
            client.sendall(self.perhaps(head[:1], body))

    def pass_on(self, source, sink):
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
        except OSError:
            pass
        self.end(sink)

    def perhaps(self, tag, body):
        rng = self.random
        if rng.random() > self.rate:
            return message(tag, body)
        self.damaged += 1
        what = rng.randrange(12)
        if what == 0:
            body = bytearray(body or b"\0")
            body[rng.randrange(len(body))] = rng.randrange(256)
            return message(tag, bytes(body))
        if what == 1:
            return message(bytes([rng.randrange(256)]), body)
        if what == 2:
            return tag + struct.pack("!I", rng.choice((0, 3, 4, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(body) + 5))) + body
        if what == 3:
            return message(tag, body[:rng.randrange(len(body) + 1)])
        if what == 4:
            return message(tag, body) * rng.choice((2, 3, 500))
        if what == 5:
            return b""
        if what == 6:
            return message(tag, body) + error(b"made up \x1b[31m", rng.choice((b"57P01", b"53300", b"XX000", b"25P02", b"zz")))
        if what == 7:
            return message(b"N", b"SNOTICE\0C00000\0Mnote\xff\0\0") * 50 + message(tag, body)
        if what == 8:
            return parameter(b"server_version", rng.choice((b"", b"9.0", b"99devel", b"x" * 9999, b"15\xff"))) + message(tag, body)
        if what == 9:
            return READY + message(tag, body)
        if what == 10:
            return message(tag, body + os.urandom(rng.randrange(1, 200)))
        raise EOFError
