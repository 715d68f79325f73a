"""The catalogue and pg_dump -s before and after each command with load, and without."""

import os
import shlex

from common import SHORT
from postgres import Server
from sections.guest_kill import OBJECTS

MORE = """
CREATE EXTENSION IF NOT EXISTS plpgsql;
CREATE ROLE app_user LOGIN; ALTER ROLE app_user SET search_path = app, public; ALTER DATABASE postgres SET work_mem = '5MB';
CREATE VIEW app.v AS SELECT * FROM app.orders; CREATE SEQUENCE app.s; CREATE TYPE app.t AS (a int, b text);
CREATE TABLE public.branches (bid int); CREATE TABLE public.tellers (tid int); CREATE TABLE public.history (x int);
CREATE TABLE public.pgbench_accounts (x int); INSERT INTO pgbench_accounts VALUES (7);
SELECT pg_create_physical_replication_slot('keep');
CREATE FUNCTION app.quiet() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER quiet ON ddl_command_start EXECUTE FUNCTION app.quiet();
"""


def run(section):
    lab, work = section.lab, section.work
    script = work / "s.sql"
    script.write_text("\\set a random(1, 10)\nSELECT :a;\n")
    with Server(lab, work / "server") as server:
        server.psql(OBJECTS)
        for statement in MORE.strip().split(";\n"):
            server.psql(statement.rstrip(";"))
        target = server.target()
        before = server.catalogue()
        commands = [["check", target], ["collect", target, "--output", work / "facts"], ["inspect", target], ["assay", target, "--quick"],
                    ["assay", target, "--load", "--quick", "--scale", "1"], ["run", script, target, "--load", *SHORT]]
        commands += [["run", name, target, "--load", *SHORT] for name in (
            "select-only", "simple-update", "tpcb-like", "aggregate", "partitioned", "idle-beside", "read-mostly", "insert-queue", "hot-row")]
        commands += [["run", "tpcb-like", target, "--load", *SHORT, *more] for more in (
            ("--partitions", "3", "--foreign-keys"), ("--unlogged-tables",), ("--fillfactor", "50"), ("--protocol", "simple"), ("--connect",))]
        commands += [["run", "pgio", target, "--load", "--time", "1"], ["run", "scattered-read", target, "--load", "--size", "8MB", "--time", "0.3"],
                     ["compare", target, target, "--load", "--pairs", "2", "--noise-pairs", "2", "--slice", "0.2", "--scale", "1"],
                     ["pgbench", "-n", "-t", "3", "-f", script, target], ["run", "query-loop", target, "--load", "--time", "0.2"]]
        for words in section.through(commands):
            def also(_):
                after = server.catalogue()
                return [] if after == before else [f"the catalogue differs: {sorted(set(after[1].split(chr(10))) ^ set(before[1].split(chr(10))))[:5]}"]
            section.try_(*words, timeout=180, also=also)
        section.survived() if server.ask("SELECT sum(x) FROM pgbench_accounts") == "7" else section.lose("the users' rows have changed")
