#!/usr/bin/env python3
"""Writes a Python wheel that carries a compiled program, as `pip install` and `pipx run` expect it.

    scripts/wheel.py PROGRAM TAG[.TAG...] OUTPUT-DIRECTORY [DIRECTORY]

TAG is a platform of the packaging specifications, such as manylinux_2_17_x86_64. DIRECTORY holds a
tree that goes below the environment's prefix (share/man and the like). The same input gives the same
file: no time, no order of a file system. maturin is not used because it compiles for itself; here the
wheel holds the very program that the other packages hold.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = "The performance laboratory for PostgreSQL on every processor"
DESCRIPTION = """\
pgassay measures PostgreSQL on a real server: what its locks were compiled to, how fast it is and how it
scales, what limits it, and whether one build, setting or version is really faster than another. Every
figure carries its interval.

    pipx run pgassay assay --quick

This package is the program alone, one compiled file; it needs no Python library. Linux only.
"""


def version():
    section = (ROOT / "Cargo.toml").read_text().split("[workspace.package]", 1)[1]
    line = next(line for line in section.splitlines() if line.startswith("version"))
    base, _, suffix = line.split('"')[1].partition("-")
    # 0.2.0-rc.1 is 0.2.0rc1 to Python.
    return base + suffix.replace(".", "").replace("alpha", "a").replace("beta", "b")


def main():
    program, tags, output, *trees = (Path(word) if n != 1 else word for n, word in enumerate(sys.argv[1:]))
    number = version()
    info = f"pgassay-{number}.dist-info"
    data = f"pgassay-{number}.data"
    files = {f"{data}/scripts/pgassay": (program.read_bytes(), 0o755)}
    for tree in trees:
        for path in sorted(p for p in tree.rglob("*") if p.is_file()):
            files[f"{data}/data/{path.relative_to(tree).as_posix()}"] = (path.read_bytes(), 0o644)
    licences = ("LICENSE-APACHE", "LICENSE-MIT", "ext/LICENSE")
    for name in licences:
        files[f"{info}/licenses/{name}"] = ((ROOT / name).read_bytes(), 0o644)
    metadata = (
        ["Metadata-Version: 2.4", "Name: pgassay", f"Version: {number}", f"Summary: {SUMMARY}"]
        + ["License-Expression: (Apache-2.0 OR MIT) AND PostgreSQL"]
        + [f"License-File: {name}" for name in licences]
        + ["Keywords: postgresql,benchmark,performance,pgbench", "Requires-Python: >=3.7"]
        + ["Classifier: Environment :: Console", "Classifier: Operating System :: POSIX :: Linux"]
        + ["Classifier: Topic :: Database", "Classifier: Topic :: System :: Benchmark"]
        + ["Description-Content-Type: text/markdown", "", DESCRIPTION]
    )
    files[f"{info}/METADATA"] = ("\n".join(metadata).encode(), 0o644)
    wheel = ["Wheel-Version: 1.0", "Generator: scripts/wheel.py", "Root-Is-Purelib: false"]
    wheel += [f"Tag: py3-none-{tag}" for tag in tags.split(".")]
    files[f"{info}/WHEEL"] = ("\n".join(wheel + [""]).encode(), 0o644)

    def line(name, content):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(content)}\n"

    record = "".join(line(name, content) for name, (content, _) in files.items())
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)

    destination = output / f"pgassay-{number}-py3-none-{tags}.whl"
    with zipfile.ZipFile(destination, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(destination)


main()
