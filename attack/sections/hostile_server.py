"""A server that pretends: silence, endless words, nonsense, closing, at each phase."""

import os
import signal
import struct
import time

from common import SHORT
from wire import KEY, OK, READY, WELCOME, Hostile, columns, error, message, parameter, row

PHASES = ("accepted", "encryption", "started", "authenticated", "query-0", "query-1", "query-3", "query-10")


def silent(hostile, connection):
    while not hostile.closed:
        time.sleep(0.1)


def close(hostile, connection):
    pass


def forever(make):
    def talk(hostile, connection):
        n = 0
        while not hostile.closed:
            connection.sendall(make(n))
            n += 1
    return talk


def once(data):
    def talk(hostile, connection):
        connection.sendall(data)
        silent(hostile, connection)
    return talk


def then_close(data):
    return lambda hostile, connection: connection.sendall(data)


def slowly(hostile, connection):
    for byte in WELCOME * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.2)


NOTE = lambda size: message(b"N", b"SNOTICE\0C00000\0M" + b"n" * size + b"\0\0")

DOINGS = {
    "silent": silent,
    "close": close,
    "slowly": slowly,
    "notices": forever(lambda n: NOTE(100) * 200),
    "large notices": forever(lambda n: NOTE(16 << 20)),
    "parameters": forever(lambda n: b"".join(parameter(b"p%d" % (n * 100 + m), b"v" * 1000) for m in range(100))),
    "same parameter": forever(lambda n: parameter(b"application_name", b"v" * 100_000)),
    "zeros": forever(lambda n: bytes(65536)),
    "0xff": forever(lambda n: b"\xff" * 65536),
    "letters": forever(lambda n: b"HTTP/1.1 400 Bad Request\r\n" * 1000),
    "rows without end": forever(lambda n: (columns(b"a", b"b", b"c") if n == 0 else b"") + row(b"", b"", b"") * 2000),
    "large rows": forever(lambda n: (columns(b"a") if n == 0 else b"") + row(b"x" * (8 << 20))),
    "wide rows": forever(lambda n: (columns(*[b"a"] * 1600) if n == 0 else b"") + row(*[None] * 1600) * 50),
    "row descriptions": forever(lambda n: columns(*[b"c" * 60] * 1600)),
    "ready": forever(lambda n: READY * 1000),
    "authentications": forever(lambda n: OK * 1000),
    "md5": forever(lambda n: message(b"R", struct.pack("!I", 5) + b"salt")),
    "large error": then_close(error(b"e" * (60 << 20))),
    "error of controls": then_close(error(b"\x1b[2J\x1b]0;t\x07\xe2\x80\xae\xff")),
    "error without fields": then_close(message(b"E", b"\0")),
    "empty error": then_close(message(b"E", b"")),
    "length 0": once(b"E" + struct.pack("!I", 0)),
    "length 2 GiB": once(b"D" + struct.pack("!I", 0x7FFFFFFF) + bytes(1000)),
    "length negative": once(b"S" + struct.pack("!I", 0xFFFFFFFF)),
    "copy in": once(message(b"G", b"\0\0\0")),
    "copy out": forever(lambda n: (message(b"H", b"\0\0\0") if n == 0 else b"") + message(b"d", b"x" * 60000)),
    "copy both": once(message(b"W", b"\0\0\0")),
    "unknown message": then_close(message(b"?", b"what")),
    "null row": once(columns(b"a") + row(None) + message(b"C", b"SELECT 1\0") + READY),
    "too few columns": forever(lambda n: columns(b"a") + row() + message(b"C", b"SELECT 1\0") + READY),
    "too many columns": once(message(b"T", b"\xff\xff") + READY),
    "no rows": forever(lambda n: message(b"C", b"SELECT 0\0") + READY),
    "empty query": forever(lambda n: message(b"I") + READY),
    "odd ready": once(message(b"C", b"SELECT 0\0") + message(b"Z", b"?")),
    "sasl empty": once(message(b"R", struct.pack("!I", 10) + b"\0")),
    "sasl unknown": once(message(b"R", struct.pack("!I", 10) + b"ROT13\0\0")),
    "sasl continue first": once(message(b"R", struct.pack("!I", 11) + b"r=x,s=eA==,i=1")),
    "scram iterations": once(message(b"R", struct.pack("!I", 10) + b"SCRAM-SHA-256\0\0")
                             + message(b"R", struct.pack("!I", 11) + b"r=x,s=eA==,i=2000000000")),
    "kerberos": once(message(b"R", struct.pack("!I", 7))),
    "in the clear": once(message(b"R", struct.pack("!I", 3))),
    "short authentication": once(message(b"R", b"\0")),
    "version 0": once(OK + parameter(b"server_version", b"") + KEY + READY),
    "version odd": once(OK + parameter(b"server_version", b"99999999999999999999.1\x1b[31m") + KEY + READY),
    "protocol": once(message(b"v", struct.pack("!II", 0x30000, 70000))),
    "S and more": once(b"S" + WELCOME),
}

PASSWORD = "Geh3imW0rt"


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    # Each doing once before any of them twice.
    phases = {name: rng.sample(PHASES, len(PHASES)) for name in DOINGS}
    pairs = [(phases[name][turn], name) for turn in range(len(PHASES)) for name in rng.sample(list(DOINGS), len(DOINGS))]
    passwords = [("in the clear", f"require_auth={kind}") for kind in ("scram-sha-256", "md5", "none", "!password")]
    for phase, name, more in section.through([("started", name, more) for name, more in passwords] + [(*p, "") for p in pairs]):
        with Hostile(phase, DOINGS[name]) as hostile:
            target = f"host=127.0.0.1 port={hostile.port} user=u dbname=d sslmode={rng.choice(('disable', 'prefer'))} " \
                     f"password={PASSWORD} {more}".strip()
            words = rng.choice((["check", target], ["check", target, "--json"], ["inspect", target],
                                ["collect", target, "--output", work / "facts"], ["assay", target, "--quick"],
                                ["run", "select-only", target, "--load", *SHORT], ["pgbench", "-n", "-S", "-t", "1", target],
                                ["pgbench", "-i", target], ["compare", target, target, "--load", "--pairs", "2", "--slice", "0.2"]))
            asked = []

            def interrupt(process, elapsed):
                if elapsed > 2.5 and not asked:
                    asked.append(elapsed)
                    os.kill(process.pid, signal.SIGINT)

            def also(result):
                wrong = []
                if asked and result.seconds - asked[0] > 12 * lab.patience():
                    wrong.append(f"{phase}, {name}: ended only {result.seconds - asked[0]:.0f} s after the first Ctrl-C")
                if more and PASSWORD.encode() in hostile.heard:
                    wrong.append(f"the password was sent in the clear in spite of {more}")
                return [f"{phase}, {name}: see below"] + wrong if wrong else []

            codes = None if words[0] == "pgbench" else frozenset((0, 1, 2, 3, 4, 5, 6, 130)) - (
                {0} if words[0] in ("run", "compare") else set())
            result = section.try_(*words, act=interrupt, timeout=25, peak_mib=400, also=also, codes=codes, secrets=[PASSWORD])
            if result.late or result.fat or result.code == 70:
                section.note(f"{phase}, {name}")
