#!/usr/bin/env python3
"""Proof of `pgassay workload` and of the verdict by statement, on two versions of PostgreSQL.

    bench/own-load.py PGASSAY BIN-A BIN-B [PAIRS]     60 pairs
    bench/own-load.py PGASSAY --log MB [csv|stderr]
                                                      a log of so many MB on standard input: MB/s and peak memory

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


HOUR, BLOCK = b"@@@@-@@-@@ @@", b"%%%%%%%%"  # what differs from block to block
TABLES_OF_LOG, COLUMNS = 40, ["id", "customer", "state", "total", "placed", "note", "code", "kind"]


def literal(drawn):
    return drawn.choice([
        lambda: str(drawn.randrange(10 ** drawn.randrange(1, 10))),
        lambda: "'" + "".join(drawn.choice("abcdefgh äöü€ 'xyz").replace("'", "''") for _ in range(drawn.randrange(1, 40))) + "'",
        lambda: f"'2026-{drawn.randrange(1, 13):02}-{drawn.randrange(1, 29):02}'",
        lambda: f"{drawn.random() * 1000:.2f}",
        lambda: "NULL",
    ])()


def kinds(drawn):
    """Some 300 kinds of statements: each a function from a way to write a value to a text."""
    def one():
        table, columns = f"t{drawn.randrange(TABLES_OF_LOG)}", drawn.sample(COLUMNS, 4)
        a, b, c, d = columns
        return drawn.choice([
            lambda v: f"SELECT {a}, {b} FROM {table} WHERE {c} = {v()}",
            lambda v: f"SELECT count(*)\n  FROM {table}\n WHERE {a} = {v()} AND {b} > {v()}\n   AND {c} IS NOT NULL",
            lambda v: f"/* page {drawn.randrange(1000)} */ SELECT * FROM {table} x JOIN {table}_more y USING (id) WHERE x.{a} = {v()} ORDER BY {d} LIMIT 10",
            lambda v: f"SELECT {a} FROM {table} WHERE {b} IN ({', '.join(v() for _ in range(drawn.randrange(1, 9)))})",
            lambda v: f"UPDATE {table} SET {a} = {v()}, {b} = {v()} WHERE {c} = {v()}",
            lambda v: f"INSERT INTO {table} ({a}, {b}, {c}) VALUES ({v()}, {v()}, {v()})",
            lambda v: f"DELETE FROM {table} WHERE {a} = {v()} AND {b} < {v()}",
        ])
    return [one() for _ in range(300)]


def block(form, drawn, statements):
    """An hour of 3,000 sessions, 200 at a time: transactions, parameters, failures, long statements, other lines."""
    records, waiting = [], list(range(3000))
    active = [[waiting.pop(), drawn.randrange(5, 60)] for _ in range(200)]

    def record(session, severity, text, more=(), detail=""):
        # Within the hour, in order.
        records.append((session, severity, text, more, detail))

    while active:
        at = drawn.randrange(len(active))
        session, left = active[at]
        took = lambda: f"duration: {drawn.expovariate(1):.3f} ms  "
        choice = drawn.random()
        texts = [drawn.choice(statements) for _ in range(drawn.choice([1, 1, 1, 3, 5]))]
        if len(texts) > 1:
            record(session, "LOG", took() + "statement: BEGIN")
        for text in texts:
            if choice < 0.6:
                record(session, "LOG", took() + "statement: " + text(lambda: literal(drawn)))
            elif choice < 0.97:
                values, number = [], [0]

                def place():
                    number[0] += 1
                    value = literal(drawn)
                    values.append(f"${number[0]} = " + (value if value == "NULL" or value[0] == "'" else f"'{value}'"))
                    return f"${number[0]}"
                body = text(place)
                record(session, "LOG", took() + f"execute S_{drawn.randrange(9)}: " + body, (), "parameters: " + ", ".join(values))
            elif choice < 0.98:
                record(session, "ERROR", "canceling statement due to user request", (), "")
            elif choice < 0.9999:
                rows = ", ".join(f"({literal(drawn)}, {literal(drawn)})" for _ in range(drawn.randrange(10, 400)))
                record(session, "LOG", took() + f"statement: INSERT INTO bulk VALUES {rows}")
            else:
                record(session, "LOG", took() + "statement: INSERT INTO big VALUES ('" + "x" * 1_000_000 + "')")
        if len(texts) > 1:
            record(session, "LOG", took() + "statement: " + ("COMMIT" if drawn.random() < 0.97 else "ROLLBACK"))
        active[at][1] -= 1
        if active[at][1] == 0:
            if waiting:
                active[at] = [waiting.pop(), drawn.randrange(5, 60)]
            else:
                active.pop(at)
    out = []
    for n, (session, severity, text, _, detail) in enumerate(records):
        ms = n * 3_599_999 // len(records)
        stamp = f"{HOUR.decode()}:{ms // 60000:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
        if form == "csv":
            quoted, more = text.replace('"', '""'), detail.replace('"', '""')
            out.append(f'{stamp} UTC,"app","shop",{1000 + session},"[local]",{BLOCK.decode()}.{session:x},{n},"SELECT",'
                       f'2026-09-21 00:00:00 UTC,{session}/{n},0,{severity},{"57014" if severity == "ERROR" else "00000"},"{quoted}",'
                       f'{chr(34) + more + chr(34) if more else ""},,,,,,,,"web"\n')
        else:
            head = f"{stamp} UTC [{1000 + session}] app@shop "
            out.append(head + f"{severity}:  " + text.replace("\n", "\n\t") + "\n")
            if detail:
                out.append(head + "DETAIL:  " + detail + "\n")
            if n % 5000 == 0:
                out.append("Nov 24 10:00:00 host kernel: a line of another program\n")
    return "".join(out).encode()


def peak_of(process):
    """The most memory that a process has had resident, in MiB; none once it is gone. (What wait4 says of a child
    is no less than what this program had when it made it.)"""
    try:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")), None)
    except FileNotFoundError:
        return None


def log(pgassay, megabytes, form):
    """A log of thousands of sessions and some 300 kinds of statements, on standard input: an hour is made, and
    each further one is it with another hour and other sessions, so that nothing is stored."""
    place = tempfile.mkdtemp(prefix="own-load-log-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    try:
        drawn = random.Random(1)
        hour = block(form, drawn, kinds(drawn))
        words = [pgassay, "workload", "from-log", "-", "--to", place + "/big.sql", "--json"]
        words += ["--log-format", form] + (["--prefix", "%m [%p] %q%u@%d "] if form == "stderr" else [])
        begin, size, n, said_at = time.monotonic(), 0, 0, 250
        with open(place + "/said", "w+", encoding="utf-8") as said, open(place + "/complaint", "w+", encoding="utf-8") as complaint, \
                subprocess.Popen(words, stdin=subprocess.PIPE, stdout=said, stderr=complaint) as running:
            while size < megabytes * 1_000_000:
                stamp = time.strftime("%Y-%m-%d %H", time.gmtime(1_790_000_000 + 3600 * n)).encode()
                part = hour.replace(HOUR, stamp).replace(BLOCK, b"%08x" % n)
                running.stdin.write(part)
                size, n = size + len(part), n + 1
                if size >= said_at * 1_000_000:
                    print(f"  {size / 1e6:6.0f} MB in {time.monotonic() - begin:5.0f} s: at most {peak_of(running):.0f} MiB so far", flush=True)
                    said_at *= 2
            running.stdin.close()
            peak = 0
            while running.poll() is None:
                peak = max(peak, peak_of(running) or 0)
                time.sleep(0.01)
            if running.returncode != 0:
                complaint.seek(0)
                sys.exit(complaint.read())
            seconds = time.monotonic() - begin
            said.seek(0)
            made = json.load(said)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{form}: {size / 1e6:.0f} MB in {n} hours, {made['statements']} statements, in {seconds:.1f} s: {size / 1e6 / seconds:.1f} MB/s "
              f"({used.ru_utime + used.ru_stime:.1f} s of CPU), peak memory {peak:.0f} MiB, "
              f"{len(made['scripts'])} scripts, load {os.getloadavg()[0]:.1f}")
        for left in made["left_out"]:
            print("  left out:", left)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    if len(sys.argv) in (4, 5) and sys.argv[2] == "--log":
        log(os.path.abspath(sys.argv[1]), int(sys.argv[3]), (sys.argv + ["csv"])[4])
    elif len(sys.argv) in (4, 5):
        proof(os.path.abspath(sys.argv[1]), *sys.argv[2:4], int((sys.argv + ["60"])[4]) if len(sys.argv) == 5 else 60)
    else:
        sys.exit(__doc__)
