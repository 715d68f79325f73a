#!/usr/bin/python3
"""Holds kernels against the server's own primitives: the same operation without and with PostgreSQL around it.

    bench/kernels.py PGASSAY [ROUNDS]

In each of ROUNDS (6) rounds both are measured, in an order that changes, at one and at two threads.  Printed is what
a kernel did for each operation of the server's: the median over rounds, and the least and greatest.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile

# Kernel, and the variant inside the server.
PAIRS = [
    (("word", "fetch-and-add"), ("atomics", "add, one word")),
    (("word", "compare-and-swap"), ("atomics", "swap, one word")),
    (("spinlock", "test first"), ("spinlock", "")),
    (("lwlock", "shared"), ("lwlock", "shared")),
    (("lwlock", "exclusive"), ("lwlock", "exclusive")),
    (("pin", "recent"), ("buffer-hit", "hot block, pin alone")),
    (("pin", "looked up"), ("buffer-hit", "hot block")),
    (("snapshot", "rebuilt"), ("snapshot", "rebuilt")),
]


def rates(program, runs, words):
    done = subprocess.run(
        [program, "run", *words, "--clients", "1,2", "--trials", "6", "--runs", runs, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"kernels.py: {' '.join(words)}: {done.stderr.decode()}")
    found = {}
    for one in json.loads(done.stdout)["primitives"]:
        if not one["idle"]:
            for point in one["points"]:
                found[one["primitive"], one["variant"], point["sessions"]] = point["operations_per_second"]["estimate"]
    return found


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 6
    forms = [word for (family, form), _ in PAIRS for word in ("--form", f"{family}:{form}")]
    names = sorted({primitive for _, (primitive, _) in PAIRS})
    ratios = {}
    with tempfile.TemporaryDirectory(prefix="pgassay-kernels-") as runs:
        for number in range(rounds):
            sides = {}
            for side in ("kernel", "server") if number % 2 else ("server", "kernel"):
                sides[side] = {}
                for words in [["kernels", *forms]] if side == "kernel" else [[name] for name in names]:
                    sides[side] |= rates(program, runs, words)
            for kernel, server in PAIRS:
                for threads in (1, 2):
                    a, b = sides["kernel"].get((*kernel, threads)), sides["server"].get((*server, threads))
                    if a and b:
                        ratios.setdefault((kernel, server, threads), []).append(a / b)
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    print("| kernel | in the server | 1 thread | 2 threads |\n|---|---|---|---|")
    for kernel, server in PAIRS:
        cells = []
        for threads in (1, 2):
            of = ratios.get((kernel, server, threads))
            cells.append(f"{statistics.median(of):.2f} ({min(of):.2f} to {max(of):.2f})" if of else "not here")
        shown = re.sub(": $", "", ": ".join(server))
        print(f"| {': '.join(kernel)} | {shown} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
