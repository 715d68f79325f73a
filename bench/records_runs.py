"""Recorded runs, varied: time, host, version, settings and figures. For bench/records.py."""

import json
import math
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

BEGIN = datetime(2024, 1, 3, tzinfo=timezone.utc)
# Every run of this host from here on is slower by this part.
SLOW, SINCE, BY = "host-1", datetime(2024, 7, 1, tzinfo=timezone.utc), 0.2
# A larger run would be most of what is read.
LARGEST = 1 << 20


def record(program, place):
    """A short run, one with a finding that no noise hides, and a comparison."""
    short = "--time 0.2 --warmup 0 --scale 1".split()
    for words in (
        ["run", "select-only", "temp", "--clients", "1,2", "--trials", "6", *short],
        ["run", "hot-row", "temp", "--clients", "8", "--trials", "6", *short],
        ["compare", "temp", "temp", "--set-b", "work_mem=8MB", "--clients", "2", "--pairs", "8",
         "--launches", "1", "--noise-pairs", "4", "--slice", "0.2", "--warmup", "0", "--scale", "1"],
    ):
        done = subprocess.run([program, *words, "--quiet", "--runs", place], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1, 5, 6):
            sys.exit(f"{' '.join(words)}: {done.stderr}")
    return found(place)


def found(place):
    """The complete runs of a directory, without those that are large."""
    runs = sorted(path for path in Path(place).iterdir() if (path / "end.json").is_file())
    return [run for run in runs if (run / "trials.jsonl").stat().st_size < LARGEST]


class Template:
    """A recorded run, read once."""

    def __init__(self, path):
        self.path = path
        self.header = json.loads((path / "run.json").read_text())
        self.trials = [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]
        self.end = json.loads((path / "end.json").read_text())
        self.server = json.loads((path / "facts/server-0.json").read_text())
        self.facts = [fact for fact in (path / "facts").iterdir() if fact.name != "server-0.json"]
        self.others = [path / name for name in ("events.jsonl", "lock") if (path / name).exists()]

    def vary(self, number, begin, days, place, chance):
        """Another run of it, of one of the days from then on. A host goes with a setting, and one host becomes
        slower."""
        host = number % 5
        began = begin + timedelta(days=days * chance.random())
        name = f"{began:%Y%m%dT%H%M%SZ}-{self.header['command']}-{number:06d}"
        run = place / f"host-{host}" / name
        (run / "facts").mkdir(parents=True)
        for fact in self.facts:
            os.link(fact, run / "facts" / fact.name)
        for other in self.others:
            os.link(other, run / other.name)
        header = {**self.header, "id": name, "started": f"{began:%Y-%m-%dT%H:%M:%S}.000Z"}
        (run / "run.json").write_text(json.dumps(header))
        server, major = dict(self.server), 15 + number // 5 % 4
        server["version"] = {"text": f"PostgreSQL {major}.1 on x86_64-pc-linux-gnu"}
        server["version_num"] = major * 10_000 + 1
        if host == 4:
            settings = json.loads(server["settings"]["text"])
            for row in settings:
                if row["name"] == "shared_buffers":
                    row["setting"] = str(2 * int(row["setting"]))
            server["settings"] = {"text": json.dumps(settings)}
        (run / "facts/server-0.json").write_text(json.dumps(server))
        speed = (1 + 0.02 * major) * (1.5 if host == 4 else 1.0) * math.exp(chance.gauss(0, 0.01))
        if f"host-{host}" == SLOW and began >= SINCE:
            speed *= 1 - BY
        # Each tenth is broken off.
        broken = number % 10 == 7
        trials = self.trials[: len(self.trials) // 2] if broken else self.trials
        with open(run / "trials.jsonl", "w") as file:
            for trial in trials:
                transactions = int(trial["transactions"] * speed * math.exp(chance.gauss(0, 0.01)))
                file.write(json.dumps({**trial, "transactions": transactions}) + "\n")
        end = {**self.end, "state": "server_died", "reason": "the server died"} if broken else self.end
        (run / "end.json").write_text(json.dumps(end))


def export(program, place, tables):
    for host in sorted(place.iterdir()):
        words = [program, "export", str(host), "--host", host.name, "--parquet", str(tables), "--quiet"]
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.returncode} {done.stderr}")


def lines(path):
    """A document of pgassay lines."""
    counts = {"loads": 1.0, "stores": 0.0, "atomics": 2.0, "kernel_loads": 0.0, "kernel_stores": 0.0}
    transfers = lambda n: {"estimate": float(n), "low": n - 0.5, "high": n + 0.5}
    path.write_text(json.dumps({
        "schema": "pgassay/lines/1", "recorded": "2024-02-03T04:05:06Z", "target": "PostgreSQL 15",
        "version": "PostgreSQL 15.1", "workload": "select-only", "method": "made up", "sessions": 2,
        "transactions": 20, "seed": 7, "line_bytes": 64, "instructions": 1.0, "cpu_us": None,
        "steps_per_second": 1.0, "total": counts, "named_share": 1.0, "unnamed": [], "lines_taken": 3.0,
        "groups": [], "takers": [], "meetings": [], "doubts": [],
        "lines": [{"address": "7f00", "name": "LWLock ProcArray", "own": False, "counts": counts,
                   "parts": [], "takers": []}],
        "transfers": [{"sessions": n, "per_transaction": transfers(2 * n), "owners": [],
                       "lines": [{"name": "LWLock ProcArray", "per_transaction": transfers(n)}]}
                      for n in (1, 8, 64, 384)],
    }))
