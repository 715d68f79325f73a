"""A proxy that damages a real server's messages, or cuts the link."""

import os
import signal

from common import SHORT
from postgres import Server
from wire import Proxy


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    with Server(lab, work / "server") as server:
        before = server.catalogue()
        while section.more():
            server.up()
            seed, rate = rng.randrange(1 << 30), rng.choice((0.3, 0.05, 0.01, 0.002))
            with Proxy(server.port, seed, rate) as proxy:
                target = server.tcp(proxy.port)
                words = rng.choice((["check", target], ["collect", target, "--output", work / "facts"], ["inspect", target],
                                    ["assay", target, "--quick"], ["run", "tpcb-like", target, "--load", *SHORT],
                                    ["run", "select-only", target, "--load", *SHORT, "--protocol", rng.choice(("simple", "extended"))],
                                    ["pgbench", "-n", "-t", "2", "-c", "2", "-f", work / "s.sql", target]))
                (work / "s.sql").write_text("SELECT 1 AS a \\gset\nSELECT :a, generate_series(1, 5);\n")
                asked = []

                def interrupt(process, elapsed):
                    if elapsed > 8 and not asked:
                        asked.append(elapsed)
                        os.kill(process.pid, signal.SIGINT)
                    elif rate < 0.01 and not asked and rng.random() < 0.002:
                        proxy.connections and proxy.end(rng.choice(proxy.connections))

                def also(result):
                    late = asked and result.seconds - asked[0] > 15 * lab.patience()
                    return [f"ended only {result.seconds - asked[0]:.0f} s after the first Ctrl-C"] if late else []

                result = section.try_(*words, act=interrupt, timeout=40, peak_mib=512, also=also)
            if server.schema_left():
                if b"schema" not in result.err:
                    section.lose(f"the schema was left without a word (proxy seed {seed}, rate {rate})", " ".join(map(str, words)),
                                 result=result)
                section.try_("run", "select-only", server.tcp(), "--load", *SHORT, codes={0}, timeout=60,
                             also=lambda _: ["the next run did not remove the schema"] if server.schema_left() else [])
                server.psql("DROP SCHEMA IF EXISTS pgassay CASCADE")
            server.psql("DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history")
        server.up()
        section.survived() if server.catalogue() == before else section.lose("the catalogue has changed")
