"""A server that misbehaves in or under TLS: at the handshake, with foreign certificates, after it."""

import os
import shutil
import signal
import ssl
import struct
import subprocess

from common import SHORT
from .hostile_server import DOINGS, PASSWORD
from wire import Hostile, exactly


def record(kind, body, version=b"\x03\x03", length=None):
    return kind + version + struct.pack("!H", len(body) if length is None else length) + body


def silent(hostile, connection):
    DOINGS["silent"](hostile, connection)


def endless(data):
    def talk(hostile, connection):
        while not hostile.closed:
            connection.sendall(data)
    return talk


def hello_then(after):
    """The client's hello is answered by a real server, whose answer is followed by something else."""
    def talk(hostile, connection):
        inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = hostile.context.wrap_bio(inward, outward, server_side=True)
        inward.write(connection.recv(65536))
        try:
            server.do_handshake()
        except ssl.SSLWantReadError:
            pass
        after(hostile, connection, outward.read())
    return talk


def damaged(hostile, connection, hello):
    hello = bytearray(hello)
    for _ in range(3):
        hello[hostile.random.randrange(len(hello))] ^= 1 << hostile.random.randrange(8)
    connection.sendall(bytes(hello))
    silent(hostile, connection)


# Instead of a handshake, after `S`.
HANDSHAKES = {
    "silent": silent,
    "close": lambda hostile, connection: None,
    "random": lambda hostile, connection: connection.sendall(os.urandom(5000)),
    "zeros": endless(bytes(65536)),
    "clear text": lambda hostile, connection: DOINGS["S and more"](hostile, connection),
    "alert": lambda hostile, connection: connection.sendall(record(b"\x15", b"\x02\x28")),
    "odd alert": lambda hostile, connection: connection.sendall(record(b"\x15", b"\xff\xff")),
    "warnings": endless(record(b"\x15", b"\x01\x5a") * 1000),
    "empty records": endless(record(b"\x16", b"") * 1000),
    "change cipher": endless(record(b"\x14", b"\x01") * 1000),
    "large record": lambda hostile, connection: connection.sendall(record(b"\x16", bytes(70_000), length=0xFFFF)),
    "large message": endless(record(b"\x16", b"\x02\xff\xff\xff" + bytes(16_000))),
    "old version": lambda hostile, connection: connection.sendall(record(b"\x16", b"\x02\0\0\x26\x03\0" + bytes(36), b"\x03\0")),
    "half a hello": hello_then(lambda hostile, connection, hello: connection.sendall(hello[:len(hello) // 2])),
    "half, then silent": hello_then(lambda hostile, connection, hello: (connection.sendall(hello[:80]), silent(hostile, connection))),
    "two hellos": hello_then(lambda hostile, connection, hello: connection.sendall(hello * 2)),
    "damaged hello": hello_then(damaged),
    "byte by byte": hello_then(lambda hostile, connection, hello: [connection.sendall(hello[n:n + 1]) for n in range(len(hello))]),
}

# Under TLS: what the section without it does, where it makes a difference.
UNDER = ("silent", "close", "zeros", "notices", "large notices", "parameters", "length 2 GiB", "length 0", "in the clear",
         "scram iterations", "sasl continue first", "copy out", "too few columns", "unknown message")


class HostileTls(Hostile):
    """Answers a request for encryption as it is told, and goes on under TLS if that succeeds."""

    def __init__(self, context, rng, handshake=None, phase="query-0", what=silent, answer=b"S"):
        self.context, self.random, self.handshake, self.answer = context, rng, handshake, answer
        super().__init__(phase, what)

    def serve(self, connection):
        length, code = struct.unpack("!II", exactly(connection, 8))
        if code != 80877103:
            # In clear text: what it says is heard, and that is all.
            self.heard += exactly(connection, min(max(0, length - 8), 10_000))
            return connection.sendall(b"R\0\0\0\x08\0\0\0\x03") or self.read(connection)
        connection.sendall(self.answer)
        if self.answer != b"S":
            return self.read(connection)
        if self.handshake:
            return self.handshake(self, connection)
        under = self.context.wrap_socket(connection, server_side=True)
        self.connections.append(under)
        try:
            return super().serve(under)
        finally:
            self.end(under)


def certificate(place, name):
    """A self-signed certificate of this name, and its context."""
    cert, key = place / f"{name}.crt", place / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
                    f"subjectAltName=DNS:{name}", "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    if not shutil.which("openssl"):
        section.note("skipped: needs openssl")
        return
    wrong, context = certificate(work, "wrong.example")
    other, _ = certificate(work, "other.example")
    cases = [(name, "require", {"handshake": handshake}) for name, handshake in HANDSHAKES.items()]
    cases += [(name, "prefer", {"handshake": handshake}) for name, handshake in HANDSHAKES.items()]
    # Not to be trusted, or not to be had: nothing may be told to such a server.
    refused = [("another authority", f"verify-ca sslrootcert={other}", {}), ("another name", f"verify-full sslrootcert={wrong}", {}),
               ("no such authority", f"verify-ca sslrootcert={work}/nothing", {}), ("damaged authority", f"verify-ca sslrootcert={work}", {}),
               ("no TLS", "require", {"answer": b"N"}), ("no TLS", f"verify-full sslrootcert={wrong}", {"answer": b"N"}),
               ("an error instead", "require", {"answer": b"E\0\0\0\x20SFATAL\0C08P01\0Mno TLS here\0\0"}),
               ("an odd answer", "require", {"answer": b"?"}), ("two answers", "require", {"answer": b"SS"})]
    under = [(f"{phase}, {name}", "require", {"phase": phase, "what": DOINGS[name]})
             for phase in ("started", "authenticated", "query-0", "query-3") for name in UNDER]
    silences = {id(case) for case in refused}
    rng.shuffle(cases)
    rng.shuffle(under)
    for case in section.through([*refused, *(pair for two in zip(cases, under) for pair in two), *cases[len(under):], *under[len(cases):]]):
        name, mode, how = case
        with HostileTls(context, rng, **how) as hostile:
            target = f"host=127.0.0.1 port={hostile.port} user=u dbname=d password={PASSWORD} sslmode={mode}"
            words = rng.choice((["check", target], ["inspect", target], ["collect", target, "--output", work / "facts"],
                                ["run", "select-only", target, "--load", *SHORT], ["pgbench", "-n", "-S", "-t", "1", target]))
            asked = []

            def interrupt(process, elapsed):
                if elapsed > 2.5 and not asked:
                    asked.append(elapsed)
                    os.kill(process.pid, signal.SIGINT)

            def also(result):
                wrong = []
                if asked and result.seconds - asked[0] > 12 * lab.patience():
                    wrong.append(f"ended only {result.seconds - asked[0]:.0f} s after the first Ctrl-C")
                if id(case) in silences and PASSWORD.encode() in hostile.heard:
                    wrong.append("the password was told to a server that is not to be trusted")
                if id(case) in silences and result.code == 0:
                    wrong.append("such a server was accepted")
                return [f"TLS: {name}, sslmode={mode}: see below"] + wrong if wrong else []

            result = section.try_(*words, act=interrupt, timeout=25, peak_mib=400, also=also, secrets=[PASSWORD])
            if result.late or result.fat or result.code == 70:
                section.note(f"{name}, sslmode={mode}")
