#!/usr/bin/env python3
"""What pgassay writes for other tools, read by their own programs.

    scripts/test-formats.py PROGRAM [otava]

Findings in Prometheus's text format and what is measured now in OpenMetrics: by prometheus_client's parsers. With
"otava" (or anything): Apache Otava reads the CSV file and the description that guard --otava writes, and finds a
change that was planted.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
FACTS = HERE / "crates/results/analysis/tests/check/recorded"
# A proxy of the site is not asked for what is on this machine.
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def run(words, codes=(0,), **more):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **more)
    assert done.returncode in codes, (words, done.returncode, done.stderr)
    return done


def check(program, place):
    """Each recorded server's findings."""
    from prometheus_client.parser import text_string_to_metric_families
    import json
    seen = 0
    for facts in sorted(FACTS.glob("*.json")):
        file = place / "textfile" / f"{facts.stem}.prom"
        file.parent.mkdir(exist_ok=True)
        run([program, "check", facts, "--quiet", "--prometheus", file], (0, 4))
        report = json.loads(run([program, "check", facts, "--json"], (0, 4)).stdout)
        families = {family.name: family for family in text_string_to_metric_families(file.read_text())}
        assert all(family.type == "gauge" and family.documentation for family in families.values())
        found = families.get("pgassay_check_finding")
        got = {(s.labels["id"], s.labels["severity"]) for s in found.samples} if found else set()
        wanted = {(r["id"], r["finding"]["severity"]) for r in report["results"] if r["outcome"] == "finding"}
        assert got == wanted, (got, wanted)
        counts = {s.labels["outcome"]: s.value for s in families["pgassay_check_results"].samples}
        assert counts["finding"] == len(wanted) and counts["passed"] == report["counts"]["passed"], counts
        # Nothing but whole files is left where a collector looks.
        assert [path.suffix for path in file.parent.iterdir()].count(".prom") == len(list(file.parent.iterdir()))
        seen += len(wanted)
    assert seen > 5
    print(f"prometheus_client reads {seen} findings as they are")


def live(program, place):
    """A run while it is measured."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    runs = place / "runs"
    runs.mkdir()
    served = subprocess.Popen([program, "serve", runs], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    words = [program, "run", "select-only", "temp", "--clients", "1,2", "--trials", "500", "--time", "0.2",
             "--warmup", "0", "--scale", "1", "--observe", "waits,sched", "--runs", runs]
    try:
        address, key = re.fullmatch(r"(http://[^/]+/)(\w+)/\n", served.stdout.readline()).groups()

        def scrape(key):
            request = urllib.request.Request(address + "metrics", headers={"Authorization": f"Bearer {key}"})
            with DIRECTLY.open(request, timeout=60) as answer:
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
                families = list(text_string_to_metric_families(answer.read().decode()))
            return {family.name: [(s.labels, s.value) for s in family.samples] for family in families}
        assert scrape(key) == {"pgassay_runs_measured": [({}, 0.0)]}
        try:
            scrape("0" * 32)
            raise AssertionError("it needs no key")
        except urllib.error.HTTPError as refused:
            assert refused.code == 403
        measuring = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 120
            families = {}
            wanted = {"pgassay_throughput", "pgassay_throughput_now", "pgassay_budget_sessions"}
            while not wanted <= set(families):
                assert time.monotonic() < until and measuring.poll() is None, families
                time.sleep(1)
                families = scrape(key)
        finally:
            measuring.terminate()
            measuring.wait()
        (labels, rate), *_ = families["pgassay_throughput"]
        assert labels["stage"] == "load" and labels["unit"] == "tps" and rate > 0, families
        spent = {labels["state"] for labels, _ in families["pgassay_budget_sessions"]}
        assert "on-cpu" in spent, spent
        trials = {labels["state"]: value for labels, value in families["pgassay_run_trials"]}
        assert trials["planned"] == 1000 and trials["measured"] >= 1, trials
        print(f"prometheus_client reads {len(families)} families of a run that is measured: {', '.join(families)}")
    finally:
        served.terminate()
        served.wait()


def otava(program, place):
    """What guard writes, from one real comparison; its line is repeated with noise, and a planted change."""
    series = place / "otava"
    run([program, "guard", "temp", "temp", "--clients", "1", "--scale", "1", "--slice", "0.1", "--pairs", "8",
         "--noise-pairs", "2", "--threshold", "throughput=50%", "--otava", series, "--quiet",
         "--runs", place / "guarded"], (0, 1, 5, 6))
    file, = series.glob("*.csv")
    header, line = file.read_text().splitlines()
    names, values = header.split(","), line.split(",")
    at, chance, lines = names.index("throughput"), random.Random(3), [header]
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for day in range(60):
        speed = (0.85 if day >= 40 else 1.0) * (1 + chance.gauss(0, 0.01))
        now = [f"{begin + timedelta(days=day):%Y-%m-%dT%H:%M:%SZ}", f"commit{day:02}", *values[2:]]
        now[at] = str(float(values[at]) * speed)
        lines.append(",".join(now))
    file.write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "OTAVA_CONFIG": "otava.yaml"}
    done = run(["otava", "analyze", file.stem, "--since", "2025-12-01"], cwd=series, env=environment)
    said = done.stdout + done.stderr
    changes = re.findall(r"^.*[-+]\d+\.\d%.*$", said, re.MULTILINE)
    assert len(changes) == 1 and re.search(r"-1[456]\.\d%", changes[0]), said
    where = next(n for n, text in enumerate(said.splitlines()) if changes[0] in text)
    around = "\n".join(said.splitlines()[max(0, where - 3): where + 4])
    assert "2026-02-10" in around and "commit40" in around, said
    print(f"Apache Otava finds the planted change at commit40: {changes[0].strip()}")


def main():
    program, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="pgassay-formats-") as name:
        place = Path(name)
        os.chmod(place, 0o755)
        check(program, place)
        live(program, place)
        if any(more):
            otava(program, place)


if __name__ == "__main__":
    main()
