#!/usr/bin/env python3
"""Proof of `pgassay workload` and of the verdict by statement, on two versions of PostgreSQL.

    bench/own-load.py PGASSAY BIN-A BIN-B [PAIRS]     60 pairs
    bench/own-load.py PGASSAY --log MB                a log of so many MB: MB/s and peak memory

BIN-A and BIN-B are directories with initdb, psql and pg_dump; BIN-B's version is the same or newer.
A known mix of twelve statements over a made database runs on A. It is recorded both ways, and each
recording is run on copies in A and in B. Then B gets a copy that lacks an index. Printed and checked:

  * shares: how often each statement ran, of all, against the mix: within 1 %,
  * plans: the same on A and on B (those that differ are shown: versions may plan otherwise),
  * rows: each table's on A and B within 5 %,
  * ranks: Spearman's coefficient between the mean latencies in the log and those on A and on B,
  * the lost index: the statements that compare says got slower on B, the first two being those that
    used it.

Exit code 1 where shares, rows or the lost index are not as said; plans and ranks are for the reader.
"""

import json
import os
import pwd
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

PORT = 54331
MIX = [  # how often, the statement, its parameters for the n-th time
    (400, "SELECT name, city FROM customer WHERE id = {0}", lambda n: (1 + n * 7 % 40000,)),
    (300, "SELECT id, total FROM orders WHERE customer = {0}", lambda n: (1 + n * 11 % 40000,)),
    (200, "SELECT max(total) FROM orders WHERE customer = {0}", lambda n: (1 + n * 13 % 40000,)),
    (200, "SELECT sum(quantity) FROM line WHERE orders = {0}", lambda n: (1 + n * 17 % 80000,)),
    (160, "SELECT c.name, o.total FROM orders o JOIN customer c ON c.id = o.customer WHERE o.id = {0}",
     lambda n: (1 + n * 19 % 80000,)),
    (12, "SELECT count(*) FROM customer WHERE city = 'city {0}'", lambda n: (n % 8,)),
    (120, "SELECT id FROM product WHERE price BETWEEN {0} AND {1}", lambda n: (n, n + 3)),
    (4, "SELECT customer, sum(total) FROM orders GROUP BY customer ORDER BY 2 DESC LIMIT {0}", lambda n: (5 + n % 3,)),
    (140, "SELECT name FROM product WHERE id IN ({0}, {1}, {2})", lambda n: (1 + n, 2 + n, 3 + n)),
    (4, "SELECT count(*) FROM line WHERE quantity > {0}", lambda n: (n % 9,)),
    (200, "UPDATE customer SET name = 'name {0}' WHERE id = {1}", lambda n: (n, 1 + n * 3 % 40000)),
    (180, "INSERT INTO orders (customer, total) VALUES ({0}, {1})", lambda n: (1 + n * 5 % 40000, n % 50)),
]
TABLES = """
CREATE EXTENSION pg_stat_statements;
CREATE TABLE customer (id int PRIMARY KEY, name text, city text);
CREATE TABLE product (id int PRIMARY KEY, name text, price int);
CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int REFERENCES customer, total int);
CREATE TABLE line (orders int REFERENCES orders, product int REFERENCES product, quantity int);
INSERT INTO customer SELECT g, 'name ' || g, 'city ' || g % 8 FROM generate_series(1, 40000) g;
INSERT INTO product SELECT g, 'product ' || g, g FROM generate_series(1, 5000) g;
INSERT INTO orders (customer, total) SELECT 1 + g % 40000, g % 97 FROM generate_series(1, 80000) g;
INSERT INTO line SELECT 1 + g % 80000, 1 + g % 5000, g % 9 FROM generate_series(1, 200000) g;
CREATE INDEX product_price ON product (price);
CREATE INDEX orders_customer ON orders (customer);
CREATE INDEX line_orders ON line (orders);
VACUUM ANALYZE;
"""


def known(text):
    """What a statement of the mix is known by: its words up to the first value."""
    return re.split(r"\{|'|:p|\$", text)[0].strip()


class Server:
    """A throw-away server on a socket of its own."""

    def __init__(self, bin_dir, port):
        self.bin, self.port = bin_dir, port
        self.place = tempfile.mkdtemp(prefix="own-load-", dir="/var/tmp")
        self.user = []
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.place, owner.pw_uid, owner.pw_gid)
            self.user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        self.data = self.place + "/data"
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8")
        with open(self.data + "/postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write(f"port={port}\nlisten_addresses=''\nunix_socket_directories='{self.place}'\n"
                       "shared_buffers=256MB\nautovacuum=off\njit=off\nlogging_collector=on\nlog_destination=csvlog\n"
                       "log_directory=log\nlog_filename=own\nlog_min_duration_statement=0\nlc_messages=C\n"
                       "shared_preload_libraries=pg_stat_statements\n")
        self.run("pg_ctl", "-D", self.data, "-l", self.place + "/said", "-w", "start")

    def run(self, program, *words):
        subprocess.run(self.user + [f"{self.bin}/{program}", *words], check=True, stdout=subprocess.DEVNULL)

    def target(self, database):
        return f"host={self.place} port={self.port} user=postgres dbname={database}"

    def tell(self, database, text, application="proof"):
        subprocess.run([f"{self.bin}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1",
                        self.target(database) + f" application_name={application}"],
                       input=text, text=True, check=True, stdout=subprocess.DEVNULL)

    def close(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")
        shutil.rmtree(self.place)


def json_of(words, cwd):
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{' '.join(words)}: {done.stderr}")


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    place = [0] * len(values)
    for rank, index in enumerate(order):
        place[index] = rank
    return place


def spearman(x, y):
    n, (x, y) = len(x), (ranks(x), ranks(y))
    return 1 - 6 * sum((a - b) ** 2 for a, b in zip(x, y)) / (n * (n * n - 1))


def logged(path):
    """Mean duration of each statement in the log, in ms."""
    found = {known(text): [] for _, text, _ in MIX}
    pattern = re.compile(r"duration: ([0-9.]+) ms  statement: (.*?)(?:\"|$)")
    with open(path, encoding="utf-8") as log:
        for line in log:
            match = pattern.search(line)
            for begins, durations in found.items():
                if match and match[2].startswith(begins):
                    durations.append(float(match[1]))
    return {begins: sum(durations) / len(durations) for begins, durations in found.items()}


def rows_of(run, arm):
    with open(f"{run}/facts/arm-{arm}.json", encoding="utf-8") as facts:
        return {t["table"]: t["rows"] for t in json.loads(json.load(facts)["data"]["text"])}


def compared(pgassay, words, place, pairs):
    runs = tempfile.mkdtemp(dir=place)
    document = json_of([pgassay, "compare", *words, "--clients", "2", "--pairs", str(pairs), "--noise-pairs", "6",
                        "--slice", "0.5", "--scratch", place, "--runs", runs, "--json"], place)
    run = [f"{runs}/{name}" for name in os.listdir(runs) if os.path.isdir(f"{runs}/{name}")][0]
    return document, run


def proof(pgassay, bin_a, bin_b, pairs):
    place = tempfile.mkdtemp(prefix="own-load-proof-", dir="/var/tmp")
    os.chmod(place, 0o755)  # the copies run as another user
    a, good = Server(bin_a, PORT), True
    b = Server(bin_b, PORT + 1)
    try:
        a.tell("postgres", "CREATE DATABASE shop")
        a.tell("shop", TABLES)
        a.tell("shop", "SELECT pg_stat_statements_reset()")
        a.tell("shop", "".join(text.format(*values(n)) + ";\n" for times, text, values in MIX for n in range(times)), "shop")
        time.sleep(1)
        log = a.data + "/log/own.csv"
        before = logged(log)
        subprocess.run([pgassay, "workload", "from-log", log, "--application", "shop", "--to", "log.sql"],
                       cwd=place, check=True, capture_output=True)
        subprocess.run([pgassay, "workload", "from-statements", a.target("shop"), "--to", "counted.sql"],
                       cwd=place, check=True, capture_output=True)
        a.tell("shop", "ANALYZE")
        sum_of_all = sum(times for times, _, _ in MIX)
        print(f"load at the beginning: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
        for file in ["log.sql", "counted.sql"]:
            words = [bin_a, bin_b, "--workload", file, "--from-database", a.target("shop"), "--launches", "1"]
            document, run = compared(pgassay, words, place, pairs)
            statements = {known(s["text"]): s for s in document["results"][0]["statements"]}
            if len(statements) != len(MIX):
                sys.exit(f"{file}: {sorted(statements)}")
            for side, name in enumerate("AB"):
                calls = sum(s["calls"][side] for s in statements.values())
                worst = max(abs(statements[known(text)]["calls"][side] / calls - times / sum_of_all)
                            for times, text, _ in MIX)
                rank = spearman([before[key] for key in statements],
                                [s["ab"[side]]["estimate"] for s in statements.values()])
                failures = sum(s["failures"][side] for s in statements.values())
                good &= worst < 0.01 and failures == 0
                print(f"{file} on {name}: {calls} statements, {failures} failed; shares differ by at most "
                      f"{100 * worst:.2f} %; ranks of latency: {rank:.3f}")
            rows = rows_of(run, 0), rows_of(run, 1)
            apart = max(abs(rows[0][t] - rows[1][t]) / max(rows[0][t], 1) for t in rows[0])
            good &= apart <= 0.05 and rows[0].keys() == rows[1].keys()
            other = [s for s in statements.values() if s["plan"] and s["plan"]["a"] != s["plan"]["b"]]
            unseen = sum(s["plan"] is None for s in statements.values())
            print(f"{file}: rows differ by at most {100 * apart:.2f} %; {len(other)} of {len(MIX)} plans differ"
                  + (f", {unseen} unknown" if unseen else ""))
            for s in other:
                print(f"  {known(s['text'])}\n    A: {s['plan']['a']}\n    B: {s['plan']['b']}")
        # A copy on B that lacks an index.
        b.tell("postgres", "CREATE DATABASE shop")
        dump = subprocess.run([f"{bin_a}/pg_dump", "--no-owner", a.target("shop")], check=True, capture_output=True, text=True)
        b.tell("shop", dump.stdout)
        b.tell("shop", "DROP INDEX orders_customer; VACUUM ANALYZE")
        words = [a.target("shop"), b.target("shop"), "--workload", "log.sql", "--load", "--is-copy"]
        document, _ = compared(pgassay, words, place, pairs)
        print("with an index less on B: " + document["verdict"])
        statements = document["results"][0]["statements"]
        slower = [s for s in statements if s["compared"] and s["compared"]["verdict"] == "slower"]
        for s in slower:
            ratio, plan = s["compared"]["ratio"], s["plan"]
            print(f"  slower: {known(s['text'])}: {ratio['estimate']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f}), "
                  + ("plan " + ("the same" if plan["a"] == plan["b"] else f"{plan['b']} instead of {plan['a']}") if plan else ""))
        first = [known(s["text"]) for s in statements[:2]]
        lost = {known(MIX[1][1]), known(MIX[2][1])}
        good &= set(first) == lost and all(s in slower for s in statements[:2])
        print("  the lost index is " + ("" if set(first) == lost else "not ") + "what comes first")
        print("  " + "\n  ".join(document["headline"]))
    finally:
        a.close()
        b.close()
        shutil.rmtree(place)
    sys.exit(0 if good else 1)


def log(pgassay, megabytes):
    """A csvlog of 64 sessions that interleave, with transactions, texts and long statements."""
    place = tempfile.mkdtemp(prefix="own-load-log-", dir="/var/tmp")
    try:
        path, drawn, second = place + "/big.csv", random.Random(1), 0
        with open(path, "w", encoding="utf-8") as out:
            while out.tell() < megabytes * 1_000_000:
                lines = []
                for n in range(2000):
                    session = drawn.randrange(64)
                    times, text, values = MIX[drawn.randrange(12)]
                    text = text.format(*values(drawn.randrange(1_000_000)))
                    block = ["BEGIN", text, f"SELECT total FROM orders WHERE id = {n}", "COMMIT"] if n % 5 == 0 else [text]
                    for statement in block:
                        second += 1
                        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_790_000_000 + second // 1000))
                        body = f"duration: {drawn.random():.3f} ms  statement: {statement}".replace('"', '""')
                        lines.append(f'{stamp}.{second % 1000:03} UTC,"app","shop",{1000 + session},"[local]",{session:x}.{session:x},'
                                     f'{second},"SELECT",2026-09-21 00:00:00 UTC,{session}/{second},0,LOG,00000,"{body}",,,,,,,,,"shop"\n')
                out.write("".join(lines))
        size = os.path.getsize(path)
        begin = time.monotonic()
        done = subprocess.run([pgassay, "workload", "from-log", path, "--to", place + "/big.sql", "--json"],
                              capture_output=True, text=True, check=True)
        seconds = time.monotonic() - begin
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        made = json.loads(done.stdout)
        print(f"{size / 1e6:.0f} MB in {seconds:.1f} s: {size / 1e6 / seconds:.1f} MB/s ({used.ru_utime + used.ru_stime:.1f} s of CPU), "
              f"peak memory {used.ru_maxrss / 1024:.0f} MiB, {len(made['scripts'])} scripts, load {os.getloadavg()[0]:.1f}")
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2] == "--log":
        log(os.path.abspath(sys.argv[1]), int(sys.argv[3]))
    elif len(sys.argv) in (4, 5):
        proof(os.path.abspath(sys.argv[1]), *sys.argv[2:4], int((sys.argv + ["60"])[4]) if len(sys.argv) == 5 else 60)
    else:
        sys.exit(__doc__)
