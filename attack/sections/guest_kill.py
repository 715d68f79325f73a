"""Signals and cut links at any moment of --load on a server of somebody else."""

import os
import select
import shlex
import signal
import subprocess
import threading
import time

from common import SHORT
from lab import PANIC
from postgres import Server
from wire import Proxy

OBJECTS = """
CREATE SCHEMA app; CREATE TABLE app.orders (id int PRIMARY KEY, note text); INSERT INTO app.orders SELECT g, 'x' FROM generate_series(1, 100) g;
CREATE TABLE public.accounts (aid int, abalance int); INSERT INTO accounts VALUES (1, 42);
CREATE FUNCTION app.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
"""


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    with Server(lab, work / "server") as server:
        server.psql(OBJECTS)
        before, content = server.catalogue(), server.ask("SELECT sum(id), (SELECT sum(abalance) FROM accounts) FROM app.orders")
        while section.more():
            server.up()
            proxy = Proxy(server.port, 1, 0) if rng.random() < 0.25 else None
            target = server.tcp(proxy.port) if proxy else server.target()
            words = rng.choice((["run", "tpcb-like", target, "--load", *SHORT], ["run", "insert-queue", target, "--load", *SHORT],
                                ["assay", target, "--load", "--quick", "--scale", "1"], ["run", "hot-row", target, "--load", *SHORT],
                                ["compare", target, target, "--load", "--pairs", "2", "--noise-pairs", "2", "--slice", "0.2", "--scale", "1"]))
            number = rng.choice((9, 9, 9, 9, signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
            # Half of them within 30 ms of the announcement, when the schema is made.
            window = rng.random() < 0.5
            after = rng.random() * (0.03 if window else 4)
            argv = [lab.program, *map(str, words), "--runs", str(work / "runs")]
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       env=lab.environment(), cwd=work, start_new_session=True)
            said = b""
            if window:
                end = time.monotonic() + 20
                while b"pgassay" not in said and b"schema" not in said and time.monotonic() < end:
                    if select.select([process.stderr], [], [], 0.5)[0]:
                        piece = os.read(process.stderr.fileno(), 65536)
                        if not piece:
                            break
                        said += piece
            drain = []
            reader = threading.Thread(target=lambda: drain.append(process.stderr.read()), daemon=True)
            reader.start()
            time.sleep(after)
            if proxy:
                proxy.__exit__()
            else:
                try:
                    process.send_signal(number)
                except ProcessLookupError:
                    pass
            began = time.monotonic()
            try:
                process.wait(40 * lab.patience())
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            took = time.monotonic() - began
            reader.join(5)
            process.stderr.close()
            said += b"".join(drain)
            what = "a cut link" if proxy else f"signal {number}"
            what = f"{what} {after * 1000:.0f} ms after {'the announcement' if window else 'the start'}"
            wrong = []
            if took > 35 * lab.patience():
                wrong.append("did not end")
            if process.returncode not in (-9, 0, 1, 3, 4, 5, 6, 130):
                wrong.append(f"exit code {process.returncode}")
            if PANIC.search(said):
                wrong.append("panic text")
            if process.returncode != -9 and not proxy and server.schema_left():
                wrong.append("the schema was left")
            # What a killed one left the next one removes; the server needs a moment to see it is gone.
            time.sleep(0.3)
            again = lab.run([lab.program, "run", "select-only", server.target(), "--load", *SHORT, "--runs", work / "runs"], timeout=60)
            if again.code != 0:
                wrong.append(f"the next run ends with {again.code}: {again.said()[-200:]}")
            if server.schema_left():
                wrong.append("the next run leaves the schema")
                server.psql("DROP SCHEMA pgassay CASCADE")
            if wrong:
                section.lose(f"{what}: {'; '.join(wrong)}", shlex.join(argv) + f"  said {said.decode(errors='replace')[-300:]!r}")
            else:
                section.survived()
        server.up()
        section.survived() if server.catalogue() == before else section.lose("the catalogue has changed")
        section.survived() if server.ask("SELECT sum(id), (SELECT sum(abalance) FROM accounts) FROM app.orders") == content else \
            section.lose("the users' rows have changed")
