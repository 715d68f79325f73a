#!/usr/bin/env python3
"""Records servers with something wrong, and sound ones, under a load.

    scripts/record-servers.py PGASSAY [--bin DIR] [ID…]

For each server of crates/pgassay/tests/recorded/servers.toml, or for those named: a database of its own on a
temporary cluster with sound settings, whatever is wrong with it, and `pgassay run` under its load. The run directory
becomes ID in servers.tar.xz in the same directory, which tests/weighed/servers.rs diagnoses again without a server.

As root the cluster runs as the user postgres. Record on an otherwise idle machine: what others do is in the record.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib

RECORDED = pathlib.Path(__file__).resolve().parent.parent / "crates/pgassay/tests/recorded"
ARCHIVE = RECORDED / "servers.tar.xz"
# What a diagnosis of the load needs of the machine. The rest would identify it, and give findings of its own.
MACHINE = ["/proc/cpuinfo", "getconf PAGESIZE", "sched_getaffinity", "uname machine"]
OWN = ["environment", "cgroup", "limits"]
SOUND = dict(
    shared_buffers="256MB", effective_cache_size="1GB", effective_io_concurrency="16", max_wal_size="4GB",
    checkpoint_timeout="15min", random_page_cost="1.1", listen_addresses="", logging_collector="off", jit="on",
)
STATEMENTS = "pg_stat_statements"


class Cluster:
    def __init__(self, programs, work):
        self.programs, self.work = pathlib.Path(programs), work
        self.data, self.sockets = work / "data", work / "s"
        self.sockets.mkdir()
        self.prefix = []
        if os.getuid() == 0:
            self.prefix = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
            for path in (work, self.sockets):
                shutil.chown(path, "postgres", "postgres")
        self.call("initdb", "-D", self.data, "--locale=C", "--encoding=UTF8", "-U", "postgres", "-A", "trust")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("include 'server.conf'\n")
        self.data.rename(work / "template")
        self.up = False

    def call(self, program, *args):
        done = subprocess.run([*self.prefix, self.programs / program, *args], capture_output=True, text=True, cwd="/",
                              check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.strip()[-400:]}")

    def start(self, settings):
        """Starts a new cluster: no prepared transaction, role or slot of the one before is left."""
        self.stop()
        subprocess.run(["rm", "-rf", self.data], check=True)
        subprocess.run(["cp", "-a", self.work / "template", self.data], check=True)
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        (self.data / "server.conf").write_text("".join(lines))
        self.call("pg_ctl", "-D", self.data, "-l", self.work / "log", "-w", "start")
        self.up = True

    def stop(self):
        if self.up:
            self.call("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")
            self.up = False

    def sql(self, text, database="orders"):
        done = subprocess.run([self.programs / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
                               self.conninfo("postgres", database)], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-600:])

    def conninfo(self, role, database="orders"):
        return f"host={self.sockets} user={role} dbname={database}"

    def repeat(self, text):
        """Starts a session that repeats `text` until it is killed."""
        script = self.work / "alongside.sql"
        script.write_text(text)
        psql = f"{self.programs}/psql -X -q -d '{self.conninfo('postgres')}' -f {script} >/dev/null 2>&1"
        return subprocess.Popen(["sh", "-c", f"while :; do {psql} || sleep 0.2; done"], start_new_session=True)


def prepare(cluster, server):
    preload = server.get("preload", STATEMENTS)
    cluster.start({**SOUND, **server.get("settings", {}), "unix_socket_directories": cluster.sockets,
                   "shared_preload_libraries": preload})
    cluster.sql("CREATE DATABASE orders;\nCREATE ROLE app LOGIN;\nGRANT pg_monitor TO app;\nGRANT CREATE ON DATABASE orders TO app;",
                "postgres")
    if preload == STATEMENTS:
        cluster.sql("CREATE EXTENSION pg_stat_statements;")
    cluster.sql("GRANT CREATE ON SCHEMA public TO app;\n" + server["setup"])


def record(pgassay, cluster, server, runs):
    prepare(cluster, server)
    script = cluster.work / "load.sql"
    script.write_text(server["load"])
    other = cluster.repeat(server["alongside"]) if "alongside" in server else None
    try:
        if other:
            time.sleep(0.7)
        done = subprocess.run(
            [pgassay, "--quiet", "run", script, cluster.conninfo(server.get("role", "postgres")), "--load", "--is-copy",
             "--runs", runs, "--clients", str(server.get("clients", 4)), "--time", str(server.get("time", 2)),
             "--warmup", str(server.get("warmup", 0.5)), "--trials", "2", "--observe", "all", *server.get("args", [])],
            capture_output=True, text=True, timeout=150, check=False)
    finally:
        if other:
            os.killpg(other.pid, 15)
            other.wait()
    if done.returncode:
        raise RuntimeError(f"run: exit {done.returncode}: {done.stderr.strip()[-400:]}")
    (run,) = [path for path in runs.iterdir() if path.is_dir()]
    return run


def reduce(run, into, work):
    """Copies a run without what nothing reads again, and without what identifies the machine."""
    (into / "facts").mkdir(parents=True)
    for file in [*run.glob("*.json*"), *run.glob("facts/*.json")]:
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.suffix == ".jsonl" else [json.loads(file.read_text())]
        for value in lines:
            if file.name == "host.json":
                keep(value, MACHINE)
            if file.name == "check.json":
                keep(value["host"], MACHINE)
                keep(value["process"], value["process"].keys() - OWN)
            if file.name == "run.json":
                value["command_line"] = ["pgassay", "run"]
            keep_samples(value.get("samples", {}))
        text = "".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for value in lines)
        text = text.replace(f"{work}/s", "/run/postgresql").replace(str(work), "/var/lib/postgresql")
        (into / file.relative_to(run)).write_text(text)


def keep(values, names):
    for name in values.keys() - set(names):
        del values[name]


def keep_samples(samples):
    for name in [name for name in samples if name.startswith("cgroup.") or name == "host.diskstats"]:
        del samples[name]


def anonymous(member):
    """A member without the names and times of whoever recorded it."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def pack(runs):
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as tar:
        for run in sorted(runs.iterdir()):
            tar.add(run, arcname=run.name, filter=anonymous)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pgassay", type=pathlib.Path)
    parser.add_argument("id", nargs="*", help="record these servers only")
    parser.add_argument("--bin", default=newest(), help="directory of PostgreSQL's programs (default: %(default)s)")
    args = parser.parse_args()
    servers = tomllib.loads((RECORDED / "servers.toml").read_text())["server"]
    unknown = set(args.id) - {server["id"] for server in servers}
    if unknown:
        parser.error(f"no such server: {', '.join(sorted(unknown))}")
    failed = 0
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="servers-", dir="/var/tmp") as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        cluster = Cluster(args.bin, work)
        kept = work / "kept"
        kept.mkdir()
        if ARCHIVE.exists():
            with tarfile.open(ARCHIVE) as tar:
                tar.extractall(kept, filter="data")
        try:
            for server in servers:
                if args.id and server["id"] not in args.id:
                    continue
                runs = pathlib.Path(tempfile.mkdtemp(dir=work))
                try:
                    run = record(args.pgassay.resolve(), cluster, server, runs)
                    shutil.rmtree(kept / server["id"], ignore_errors=True)
                    reduce(run, kept / server["id"], work)
                    print(server["id"], flush=True)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    failed += 1
                    print(f"{server['id']}: {error}", file=sys.stderr, flush=True)
                shutil.rmtree(runs, ignore_errors=True)
            for gone in {run.name for run in kept.iterdir()} - {server["id"] for server in servers}:
                shutil.rmtree(kept / gone)
            pack(kept)
        finally:
            cluster.stop()
    sys.exit(failed > 0)


def newest():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return str(found[-1].parent) if found else "/usr/bin"


if __name__ == "__main__":
    main()
