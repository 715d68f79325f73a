"""PgBouncer in transaction, session and statement mode between us and the server."""

import subprocess

from common import SHORT
from postgres import Bouncer, Server


def run(section):
    lab, work = section.lab, section.work
    with Server(lab, work / "server") as server:
        server.psql("CREATE TABLE orders (id int)")
        before = server.catalogue()
        for mode in section.through(("transaction", "session", "statement")):
            with Bouncer(server, mode) as bouncer:
                for target in (server.tcp(bouncer.port), f"host={bouncer.place} port={bouncer.port} dbname=postgres user=boss"):
                    for words in (["check", target], ["inspect", target], ["collect", target, "--output", work / "facts"],
                                  ["assay", target, "--quick"], ["run", "tpcb-like", target, "--load", *SHORT],
                                  ["assay", target, "--load", "--quick", "--scale", "1"], ["run", "pgio", target, "--load", "--time", "1"],
                                  ["compare", target, server.target(), "--load", "--pairs", "2", "--slice", "0.2", "--scale", "1"],
                                  ["pgbench", "-n", "-S", "-t", "1", target]):
                        def also(result):
                            wrong = []
                            if server.schema_left():
                                wrong.append("the schema was left")
                            if mode == "transaction" and "--load" in words and result.code != 3:
                                wrong.append(f"load through a pool ended with {result.code}, not 3")
                            if words[0] == "inspect" and (b"libevent" in result.out or b"bin/pgbouncer" in result.out):
                                wrong.append("the pooler's program was taken for the server's")
                            # Every connection of the pool is as its next client expects it.
                            for _ in range(2):
                                path = server_through(server, bouncer)
                                if path and path != '"$user", public|0|0':
                                    wrong.append(f"the pool was poisoned: {path}")
                            return wrong
                        section.try_(*words, timeout=90, also=also)
                        if server.schema_left():
                            server.psql("DROP SCHEMA pgassay CASCADE")
        section.survived() if server.catalogue() == before else section.lose("the catalogue has changed")


def server_through(server, bouncer):
    """Search path, check interval and advisory locks as the pool's next client meets them."""
    done = subprocess.run(
        [server.lab.bin / "psql", "-XAtq", "-h", "127.0.0.1", "-p", str(bouncer.port), "-U", "boss", "-d", "postgres", "-c",
         "SELECT current_setting('search_path'), current_setting('client_connection_check_interval', true),"
         " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"], env=server.lab.environment(), capture_output=True, text=True, cwd="/")
    return done.stdout.strip()
