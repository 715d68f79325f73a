"""Packages: bombs, nesting, counts of sections, damaged ones; FIFOs, devices, loops, /proc."""

import gzip
import io
import lzma
import os
import shutil
import stat
import struct
import subprocess
import tarfile
import zipfile

from lab import PROJECT
from mutate import damage

MEMORY = 1536  # MiB: docs/inspect.md promises 1 GiB for what is held


def tar_of(members, kind="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=kind) as archive:
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return buffer.getvalue()


def zip_of(members, how=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as archive:
        for name, body in members:
            archive.writestr(name, body)
    return buffer.getvalue()


def deb_of(data, control=b""):
    text = b"!<arch>\n"
    for name, body in ((b"debian-binary", b"2.0\n"), (b"control.tar.gz", control or tar_of([("control", b"")], "w:gz")),
                       (b"data.tar.xz", data)):
        text += b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (name, 0, 0, 0, 0o100644, len(body)) + body + b"\n" * (len(body) % 2)
    return text


def zeros_gz(mebibytes, fill=b"\0"):
    buffer = io.BytesIO()
    block = (fill * ((1 << 20) // len(fill) + 1))[:1 << 20]
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9) as out:
        for _ in range(mebibytes):
            out.write(block)
    return buffer.getvalue()


def many_sections(elf, path, count):
    """An ELF file that claims so many sections, in a sparse file."""
    data = bytearray(elf)
    at = (len(data) + 63) & ~63
    data[0x28:0x30] = struct.pack("<Q", at)  # e_shoff
    data[0x3C:0x3E] = struct.pack("<H", 0)  # e_shnum: the first section's size says it
    header = bytearray(64)
    header[0x20:0x28] = struct.pack("<Q", count)
    with open(path, "wb") as out:
        out.write(data)
        out.seek(at)
        out.write(header)
        out.truncate(at + 64 * count)


def locked(elf, mebibytes):
    """An ELF file whose code is nothing but `lock add`."""
    body = (b"\xf0\x83\x00\x01" * (1 << 18)) * mebibytes
    segment = struct.pack("<IIQQQQQQ", 1, 5, 4096, 0x1000, 0x1000, len(body), len(body), 4096)
    names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    strings = b"\0main\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1000, len(body))
    tail = 4096 + len(body)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 6, 0x1000, 4096, len(body), 0, 0, 16, 0)
    sections += struct.pack("<IIQQQQIIQQ", 7, 2, 0, 0, tail, len(symbols), 3, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 15, 3, 0, 0, tail + len(symbols), len(strings), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 23, 3, 0, 0, tail + len(symbols) + len(strings), len(names), 0, 0, 1, 0)
    after = tail + len(symbols) + len(strings) + len(names)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x1000, 64, after, 0, 64, 56, 1, 64, 5, 4)
    head += segment
    return head + bytes(4096 - len(head)) + body + symbols + strings + names + sections


def nested(body, depth, wrap):
    for n in range(depth):
        body = wrap(body, n)
    return body


def bombs(section):
    """name -> bytes, made when asked for."""
    elf = (PROJECT / "crates/foundation/inspect/tests/fixtures/a64-gcc-outline.so").read_bytes()
    stored = lambda body, n: zip_of([(f"{n}.zip", body)], zipfile.ZIP_STORED)
    big = os.urandom(1 << 20) * 24
    def one(name, size):
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf(tarfile.GNU_FORMAT)
    def overlapping():
        body = zip_of([("a", bytes(10 << 20))])
        start = body.index(b"PK\x01\x02")
        entry = body[start:body.index(b"PK\x05\x06")]
        central = entry * 30_000
        return body[:start] + central + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 30_000, 30_000, len(central), start, 0)
    def links():
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, b"Z"):
                info = tarfile.TarInfo("../../../" + "x" * 300 + str(kind))
                info.type, info.linkname = kind, "../../etc/passwd"
                archive.addfile(info)
        return buffer.getvalue()
    return {
        "locks.tar": lambda: tar_of([("a.gz", gzip.compress(locked(elf, 180)))]),
        "locks-bare": lambda: locked(elf, 300),
        "nine-levels.tar.gz": lambda: gzip.compress(tar_of([("z", nested(big, 9, stored))]), 1),
        "zip-30-deep.zip": lambda: nested(elf, 30, stored),
        "gz-40-deep.gz": lambda: nested(elf, 40, lambda body, _: gzip.compress(body)),
        "tar-in-tar.tar": lambda: nested(elf, 60, lambda body, n: tar_of([(str(n), body)])),
        "zeros.gz": lambda: zeros_gz(3000),
        "zeros.tar.gz": lambda: gzip.compress(one("a", 3 << 30) + bytes(64 << 20)),
        "elf-of-zeros.gz": lambda: gzip.compress(elf + bytes(1 << 30), 1),
        "zeros.xz": lambda: lzma.compress(bytes(512 << 20), preset=0),
        "gz-of-gz.gz": lambda: gzip.compress(zeros_gz(2000)),
        "overlap.zip": overlapping,
        "million.tar": lambda: one("x", 0) * 1_200_000,
        "million.zip": lambda: zip_of([(str(n), b"") for n in range(120_000)], zipfile.ZIP_STORED),
        "links.tar.gz": links,
        "size-huge.tar": lambda: one("a", (1 << 62)) + elf,
        "size-negative.tar": lambda: one("a", 5).replace(b"00000000005", b"\xff" * 11) + elf,
        "long-name.tar": lambda: tar_of([("n" * 60_000_000, elf)]),
        "pax.tar": lambda: b"".join(tarfile.TarInfo("p" * 200).tobuf(tarfile.PAX_FORMAT) for _ in range(20_000)),
        "data.deb": lambda: deb_of(lzma.compress(tar_of([("usr/lib/postgresql/15/bin/postgres", elf)]))),
        "bomb.deb": lambda: deb_of(lzma.compress(bytes(800 << 20), preset=0)),
        "no-data.deb": lambda: deb_of(b""),
        "ar-size.deb": lambda: deb_of(b"x" * 10).replace(b"10        `", b"9999999999`"),
        "half.whl": lambda: zip_of([("a.so", elf)])[:-30],
        "lead.rpm": lambda: b"\xed\xab\xee\xdb\x03\0" + bytes(90) + b"\x8e\xad\xe8\x01\0\0\0\0\xff\xff\xff\xff\x7f\xff\xff\xff",
        "quine.gz": lambda: gzip.compress(b"") * 200_000,
    }


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    for name, make in section.through(bombs(section).items()):
        path = work / name
        path.write_bytes(make())
        section.try_("inspect", "--json", path, peak_mib=MEMORY, timeout=90, keep=[path])
        path.unlink()
    elf = (PROJECT / "crates/foundation/inspect/tests/fixtures/a64-gcc-outline.so").read_bytes()
    for count in (100_001, 5_000_000, 160_000_000):
        path = work / f"sections-{count}"
        many_sections(elf, path, count)
        section.try_("inspect", path, peak_mib=MEMORY, keep=[path])
        path.unlink()
    if shutil.which("zstd"):
        path = work / "zeros.tar.zst"
        subprocess.run(f"head -c 2G /dev/zero | zstd -q -1 --long=31 -o {path}", shell=True, check=True)
        section.try_("inspect", path, peak_mib=MEMORY, timeout=90)
        path.unlink()
    # What is no file.
    fifo, loop, deep = work / "fifo.deb", work / "loop", work / "deep"
    os.mkfifo(fifo)
    loop.mkdir()
    (loop / "again").symlink_to(loop)
    (loop / "self").symlink_to("self")
    os.mkfifo(loop / "fifo")
    at = deep
    for _ in range(200):
        at = at / ("d" * 15)
    os.makedirs(at)
    odd = [fifo, loop, deep, "/dev/zero", "/dev/random", "/dev/null", "/dev/full", "/dev/tty", "/proc/self/mem", "/proc/self/exe",
           "/proc/self/fd", "/proc/kmsg", "/proc/self", "/", "", "-", "0", "1", "4294967296", "-1", "/nonexistent", "\udcff",
           "a" * 5000]
    for name in section.through(odd):
        if name == "/":
            continue  # as promised it reads all of a directory; that takes as long as the machine is large
        section.try_("inspect", name, peak_mib=MEMORY)
    originals = [zip_of([("a/b.so", elf), ("c.zip", zip_of([("d.so", elf)]))]), tar_of([("a.so", elf), ("b", b"x")], "w:gz"),
                 tar_of([("a.so", elf)], "w:xz"), tar_of([("a.so", elf), ("n" * 200, elf)]),
                 deb_of(lzma.compress(tar_of([("usr/bin/postgres", elf)]))), gzip.compress(elf)]
    ends = ("zip", "tar.gz", "tar.xz", "tar", "deb", "gz")
    while section.more():
        batch = []
        for n in range(8):
            at = rng.randrange(len(originals))
            path = work / f"{n}.{ends[at]}"
            path.write_bytes(damage(rng, originals[at], 600))
            batch.append(path)
        section.try_("inspect", rng.choice(("--json", "--markdown", "--addresses")), *batch, keep=batch, peak_mib=MEMORY)
        for path in batch:
            path.unlink()
