#!/usr/bin/env python3
"""Generated runs, real recorded ones varied, as tables: do DuckDB and Spark answer alike, and how fast.

    bench/records.py test PROGRAM [spark]        60 runs: all questions, known answers
    bench/records.py size PROGRAM RUNS PLACE     how long it takes, and how much it is

Recorded are two short runs and a comparison; what varies is time, host, version, settings and figures.
"""

import glob
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
QUERIES = sorted((HERE / "crates/records/queries").glob("*.sql"))
TABLES = ["runs", "servers", "settings", "points", "trials", "metrics", "pairs", "findings", "lines"]
BEGIN = datetime(2024, 1, 3, tzinfo=timezone.utc)
# Every run of this host from here on is slower by this part.
SLOW, SINCE, BY = "host-1", datetime(2024, 7, 1, tzinfo=timezone.utc), 0.2


def record(program, place):
    """The runs that are varied."""
    short = "--time 0.2 --warmup 0 --scale 1".split()
    for words in (
        ["run", "select-only", "temp", "--clients", "1,2", "--trials", "6", *short],
        ["compare", "temp", "temp", "--set-b", "work_mem=8MB", "--clients", "2", "--pairs", "8",
         "--launches", "1", "--noise-pairs", "4", "--slice", "0.2", "--warmup", "0", "--scale", "1"],
    ):
        done = subprocess.run([program, *words, "--quiet", "--runs", place], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1, 5, 6):
            sys.exit(f"{' '.join(words)}: {done.stderr}")
    return sorted(path for path in Path(place).iterdir() if (path / "run.json").is_file())


class Template:
    """A recorded run, read once."""

    def __init__(self, path):
        self.path = path
        self.header = json.loads((path / "run.json").read_text())
        self.trials = [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]
        self.end = json.loads((path / "end.json").read_text())
        self.server = json.loads((path / "facts/server-0.json").read_text())

    def vary(self, number, days, place, chance):
        """Another run of it. A host goes with a setting, and one host becomes slower."""
        host = number % 5
        began = BEGIN + timedelta(days=days * chance.random())
        name = f"{began:%Y%m%dT%H%M%SZ}-{self.header['command']}-{number:06d}"
        run = place / f"host-{host}" / name
        (run / "facts").mkdir(parents=True)
        for fact in (self.path / "facts").iterdir():
            if fact.name != "server-0.json":
                os.link(fact, run / "facts" / fact.name)
        for fact in ("events.jsonl", "lock"):
            if (self.path / fact).exists():
                os.link(self.path / fact, run / fact)
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


def duck(tables):
    import duckdb
    session = duckdb.connect()
    for table in TABLES:
        session.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{tables}/{table}/*/*.parquet', "
                        "hive_partitioning = true, union_by_name = true)")

    def ask(sql):
        answer = session.execute(sql)
        return [name for name, *_ in answer.description], answer.fetchall()
    return ask


def spark(tables, workers):
    from pyspark.sql import SparkSession
    memory = 1024
    session = (SparkSession.builder.master(f"local-cluster[{workers},1,{memory}]").appName("pgassay")
               .config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
               .config("spark.executor.memory", f"{memory}m")
               .config("spark.sql.shuffle.partitions", str(2 * workers)).getOrCreate())
    session.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        session.read.parquet(f"{tables}/{table}").createOrReplaceTempView(table)

    def ask(sql):
        answer = session.sql(sql)
        return answer.columns, [tuple(row) for row in answer.collect()]
    return ask, session


def alike(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    return a == b


def answers(ask):
    return {path.stem: ask(path.read_text()) for path in QUERIES}


def known(found):
    """What was planted is found."""
    def rows(name):
        columns, answered = found[name]
        return [dict(zip(columns, row)) for row in answered]
    for name, (_, answered) in found.items():
        assert answered, f"{name}: no row"
    medians = {row["major"]: row["median_throughput"] for row in rows("versions") if row["clients"] == 2}
    assert list(medians) == ["15", "16", "17", "18"], medians
    worst = [row for row in rows("changes") if row["host"] == SLOW and row["change"] < -0.1]
    # The months in which it changed; with few runs in a month versions differ by less.
    assert any(row["month_"] == 202407 for row in worst), rows("changes")
    buffers = [row for row in rows("settings") if row["name"] == "shared_buffers"]
    assert any(row["of_fast"] > row["of_slow"] for row in buffers), rows("settings")
    died = [row for row in rows("lost-trials") if row["lost"] == "server-died"]
    assert died and all(row["for_example"] == "the server died" for row in died), rows("lost-trials")
    assert {row["metric"] for row in rows("pairs")} >= {"throughput"}, rows("pairs")
    line = next(row for row in rows("transfers") if row["name"] == "LWLock ProcArray")
    assert (line["at_1"], line["at_64"], line["at_384"]) == (1.0, 64.0, 384.0), line
    assert {row["host"] for row in rows("noise")} == {f"host-{n}" for n in range(5)}, rows("noise")


def test(program, engine):
    with tempfile.TemporaryDirectory(prefix="pgassay-records-") as name:
        place = Path(name)
        os.chmod(place, 0o755)
        templates = [Template(path) for path in record(program, str(place / "recorded"))]
        chance = random.Random(1)
        for number in range(120):
            template = templates[-1] if number % 12 == 0 else templates[0]
            template.vary(number, 360, place / "runs", chance)
        tables = place / "tables"
        export(program, place / "runs", tables)
        lines(place / "lines.json")
        subprocess.run([program, "export", place / "lines.json", "--parquet", tables, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        found = answers(duck(tables))
        known(found)
        print(f"DuckDB answers {len(found)} questions to 121 runs")
        if engine == "spark":
            ask, session = spark(tables, 2)
            for name, (columns, rows) in answers(ask).items():
                wanted_columns, wanted = found[name]
                assert columns == wanted_columns and len(rows) == len(wanted), (name, len(rows), len(wanted))
                for got, row in zip(rows, wanted):
                    assert all(map(alike, got, row)), (name, got, row)
            session.stop()
            print("Spark with two workers answers the same")


def size(program, runs, place):
    """Batches of runs are generated, exported, and removed."""
    import resource
    place, batch = Path(place), 1000
    place.mkdir(parents=True, exist_ok=True)
    templates = [Template(path) for path in record(program, str(place / "recorded"))]
    chance, tables, seconds, peak = random.Random(1), place / "tables", 0.0, 0
    for first in range(0, runs, batch):
        numbers = range(first, min(first + batch, runs))
        # A batch is of its own days, as time would have it.
        for number in numbers:
            template = templates[-1] if number % 12 == 0 else templates[0]
            template.vary(number, 10, place / "runs", chance)
        globals()["BEGIN"] = BEGIN + timedelta(days=10)
        began = time.monotonic()
        export(program, place / "runs", tables)
        seconds += time.monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        shutil.rmtree(place / "runs")
    lines(place / "lines.json")
    subprocess.run([program, "export", place / "lines.json", "--parquet", tables, "--quiet"], check=True)
    print(f"{runs} runs exported in {seconds:.0f} s: {runs / seconds:.0f} a second; at most {peak / 1024:.0f} MiB; "
          f"load {os.getloadavg()}")
    for table in TABLES:
        files = glob.glob(f"{tables}/{table}/*/*.parquet")
        print(f"{table}: {sum(map(os.path.getsize, files)) / 1e6:.1f} MB in {len(files)} files")
    engines = [("DuckDB", lambda: (duck(tables), None))]
    engines += [(f"Spark, {n} worker(s)", lambda n=n: spark(tables, n)) for n in (1, 2)]
    for name, begin in engines:
        began = time.monotonic()
        ask, session = begin()
        times = [f"begin {time.monotonic() - began:.1f}"]
        for path in QUERIES:
            began = time.monotonic()
            ask(path.read_text())
            times.append(f"{path.stem} {time.monotonic() - began:.2f}")
        if session:
            session.stop()
        print(f"{name}, seconds: {', '.join(times)}; load {os.getloadavg()}")


def main():
    match sys.argv[1:]:
        case ["test", program, *engine]:
            test(program, engine[0] if engine else "")
        case ["size", program, runs, place]:
            size(program, int(runs), place)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
