#!/usr/bin/env python3
"""Generated runs, real recorded ones varied, as tables: do all engines answer alike, and how fast.

    bench/records.py test PROGRAM [spark|trino]    121 runs: all questions, known answers, damaged files
    bench/records.py size PROGRAM RUNS PLACE [RUNS-DIR]
                                                   how long it takes, and how much it is; varied are three
                                                   short runs, and those of a directory. 7 GB of PLACE at most
                                                   are runs that wait to be exported

Asked are DuckDB, `pgassay query` on each engine that is there, Spark on a local cluster of processes, and the Trino
of TRINO_HOME, with the Java of JAVA_HOME.
"""

import glob
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from records_damage import refused
from records_engines import TABLES, duck, engines, hold, query, spark, without_java
from records_runs import BEGIN, SLOW, Template, export, found, lines, record
from records_trino import Trino

HERE = Path(__file__).resolve().parent.parent
QUERIES = sorted((HERE / "crates/results/records/queries").glob("*.sql"))
# Runs of a batch, which is of its own days.
BATCH, DAYS = 1000, 10
# Batches that wait to be exported: 170 MB each.
AHEAD = 40


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
    hot = {row["host"] for row in rows("hosts") if row["id"] == "hot-row"}
    assert hot >= {f"host-{n}" for n in (0, 1, 3, 4)}, rows("hosts")
    line = next(row for row in rows("transfers") if row["name"] == "LWLock ProcArray")
    assert (line["at_1"], line["at_64"], line["at_384"]) == (1.0, 64.0, 384.0), line
    assert {row["host"] for row in rows("noise")} == {f"host-{n}" for n in range(5)}, rows("noise")


def same(name, wanted, ask):
    values = sum(hold(f"{name}, {query}", wanted[query], answer) for query, answer in answers(ask).items())
    print(f"{name} answers {len(wanted)} questions alike: {values} values")


def test(program, engine):
    if engine == "spark" and (why := without_java()):
        sys.exit(why)
    with tempfile.TemporaryDirectory(prefix="pgassay-records-") as name:
        place = Path(name)
        os.chmod(place, 0o755)
        templates = [Template(path) for path in record(program, str(place / "recorded"))]
        chance = random.Random(1)
        for number in range(120):
            template = {0: templates[-1], 1: templates[1]}.get(number % 12, templates[0])
            template.vary(number, BEGIN, 360, place / "runs", chance)
        tables = place / "tables"
        export(program, place / "runs", tables)
        lines(place / "lines.json")
        subprocess.run([program, "export", place / "lines.json", "--parquet", tables, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        found = answers(duck(tables))
        known(found)
        print(f"DuckDB answers {len(found)} questions to 121 runs as was planted")
        here, missing = engines(program)
        assert "duckdb" in here, "python3 has no module duckdb"
        for one in here:
            same(f"pgassay query on {one}", found, query(program, tables, one))
            refused(program, tables, place / "damaged", one)
        for one in missing:
            print(f"NOT ASKED: pgassay query on {one}, which is not here"
                  + (": make query-engine" if one == "datafusion" else ""))
        if engine == "spark":
            ask, session = spark(tables, 2)
            same("Spark with two workers", found, ask)
            session.stop()
        if engine == "trino":
            server = Trino(tables, place / "trino")
            try:
                same(f"Trino {server.version()}", found, server.ask)
            finally:
                server.stop()


def make(runs, place, others=None):
    """Generates batches of runs, as many ahead as the disk is to hold."""
    place = Path(place)
    # Of twelve one is a comparison.
    kinds = {True: [], False: []}
    for path in found(place / "recorded") + (found(others) if others else []):
        template = Template(path)
        kinds[template.header["command"] == "compare"].append(template)
    for batch, first in enumerate(range(0, runs, BATCH)):
        made, making = place / f"batch-{batch:04d}", place / "making"
        if made.exists():
            continue
        while len(list(place.glob("batch-*"))) >= AHEAD:
            time.sleep(0.2)
        shutil.rmtree(making, ignore_errors=True)
        chance, begin = random.Random(first), BEGIN + timedelta(days=batch * DAYS)
        for number in range(first, min(first + BATCH, runs)):
            some = kinds[number % 12 == 0]
            some[number // 12 % len(some)].vary(number, begin, DAYS, making, chance)
        making.rename(made)


def size(program, runs, place, others=None):
    """Batches of runs are generated, exported, and removed."""
    place = Path(place)
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "recorded").is_dir():
        record(program, str(place / "recorded"))
    maker = subprocess.Popen([sys.executable, __file__, "make", str(runs), str(place), *([others] if others else [])])
    tables, seconds, cpu, peak, done = place / "tables", 0.0, 0.0, 0, 0
    for batch in range(-(-runs // BATCH)):
        made = place / f"batch-{batch:04d}"
        while not made.exists():
            if maker.poll() not in (None, 0):
                sys.exit("no runs were generated")
            time.sleep(0.05)
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        export(program, made, tables)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds += time.monotonic() - began
        cpu += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        peak = max(peak, after.ru_maxrss)
        done += sum(1 for _ in made.glob("*/*"))
        shutil.rmtree(made)
        if batch % 10 == 9:
            print(f"{done} runs in {seconds:.0f} s, CPU {cpu:.0f} s, at most {peak / 1024:.0f} MiB, "
                  f"load {os.getloadavg()}", flush=True)
    maker.wait()
    lines(place / "lines.json")
    subprocess.run([program, "export", place / "lines.json", "--parquet", tables, "--quiet"], check=True)
    print(f"{done} runs exported in {seconds:.0f} s: {done / seconds:.0f} a second; {1000 * cpu / done:.2f} ms of CPU "
          f"each; at most {peak / 1024:.0f} MiB in a process; load {os.getloadavg()}", flush=True)
    for table in TABLES:
        files = glob.glob(f"{tables}/{table}/*/*.parquet")
        print(f"{table}: {sum(map(os.path.getsize, files)) / 1e6:.1f} MB in {len(files)} files")
    timed(program, tables)


def timed(program, tables):
    """The questions' times, and what they took of memory: each engine in a process of its own."""
    names = ["DuckDB", "DuckDB in 512 MiB", *(f"query {engine}" for engine in engines(program)[0])]
    names += [] if without_java() else ["Spark 1", "Spark 2"]
    names += ["Trino"] if "TRINO_HOME" in os.environ else []
    for name in names:
        subprocess.run([sys.executable, __file__, "time", program, tables, name])


def timed_one(program, tables, name):
    began, session = time.monotonic(), None
    match name.split():
        case ["DuckDB", *limit]:
            ask = duck(tables, "512MiB" if limit else None)
        case ["query", engine]:
            ask = query(program, tables, engine)
        case ["Spark", workers]:
            ask, session = spark(tables, int(workers))
        case ["Trino"]:
            session = Trino(tables, tempfile.mkdtemp(prefix="pgassay-trino-"))
            ask = session.ask
    times = [f"begin {time.monotonic() - began:.1f}"]
    for path in QUERIES:
        began = time.monotonic()
        ask(path.read_text())
        times.append(f"{path.stem} {time.monotonic() - began:.2f}")
    if session:
        session.stop()
    if name == "Trino":
        shutil.rmtree(session.place)
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"{name}, seconds: {', '.join(times)}; at most {max(usage) / 1024:.0f} MiB in a process; "
          f"load {os.getloadavg()}", flush=True)


def main():
    match sys.argv[1:]:
        case ["test", program, *engine]:
            test(program, engine[0] if engine else "")
        case ["make", runs, place, *others]:
            make(int(runs), place, *others)
        case ["size", program, runs, place, *others]:
            size(program, int(runs), place, *others)
        case ["time", program, tables, name]:
            timed_one(program, tables, name)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
