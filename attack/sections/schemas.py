"""A schema `pgassay` that somebody else made, or forged to look like ours."""

import re

from common import SHORT
from postgres import Server

BASE = """CREATE SCHEMA victim; CREATE TABLE victim.precious (id int PRIMARY KEY); INSERT INTO victim.precious VALUES (1), (2);
CREATE TABLE public.accounts (aid int); INSERT INTO accounts VALUES (3);"""


def run(section):
    lab, work = section.lab, section.work
    with Server(lab, work / "server") as server:
        target = server.target()
        # A comment of the program's own, seen while it is under way, is what a forger begins with.
        seen = []

        def look(process, elapsed):
            if not seen and elapsed > 0.3:
                text = server.psql("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'pgassay'", check=False).stdout
                if text.strip():
                    seen.append(text.strip())
        section.try_("run", "tpcb-like", target, "--load", "--time", "1", "--trials", "2", "--scale", "1", "--clients", "1", timeout=60, act=look)
        ours = seen[0] if seen else ""
        if not ours:
            section.lose("no comment of the program's was seen")
        server.psql(BASE)
        relation = server.ask("SELECT 'victim.precious'::regclass::oid")
        accounts = server.ask("SELECT 'public.accounts'::regclass::oid")
        numbers = lambda oid: re.sub(r"\d{5,}", oid, ours)
        forged = [None, "", "mine", ours, numbers(relation), numbers(accounts), ours + " " + relation, ours[:len(ours) // 2], ours + "\x1b[31m",
                  ours * 50, "pgassay", "made by pgassay", ours.replace("1", "2"), re.sub(r"\d+", "99999999999999999999", ours),
                  re.sub(r"\d+", "0", ours), re.sub(r"\d+", "-1", ours), ours.upper(), ours.replace(" ", "\n")]
        contents = ("", "CREATE TABLE pgassay.users_own (x int)", "CREATE VIEW pgassay.users_view AS SELECT * FROM victim.precious",
                    "CREATE TABLE pgassay.accounts (aid int)", "CREATE FUNCTION pgassay.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        for comment in section.through(forged):
            for content in contents:
                server.psql("DROP SCHEMA IF EXISTS pgassay CASCADE; CREATE SCHEMA pgassay")
                if content:
                    server.psql(content)
                if comment is not None:
                    server.psql("COMMENT ON SCHEMA pgassay IS '" + comment.replace("'", "''") + "'")

                def also(_):
                    wrong = []
                    if server.ask("SELECT (SELECT sum(id) FROM victim.precious), (SELECT sum(aid) FROM public.accounts)") != "3|3":
                        wrong.append("the users' rows are gone")
                    kept = server.ask("SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('pgassay') AND relname LIKE 'users%'")
                    if "users" in content and kept != "1":
                        wrong.append("a users' object in the schema was removed")
                    return wrong
                for words in (["run", "tpcb-like", target, "--load", *SHORT],):
                    result = section.try_(*words, timeout=60, also=also)
                    if result.code == 3 and b"pgassay" not in result.err:
                        section.lose("refused without naming the schema", " ".join(words), result=result)
        # A view of somebody's on our tables, made while they are there.
        server.psql("DROP SCHEMA IF EXISTS pgassay CASCADE")
        made = []

        def depend(process, elapsed):
            if not made and elapsed > 0.5:
                done = server.psql("CREATE VIEW victim.v AS SELECT * FROM pgassay.accounts", check=False)
                made.append(1) if done.returncode == 0 else None
        section.try_("run", "tpcb-like", target, "--load", "--time", "1", "--trials", "2", "--scale", "1", "--clients", "1", timeout=60, act=depend,
                     codes={0, 3, 4})
        section.try_("run", "tpcb-like", target, "--load", *SHORT, timeout=60, codes={0, 3, 4})
        server.psql("DROP VIEW IF EXISTS victim.v")
        section.try_("run", "tpcb-like", target, "--load", *SHORT, timeout=60, codes={0},
                     also=lambda _: ["the schema is left"] if server.schema_left() else [])
