"""Sessions ended at random by pg_terminate_backend and pg_cancel_backend, servers stopped."""

import random
import signal
import threading
import time

from common import SHORT
from postgres import Server


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    script = work / "s.sql"
    script.write_text("SELECT pg_sleep(0.002);\n")
    with Server(lab, work / "server") as server:
        before = server.catalogue()
        target = server.target()
        while section.more():
            server.up()
            words = rng.choice((["check", target, "--fail-on", "high"], ["collect", target, "--output", work / "facts"],
                                ["assay", target, "--quick"], ["run", "tpcb-like", target, "--load", *SHORT],
                                ["run", script, target, "--load", *SHORT], ["run", "insert-queue", target, "--load", *SHORT],
                                ["pgbench", "-n", "-c", "4", "-T", "1", "-f", script, target],
                                ["compare", target, target, "--load", "--pairs", "2", "--noise-pairs", "2", "--slice", "0.2", "--scale", "1"]))
            what = rng.choice(("pg_terminate_backend",) * 6 + ("pg_cancel_backend", "all", "immediate stop", "fast stop"))
            after = rng.random() * (0.15 if words[0] in ("check", "collect") else 2.5)
            done = threading.Event()

            def strike():
                if done.wait(after):
                    return
                if what == "immediate stop" or what == "fast stop":
                    server.stop(signal.SIGQUIT if what == "immediate stop" else signal.SIGINT)
                    return
                name, limit = ("pg_terminate_backend", "") if what == "all" else (what, "ORDER BY random() LIMIT 1")
                server.psql(f"SELECT {name}(pid) FROM (SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                            f"AND backend_type = 'client backend' {limit}) q", check=False)

            striker = threading.Thread(target=strike)
            striker.start()
            result = section.try_(*words, timeout=60)
            done.set()
            striker.join()
            server.up()
            if server.schema_left():
                if b"schema" not in result.err:
                    section.lose(f"{what} after {after:.2f} s: the schema was left without a word", " ".join(map(str, words)), result=result)
                section.try_("run", "select-only", target, "--load", *SHORT, codes={0}, timeout=60,
                             also=lambda _: ["the next run did not remove the schema"] if server.schema_left() else [])
                server.psql("DROP SCHEMA IF EXISTS pgassay CASCADE")
        server.up()
        section.survived() if server.catalogue() == before else section.lose("the catalogue has changed")
