"""Damaged executables of five machines to inspect, also truncated while they are read."""

import os
import shutil
import threading
import time

from lab import PROJECT
from mutate import damage

WAYS = ((), ("--json",), ("--markdown",), ("--json", "--addresses"), ("--require", "pie,full-relro,crc32c"),
        ("--cpu", "graviton2"), ("--diff",))


def run(section):
    rng, lab = section.random, section.lab
    fixtures = sorted((PROJECT / "crates/foundation/inspect/tests/fixtures").glob("*.so")) + sorted(
        (PROJECT / "crates/foundation/inspect/tests/fixtures").glob("*.debug"))
    originals = [path.read_bytes() for path in fixtures]
    large = [(lab.bin / "postgres").read_bytes(), open(shutil.which("true"), "rb").read()]
    file, other = section.work / "postgres", section.work / "other"
    half = section.deadline - (section.deadline - time.monotonic()) * 0.1
    while section.more() and time.monotonic() < half:
        batch = []
        # Several in one call: starting the program takes longer than reading a fixture.
        for n in range(rng.choice((1, 4, 12))):
            path = section.work / f"f{n}"
            path.write_bytes(damage(rng, rng.choice(originals if rng.random() < 0.9 else large)))
            batch.append(path)
        way = rng.choice(WAYS)
        if "--diff" in way:
            other.write_bytes(rng.choice(originals))
            batch = [other, batch[0]]
        section.try_("inspect", *way, *batch, keep=batch)
    while section.more():
        # Truncated in the middle: mapped pages vanish under the reader.
        file.write_bytes(large[0])
        after = rng.random() * 0.08

        def cut():
            time.sleep(after)
            os.truncate(file, rng.randrange(4096))

        cutter = threading.Thread(target=cut)
        cutter.start()
        section.try_("inspect", "--json", file)
        cutter.join()
