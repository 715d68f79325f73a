#!/usr/bin/env python3
"""Guards pull requests of every kind against PostgreSQL's own source, as a CI job would.

    bench/guard.py PGASSAY PLACE [--minutes N] [--only KIND…]

Each pull request is a branch of four commits on Debian's PostgreSQL 15, three of which change nothing; the one
amid them is what its kind says. `pgassay guard base HEAD --source` has N (6) minutes for each, builds included, and
goes on to `--bisect` where a check fails. Prints, for each kind, what is expected, the exit code, every check, the
minutes, and what the search found. The source is kept in PLACE (as by bench/histories.py), and so are the documents.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from histories import TURNS, Repository, neutral, slower  # noqa: E402


def into(name, code):
    """Has a function begin with this code."""
    def change(text):
        brace = text.index("\n{\n", text.index(f"\n{name}(")) + 3
        return text[:brace] + code + text[brace:]

    return change


def without_indexes(text):
    """Has the planner avoid indexes unless told otherwise."""
    for name in ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"):
        at = text.index("true,", text.index(f'"{name}"'))
        text = text[:at] + "false," + text[at + len("true,"):]
    return text


def of_instructions(percent):
    return "src/backend/executor/execMain.c", slower("standard_ExecutorStart", TURNS[percent])[0]


# What a pull request changes, and the exit codes that tell the truth about it.
KINDS = {
    "nothing that runs": (None, {0, 5}),
    "5 % more instructions": (of_instructions(5), {1}),
    "1 % more instructions": (of_instructions(1), {1}),
    # About as long as a transaction of tpcb-like has instructions of its own.
    "commits take longer": (("src/backend/access/transam/xact.c", slower("RecordTransactionCommit", 100000)[0]), {1}),
    "does not build": (("src/backend/utils/misc/rls.c", lambda text: text + "\n#error planted\n"), {3}),
    "does not start": (("src/backend/postmaster/postmaster.c",
                        into("PostmasterMain", '\tfprintf(stderr, "FATAL: planted\\n"); exit(1);\n')), {3}),
    "dies under load": (("src/backend/tcop/postgres.c",
                         into("exec_execute_message", "\t{ static int n; if (++n == 3000) abort(); }\n")), {3, 4}),
    "another plan": (("src/backend/utils/misc/guc.c", without_indexes), {6, 1}),
}


def make(repository, number, change):
    draw = random.Random(number)
    repository.git("checkout", "--quiet", "--force", "-B", f"pull-{number}", "base")
    files = ["src/backend/utils/adt/bool.c", "src/backend/utils/adt/char.c", "src/backend/utils/adt/cash.c"]
    planted = None
    for step in range(4):
        if step == 2 and change:
            repository.edit(*change)
            planted = repository.commit(f"change {change[0]}")
        else:
            neutral(draw, repository, files, 100000 + 10 * number + step)
    head = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "--force", "base")
    return head, planted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pgassay")
    parser.add_argument("place", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(KINDS))
    args = parser.parse_args()
    args.place.mkdir(parents=True, exist_ok=True)
    place = args.place.resolve()
    repository = Repository(place)
    print("| pull request | exit code | checks | minutes of budget | --bisect |")
    print("|---|---|---|---|---|")
    wrong = []
    for number, (kind, (change, right)) in enumerate(KINDS.items()):
        if kind not in args.only:
            continue
        head, planted = make(repository, number, change)
        files = place / "guard" / str(number)
        files.mkdir(parents=True, exist_ok=True)
        load, began = os.getloadavg()[0], time.time()
        ended = subprocess.run(
            [os.path.realpath(args.pgassay), "guard", "base", head, "--source", str(repository.dir), "-w", "select-only",
             "-w", "tpcb-like", "--instructions", "0.5%", "--threshold", "throughput=5%", "--minutes", str(args.minutes),
             "--bisect", str(files / "commit.md"), "--bisect-minutes", "20", "--runs", str(files / "runs"), "--seed", "1",
             "--junit", str(files / "guard.xml"), "--markdown", str(files / "guard.md"), "--json"],
            stdout=subprocess.PIPE, stderr=open(files / "log", "w"), text=True)
        (files / "guard.json").write_text(ended.stdout)
        document = json.loads(ended.stdout) if ended.stdout else {"checks": [], "seconds": time.time() - began,
                                                                  "stopped": "no document"}
        said = [f"{c['workload']} {c['metric']} {c['judged']}"
                + (f" ({100 * c['change']['estimate']:+.1f} %)" if c["change"] else "") for c in document["checks"]]
        if document.get("stopped"):
            said.append(" ".join(document["stopped"].split())[-160:])
        found = "-"
        if (files / "commit.md").is_file():
            text = (files / "commit.md").read_text()
            found = "the commit" if planted and re.search(planted[:9], text) else "NOT the commit"
        print(f"| {kind} | {ended.returncode} | {'; '.join(said)} | {document['seconds'] / 60:.1f} of {args.minutes:g} "
              f"(load {load:.1f}) | {found} |", flush=True)
        if ended.returncode not in right or found == "NOT the commit" or not (files / "guard.xml").is_file():
            wrong.append(kind)
    if wrong:
        sys.exit(f"not told as it is: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
