#!/usr/bin/env python3
"""Spoils a throw-away server in many ways, asks pgassay what is wrong, mends it, and measures again.

    bench/spoilt.py PGASSAY [--only ID…] [--sound] [--bin DIR] [--keep FILE] [--entries MODULE]
    bench/spoilt.py PGASSAY --again FILE [--only ID…]

For each entry of spoilt_entries.py: a database of its own on a server of PostgreSQL with sound settings, what spoils
it, a load over `pgassay run`, and `pgassay diagnose`. The cause is *named* if an expected finding is among the first
three that weigh, is no symptom, is at least of medium confidence, and one of its steps says what mends it; *in part*
if it is found, but not so; else *missed*, or *no effect* if mending gains nothing on this machine. Then it is mended and measured again, and the gain that was said (as
expected where it was, marked ~ where only the time spent there was given) is held against the gain that came. With --sound, the servers that have nothing wrong: every finding above "low" that
is not allowed there is wrong.

Entries of another module (--entries spoilt_blind) may tell cause and remedy in words instead of ids: then the first
page of each diagnosis is written into FILE.d as text, with the cause below it, for a reader to judge.

Needs no network. As root the server runs as the user postgres. Timings are short: what is compared are shares and
ratios, and a busy machine moves them.
"""

import argparse
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from spoilt_entries import SOUND  # noqa: E402

SOUND_SETTINGS = dict(
    shared_buffers="256MB", effective_cache_size="1GB", effective_io_concurrency="16", max_wal_size="4GB",
    checkpoint_timeout="15min", random_page_cost="1.1", listen_addresses="''", logging_collector="off", jit="on",
)
# What a machine of few CPUs, shared with others, shows of any server; and what pgassay's client is to blame for.
OF_THE_MACHINE = {"cpu-saturated", "cpu-others", "cpu-steal", "cpu-quota", "client-bound", "huge-pages", "pressure",
                  "io-scheduler", "transparent-huge-pages", "off-cpu-unexplained", "scaling-contention",
                  "memory-promised", "cpu-throttled", "timing-cost", "clock-source", "cpu-class", "round-trips"}
FIRST = 3
# The gain from which on the program says that nearly all of the time is spent there.
NO_FIGURE = 20


class Server:
    def __init__(self, programs, work):
        self.programs, self.work = pathlib.Path(programs), work
        self.data, self.sockets = work / "data", work / "s"
        self.sockets.mkdir()
        self.prefix = []
        if os.getuid() == 0:
            self.prefix = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
            for path in (work, self.sockets):
                shutil.chown(path, "postgres", "postgres")
        self.call("initdb", "-D", str(self.data), "--locale=C", "--encoding=UTF8", "-U", "postgres", "-A", "trust")
        self.up = False

    def call(self, program, *args, **more):
        done = subprocess.run([*self.prefix, str(self.programs / program), *args], capture_output=True, text=True,
                              cwd="/", **more)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def start(self, settings, preload):
        self.stop()
        lines = {**SOUND_SETTINGS, **settings, "unix_socket_directories": f"'{self.sockets}'"}
        if preload:
            lines["shared_preload_libraries"] = f"'{preload}'"
        text = "\n".join(f"{name} = {value if str(value).startswith(chr(39)) else repr(str(value))}"
                         for name, value in lines.items())
        (self.data / "postgresql.auto.conf").write_text("")
        (self.data / "conf.d.conf").write_text(text + "\n")
        conf = self.data / "postgresql.conf"
        kept = [line for line in conf.read_text().splitlines() if not line.startswith("include")]
        conf.write_text("\n".join([*kept, "include = 'conf.d.conf'"]) + "\n")
        self.call("pg_ctl", "-D", str(self.data), "-l", str(self.work / "log"), "-w", "start")
        self.up = True

    def stop(self):
        if self.up:
            self.call("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")
            self.up = False

    def where(self, role="postgres", database="spoilt"):
        return f"host={self.sockets} user={role} dbname={database}"

    def sql(self, text, database="spoilt"):
        done = subprocess.run([str(self.programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
                               self.where(database=database)], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-600:])

    def beside(self, text):
        """A session that repeats a text until it is told to stop."""
        script = self.work / "beside.sql"
        script.write_text(text + "\n")
        loop = f"while :; do {self.programs}/psql -X -q -d '{self.where()}' -f {script} >/dev/null 2>&1 || sleep 0.2; done"
        return subprocess.Popen(["sh", "-c", loop], start_new_session=True)


class Bench:
    def __init__(self, args):
        self.pgassay = str(pathlib.Path(args.pgassay).resolve())
        # A socket's path is short.
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="spoilt-", dir=args.work))
        self.work.chmod(0o755)
        self.server = Server(args.bin, self.work)
        self.runs = self.work / "runs"
        self.keep = pathlib.Path(args.keep + ".d") if args.keep else None

    def close(self):
        self.server.stop()
        shutil.rmtree(self.work, ignore_errors=True)

    def open(self, entry):
        self.server.start(entry.get("settings", {}), entry.get("preload", "pg_stat_statements"))
        self.server.sql("DROP DATABASE IF EXISTS spoilt;\nCREATE DATABASE spoilt;", database="postgres")
        self.server.sql("DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$", database="postgres")
        self.server.sql("ALTER ROLE app RESET ALL; GRANT pg_monitor TO app; GRANT CREATE ON DATABASE spoilt TO app;"
                        "GRANT CREATE ON SCHEMA public TO app;")
        if entry.get("preload", "pg_stat_statements") == "pg_stat_statements":
            self.server.sql("CREATE EXTENSION pg_stat_statements;")
            # Its counters outlive the server and the databases of other entries.
            self.server.sql("SELECT pg_stat_statements_reset();")
        self.server.sql(entry["spoil"])

    def run(self, entry, load, args, beside):
        script = self.work / "load.sql"
        script.write_text(load)
        other = self.server.beside(beside) if beside else None
        try:
            if other:
                time.sleep(0.7)
            command = [self.pgassay, "--quiet", "run", str(script), self.server.where(entry.get("role", "postgres")), "--load", "--is-copy",
                       "--runs", str(self.runs), "-c", str(entry.get("clients", 4)), "-T", str(entry.get("time", 2)), "--warmup",
                       str(entry.get("warmup", 0.5)), "--trials", "2", "--observe", "all", "--json",
                       *(["--protocol", entry["protocol"]] if "protocol" in entry else []), *args]
            done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        finally:
            if other:
                os.killpg(other.pid, 15)
                other.wait()
        if done.returncode not in (0,):
            raise RuntimeError(f"run: exit {done.returncode}: {done.stderr.strip()[-400:]}")
        points = json.loads(done.stdout)["stages"][0]["arms"][0]["points"]
        return points[-1]["throughput_tps"]["estimate"]

    def diagnosis(self, of):
        done = subprocess.run([self.pgassay, "--quiet", "diagnose", "last", "--runs", str(self.runs), "--json"],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"diagnose: {done.stderr.strip()[-400:]}")
        if self.keep:
            self.keep.mkdir(exist_ok=True)
            (self.keep / f"{of}.json").write_text(done.stdout)
            self.keep_last(of)
        return json.loads(done.stdout)

    def keep_last(self, name):
        """The run that ended last, where runs are kept."""
        if self.keep:
            last = max((p for p in self.runs.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
            shutil.copytree(last, self.keep / name, dirs_exist_ok=True)

    def page(self, entry):
        """What a user reads first, beside what is wrong in truth."""
        done = subprocess.run([self.pgassay, "--quiet", "diagnose", "last", "--runs", str(self.runs)],
                              capture_output=True, text=True, timeout=60, check=False)
        if self.keep:
            (self.keep / f"{entry['id']}.txt").write_text(
                f"{done.stdout}\n\n--- the cause: {entry['cause']}\n--- what mends it: {entry['mends']}\n")

    def spoilt(self, entry):
        self.open(entry)
        before = self.run(entry, entry["load"], entry.get("args", []), entry.get("beside"))
        seen = self.diagnosis(entry["id"])
        if "expect" not in entry:
            self.page(entry)
        if any(key.startswith("mend_") and key != "mend_load" and key != "mend_args" and key != "mend_beside" for key in entry):
            self.server.start(entry.get("mend_settings", {}), entry.get("mend_preload", entry.get("preload", "pg_stat_statements")))
        if entry.get("mend"):
            self.server.sql(entry["mend"])
        after = self.run(entry, entry.get("mend_load", entry["load"]), entry.get("mend_args", entry.get("args", [])),
                         entry.get("mend_beside", entry.get("beside")))
        self.keep_last(entry["id"] + ".mended")
        return judge(entry, seen, before, after)

    def sound(self, entry):
        self.open(entry)
        tps = self.run(entry, entry["load"], entry.get("args", []), None)
        seen = self.diagnosis(entry["id"])
        allowed = OF_THE_MACHINE | set(entry.get("allowed", []))
        heavy = [f for f in seen["findings"] if f["severity"] in ("medium", "high")]
        wrong = [f for f in heavy if f["id"].split("/")[0] not in allowed and f["id"] not in allowed]
        return dict(id=entry["id"], before=tps, explained=seen.get("explained"), found=[f["id"] for f in heavy],
                    wrong=[f"{f['id']} ({f['confidence']})" for f in wrong])


def judge(entry, seen, before, after):
    """What a diagnosis is worth, and the gain that it says beside the one that came."""
    weighty = [f for f in seen["findings"] if f["severity"] != "info"]
    result = dict(id=entry["id"], area=entry["area"], before=before, after=after, explained=seen.get("explained"), said=None,
                  gain=after / before if before > 0 else None,
                  top=[f"{f['id']}{'?' if f['confidence'] == 'low' else ''}" for f in weighty[:4]])
    if "expect" not in entry:
        result["verdict"], result["why"] = "to judge" if after >= 1.1 * before else "no effect", ""
        return result
    judged = []
    # What other programs take of a shared machine is no finding about the server.
    ranked = [f for f in weighty if f["id"] != "cpu-others"]
    for at, finding in enumerate(ranked):
        if finding["id"] not in entry["expect"]:
            continue
        steps = "\n".join(step["text"] for step in finding["remedy"])
        wrong = []
        if at >= FIRST:
            wrong.append(f"stands at {at + 1}")
        if finding.get("symptom_of"):
            wrong.append("said to be a symptom")
        if finding["confidence"] == "low":
            wrong.append("of low confidence")
        if not re.search(entry["remedy"], steps):
            wrong.append("no remedy that mends it: " + steps[:160].replace("\n", " | "))
        judged.append((len(wrong), at, wrong, finding))
    result["verdict"], result["why"] = "missed", ""
    if judged:
        # Of several that name it the best counts.
        _, _, wrong, finding = min(judged, key=lambda j: j[:2])
        result["verdict"], result["why"] = ("in part", "; ".join(wrong)) if wrong else ("named", "")
        result["confidence"] = finding["confidence"]
        gain = finding.get("gain_expected", finding.get("gain_at_most"))
        if gain is not None:
            result["said"] = 1 / max(1e-3, 1 - gain)
        result["rests_on"] = finding.get("gain_rests_on")
    if result["verdict"] == "missed" and after < 1.1 * before:
        # What is spoilt costs nothing here: there is nothing to be found.
        result["verdict"] = "no effect"
    return result


def again(pgassay, kept, only, entries):
    """Runs that were kept, diagnosed anew, beside the gains that came then."""
    for result in json.loads(pathlib.Path(kept).read_text())["spoilt"]:
        entry = next((e for e in entries if e["id"] == result["id"]), None)
        if entry is None or "error" in result or (only and entry["id"] not in only):
            continue
        run = pathlib.Path(kept + ".d") / entry["id"]
        done = subprocess.run([pgassay, "--quiet", "diagnose", str(run), "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{entry['id']}: {done.stderr.strip()[-400:]}")
        yield judge(entry, json.loads(done.stdout), result["before"], result["after"])


def share(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def factor(value):
    return "-" if value is None else f"{value:.2f}"


def said(result):
    bound = result["said"] is not None and not result.get("rests_on")
    return ("~" if bound else "") + factor(result["said"])


def show_spoilt(results):
    print(f"{'entry':22} {'verdict':8} {'explained':>9} {'said':>8} {'came':>8}  first findings")
    for r in results:
        if "error" in r:
            print(f"{r['id']:22} failed   {r['error'][:150]}")
            continue
        print(f"{r['id']:22} {r['verdict']:8} {share(r['explained']):>9} {said(r):>8} {factor(r['gain']):>8}  "
              f"{' '.join(r['top'])}{'  [' + r['why'] + ']' if r['why'] else ''}")
    done = [r for r in results if "error" not in r]
    count = lambda verdict: sum(r["verdict"] == verdict for r in done)  # noqa: E731
    if count("to judge"):
        print(f"\nto be judged by a reader: {count('to judge')}")
    print(f"\nnamed {count('named')}, in part {count('in part')}, missed {count('missed')}, no effect {count('no effect')} of {len(done)}"
          f"{'; failed ' + str(len(results) - len(done)) if len(done) < len(results) else ''}")
    both = [r for r in done if r["verdict"] == "named" and r["said"] and r["gain"]]
    # Where nearly all of the time goes the program says that, and no figure.
    at_most = lambda gain: min(gain, NO_FIGURE)  # noqa: E731
    near = [r for r in both if 1 / 1.5 <= at_most(r["said"]) / at_most(r["gain"]) <= 1.5]
    print(f"gain said within a factor of 1.5 of the gain that came (above {NO_FIGURE} is one): {len(near)} of {len(both)}")
    unexplained = [r["id"] for r in done if r["explained"] is None]
    print(f"explained share missing: {', '.join(unexplained) or 'nowhere'}")


def show_sound(results):
    print(f"\n{'sound server':22} {'explained':>9}  found above low; wrong")
    for r in results:
        if "error" in r:
            print(f"{r['id']:22} failed   {r['error'][:150]}")
            continue
        print(f"{r['id']:22} {share(r['explained']):>9}  {' '.join(r['found']) or 'nothing'}"
              f"{'  WRONG: ' + ', '.join(r['wrong']) if r['wrong'] else ''}")
    print(f"\nwrong findings on {len(results)} sound servers: {sum(len(r.get('wrong', [])) for r in results)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pgassay")
    parser.add_argument("--only", nargs="*", help="these entries")
    parser.add_argument("--sound", action="store_true", help="the sound servers, too")
    parser.add_argument("--bin", default=newest(), help="PostgreSQL's programs")
    parser.add_argument("--work", default="/var/tmp", help="where the server lies")
    parser.add_argument("--keep", help="a file for all results as JSON, the runs and their diagnoses in FILE.d")
    parser.add_argument("--again", metavar="FILE", help="measure nothing: diagnose the runs that --keep FILE kept anew")
    parser.add_argument("--entries", default="spoilt_entries", help="the module in bench/ whose entries are tried (spoilt_blind)")
    args = parser.parse_args()
    spoilt_entries = importlib.import_module(args.entries).ENTRIES
    if args.again:
        return show_spoilt(list(again(args.pgassay, args.again, args.only, spoilt_entries)))
    chosen = lambda entries: [e for e in entries if not args.only or e["id"] in args.only]  # noqa: E731
    bench = Bench(args)
    results, sound = [], []
    try:
        for how, entries, into in ((bench.spoilt, chosen(spoilt_entries), results),
                                   (bench.sound, chosen(SOUND) if args.sound else [], sound)):
            for entry in entries:
                try:
                    into.append(how(entry))
                except (RuntimeError, subprocess.TimeoutExpired, LookupError, ValueError) as error:
                    into.append(dict(id=entry["id"], error=str(error).replace("\n", " ")))
                print(f"{entry['id']}: {into[-1].get('verdict') or into[-1].get('error') or into[-1].get('wrong')}",
                      file=sys.stderr, flush=True)
                if args.keep:
                    pathlib.Path(args.keep).write_text(json.dumps(dict(spoilt=results, sound=sound), indent=1))
    finally:
        bench.close()
    if results:
        show_spoilt(results)
    if sound:
        show_sound(sound)


def newest():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[4]))
    return str(found[-1].parent) if found else "/usr/bin"


if __name__ == "__main__":
    main()
