#!/usr/bin/env python3
"""Order entry held against go-tpc, side by side on one server.

    bench/order-entry.py PGASSAY GO-TPC [WAREHOUSES [CLIENTS [SECONDS [ROUNDS]]]]     2 4 30 5; 0 rounds: the checks alone

Makes a throw-away server (BIN, or the newest installed) and prints

  * the rows of each table after loading by either,
  * the seconds that either loading took,
  * in alternating rounds: throughput, new orders a minute, and client CPU a transaction of either,
    pgassay by statements and by procedures, with the ratio to go-tpc as median [min..max],
  * the mix of either over all rounds,
  * whether the consistency conditions hold: each program's own of its tables, and go-tpc's of pgassay's tables.

go-tpc's client CPU is that of its whole process, which in such a run is nearly all its clients';
pgassay's is that of its load threads, and that of its process while the load ran is not more by much
(it writes the run down).  go-tpc: github.com/pingcap/go-tpc, driver postgres.
"""

import glob
import json
import os
import pwd
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TABLES = ["warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "item", "stock"]
NAMES = {"NEW_ORDER": "new-order", "PAYMENT": "payment", "ORDER_STATUS": "order-status",
         "DELIVERY": "delivery", "STOCK_LEVEL": "stock-level"}
PORT = 54329


class Server:
    """A throw-away server that answers over TCP, which both clients use."""

    def __init__(self, bin_dir):
        self.bin = bin_dir
        self.place = tempfile.mkdtemp(prefix="order-entry-", dir="/var/tmp")
        self.user = []
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.place, owner.pw_uid, owner.pw_gid)
            self.user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        self.data = self.place + "/data"
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync")
        with open(self.data + "/postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write(f"port={PORT}\nlisten_addresses='127.0.0.1'\nunix_socket_directories='{self.place}'\n"
                       "shared_buffers=1GB\nmax_wal_size=8GB\ncheckpoint_timeout=1h\n")
        self.run("pg_ctl", "-D", self.data, "-l", self.place + "/log", "-w", "start")

    def run(self, program, *words):
        subprocess.run(self.user + [f"{self.bin}/{program}", *words], check=True, stdout=subprocess.DEVNULL)

    def ask(self, database, question):
        command = [f"{self.bin}/psql", "-h", "127.0.0.1", "-p", str(PORT), "-U", "postgres", "-XAtqc", question, database]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def settle(self):
        """Each round begins with as little left over from the one before as there can be."""
        self.ask("gotpc", "VACUUM")
        self.ask("postgres", "CHECKPOINT")

    def close(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.place)


def gotpc(program, *words, database="gotpc", params="sslmode=disable"):
    """go-tpc's words, and CPU and elapsed seconds."""
    command = [program, "tpcc", *words, "-d", "postgres", "-H", "127.0.0.1", "-P", str(PORT), "-U", "postgres",
               "-p", "x", "-D", database, "--conn-params", params]
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode != 0:
        sys.exit(f"order-entry.py: {' '.join(command)} ended with {process.returncode}:\n{text[-2000:]}")
    return text, usage.ru_utime + usage.ru_stime, time.monotonic() - begin


def by_gotpc(program, warehouses, clients, seconds):
    text, cpu, _ = gotpc(program, "run", "--warehouses", str(warehouses), "-T", str(clients), "--time", f"{seconds}s")
    counts = {}
    taken = 0.0
    for name, took, count in re.findall(r"\[Summary\] (\w+) - Takes\(s\): ([\d.]+), Count: (\d+)", text):
        if name in NAMES:
            counts[NAMES[name]] = int(count)
            taken = max(taken, float(took))
    errors = sum(int(n) for n in re.findall(r"\[Summary\] \w+_ERR - Takes\(s\): [\d.]+, Count: (\d+)", text))
    return figures(counts, taken, cpu * 1e6 / sum(counts.values())), errors


def figures(counts, seconds, cpu_us):
    return {"counts": counts, "tps": sum(counts.values()) / seconds, "orders": counts["new-order"] / seconds * 60,
            "cpu": cpu_us}


def by_pgassay(program, warehouses, clients, seconds, more, runs):
    target = f"host=127.0.0.1 port={PORT} user=postgres dbname=postgres"
    command = [program, "run", "order-entry", target, "--load", "--warehouses", str(warehouses), "--json", "--quiet",
               "--clients", str(clients), "--threads", "1", "--time", str(seconds), "--warmup", "0", "--trials", "1",
               "--observe", "none", "--runs", runs, *more]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"order-entry.py: {' '.join(command)}: {done.stderr}")
    point = json.loads(done.stdout)["stages"][0]["arms"][0]["points"][0]
    counts = {script["name"]: script["transactions"] for script in point["detail"]["scripts"]}
    cpu = point["metrics"]["client-cpu"]["estimate"]
    failed = sum(count for _, count in point["failures"])
    return figures(counts, float(seconds), cpu), failed, time.monotonic() - begin - seconds


def rows_of_pgassay(server, program, warehouses, runs):
    """The rows that pgassay filled: it removes its tables, so that a script on them counts, into the server's log."""
    text = "-- counts\n-- @tables order-entry\n" + "".join(
        f"-- @setup DO $$BEGIN RAISE LOG 'rows {table} %', (SELECT count(*) FROM {table}); END$$\n" for table in TABLES
    ) + "SELECT 1;\n"
    script = os.path.join(runs, "counts.sql")
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    target = f"host=127.0.0.1 port={PORT} user=postgres dbname=postgres"
    begin = time.monotonic()
    subprocess.run([program, "run", script, target, "--load", "-s", str(warehouses), "--clients", "1", "--time", "0.1",
                    "--trials", "1", "--quiet", "--is-copy", "--runs", runs], check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - begin
    with open(server.place + "/log", encoding="utf-8") as log:
        found = re.findall(r"rows (\w+) (\d+)", log.read())
    return {table: int(count) for table, count in found}, took


def checked_by_gotpc(server, program, theirs, warehouses, clients, seconds, runs, workload):
    """go-tpc's own check of the tables that pgassay filled and, where seconds are given, ran its load on.

    pgassay removes its tables at the end, so one more condition of it waits for a lock that this program holds until
    go-tpc has looked.  Returns the conditions that held, of each warehouse."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crates", "measurement", "engine", "workloads", workload + ".sql")
    if seconds:
        with open(source, encoding="utf-8") as file:
            text = file.read()
    else:
        text = "-- asks for an item\n-- @tables order-entry\n-- @script ask 1\nSELECT i_name FROM item WHERE i_id = 7;\n"
    text = text.replace("-- @script ", "-- @condition waits: SELECT pg_advisory_lock(19) IS NOT NULL\n-- @script ", 1)
    script = os.path.join(runs, f"checked-{workload}.sql")
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    target = f"host=127.0.0.1 port={PORT} user=postgres dbname=postgres"
    holder = subprocess.Popen([f"{server.bin}/psql", "-h", "127.0.0.1", "-p", str(PORT), "-U", "postgres", "-XAtq", "postgres"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    holder.stdin.write("SELECT 'held' FROM pg_advisory_lock(19);\n")
    holder.stdin.flush()
    holder.stdout.readline()
    running = subprocess.Popen([program, "run", script, target, "--load", "--is-copy", "-s", str(warehouses), "--clients", str(clients),
                                "--time", str(seconds or 0.1), "--warmup", "0", "--trials", "1", "--observe", "none", "--quiet",
                                "--runs", runs], stdout=subprocess.DEVNULL)
    try:
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while server.ask("postgres", waits) == "0":
            if running.poll() is not None:
                sys.exit("order-entry.py: pgassay's load ended before go-tpc could look")
            time.sleep(0.2)
        words = ["check", "--warehouses", str(warehouses), "-T", str(clients)] + ([] if seconds else ["--check-all"])
        text, _, _ = gotpc(theirs, *words, database="postgres", params="sslmode=disable&search_path=pgassay")
    finally:
        holder.stdin.close()
        holder.wait()
        if running.wait() != 0:
            sys.exit("order-entry.py: pgassay's own conditions did not hold")
    names = re.findall(r"begin to check warehouse \d+ at condition 3\.3\.2\.(\d+)", text)
    whole = {name for name in names if names.count(name) == warehouses}
    return ", ".join(sorted(whole, key=int))


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"


def main():
    if not 3 <= len(sys.argv) <= 7:
        sys.exit(__doc__)
    ours, theirs = (os.path.abspath(path) for path in sys.argv[1:3])
    warehouses, clients, seconds, rounds = (
        int(sys.argv[at]) if len(sys.argv) > at else default for at, default in ((3, 2), (4, 4), (5, 30), (6, 5))
    )
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    server = Server(os.environ.get("BIN") or (found or sys.exit("order-entry.py: no PostgreSQL: set BIN"))[-1])
    runs = tempfile.mkdtemp(prefix="order-entry-runs-")
    try:
        print(server.ask("postgres", "SELECT version()"))
        print(f"{warehouses} warehouses, {clients} clients, {rounds} rounds of {seconds} s, over TCP")
        server.ask("postgres", "CREATE DATABASE gotpc")
        _, _, loading = gotpc(theirs, "prepare", "--warehouses", str(warehouses), "-T", str(clients), "--no-check")
        mine, took = rows_of_pgassay(server, ours, warehouses, runs)
        print(f"\nfilled in: go-tpc {loading:.0f} s, pgassay {took:.0f} s (with all else of a command)\n")
        print(f"{'rows':12}{'go-tpc':>12}{'pgassay':>12}")
        for table in TABLES:
            print(f"{table:12}{server.ask('gotpc', f'SELECT count(*) FROM {table}'):>12}{mine[table]:>12}")
        server.ask("gotpc", "VACUUM ANALYZE")
        kinds = {
            "go-tpc": lambda: by_gotpc(theirs, warehouses, clients, seconds),
            "pgassay": lambda: by_pgassay(ours, warehouses, clients, seconds, [], runs)[:2],
            "pgassay --procedures": lambda: by_pgassay(ours, warehouses, clients, seconds, ["--procedures"], runs)[:2],
        }
        seen = {kind: [] for kind in kinds}
        failed = dict.fromkeys(kinds, 0)
        for _ in range(rounds):
            for kind in random.sample(list(kinds), len(kinds)):
                server.settle()
                figure, failures = kinds[kind]()
                seen[kind].append(figure)
                failed[kind] += failures
        seen = {kind: each for kind, each in seen.items() if each}
        print(f"\n{'':22}{'tps':>24}{'new orders/min':>30}{'client CPU, us/tx':>24}{'of go-tpc CPU':>22}{'tps':>22}")
        for kind, each in seen.items():
            line = f"{kind:22}{spread([f['tps'] for f in each], 0):>24}{spread([f['orders'] for f in each], 0):>30}"
            line += f"{spread([f['cpu'] for f in each], 0):>24}"
            if kind != "go-tpc":
                for what in ("cpu", "tps"):
                    line += f"{spread([a[what] / b[what] for a, b in zip(each, seen['go-tpc'])], 2):>22}"
            print(line)
        print(f"\n{'mix, %':22}" + "".join(f"{name:>14}" for name in NAMES.values()) + f"{'transactions':>14}{'failed':>8}")
        for kind, each in seen.items():
            total = sum(sum(f["counts"].values()) for f in each)
            shares = [100 * sum(f["counts"].get(name, 0) for f in each) / total for name in NAMES.values()]
            print(f"{kind:22}" + "".join(f"{share:14.2f}" for share in shares) + f"{total:14}{failed[kind]:8}")
        gotpc(theirs, "check", "--warehouses", str(warehouses))
        print("\nconsistency: go-tpc's check of its tables passed; pgassay's conditions 1 to 4 held after each of its runs")
        for workload, length, when in [("order-entry", 0, "once filled"), ("order-entry", seconds, "after its load by statements"),
                                       ("order-entry-procedures", seconds, "after its load by procedures")]:
            held = checked_by_gotpc(server, ours, theirs, warehouses, clients, length, runs, workload)
            print(f"  go-tpc's check of pgassay's tables {when}: conditions {held} hold for all {warehouses} warehouses")
    finally:
        server.close()
        shutil.rmtree(runs)


if __name__ == "__main__":
    main()
