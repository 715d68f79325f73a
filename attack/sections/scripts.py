"""Hostile pgbench scripts, and pgio.conf with commands in it."""

import os
import signal
import time

from common import SHORT, scratch
from mutate import damage_text
from postgres import Server

GOOD = (b"\\set aid random(1, 100000 * :scale)\n\\set b random_zipfian(1, 10, 1.5) + hash(:aid) % 7\n\\if :aid > 5\n"
        b"SELECT 1 AS one \\gset p_\n\\elif :b\nSELECT :aid, 'it''s', $$x;y$$;\n\\else\nSELECT 2;\n\\endif\n\\sleep 1 us\n"
        b"\\startpipeline\nSELECT 3;\n\\endpipeline\nBEGIN;SELECT :p_one;END;\n",
        b"\\set x case when 1 < 2 then 5 else null end\nSELECT :x; /* a /* nested */ comment */ SELECT 'a' -- b\n;\n",)

HOSTILE = (
    b"", b"\0", b"\\", b"\\set", b"\\set a", b"\\set a " + b"(" * 100_000, b"\\set a " + b"-" * 100_000 + b"1",
    b"\\set a " + b"1+" * 200_000 + b"1", b"\\if 1\n" * 50_000, b"\\endif\n", b"\\else\n\\else\n", b"SELECT '",
    b"SELECT $a$", b"/*" * 50_000, b"SELECT " + b":a" * 100_000 + b";", b"\\set a 9223372036854775807 + 1\nSELECT :a;",
    b"\\set a -9223372036854775808 / -1\nSELECT 1;", b"\\set a -9223372036854775808 % -1\nSELECT 1;",
    b"\\set a 1 / 0\nSELECT 1;", b"\\set a random(5, 1)\nSELECT 1;", b"\\set a random_gaussian(1, 10, 1e308)\nSELECT 1;",
    b"\\set a random_zipfian(1, 10, 1000.1)\nSELECT 1;", b"\\set a permute(1, 0)\nSELECT 1;", b"\\set a 1 << 64\nSELECT 1;",
    b"\\set a pow(10, 400)\nSELECT :a;", b"\\set a sqrt(-1)\nSELECT :a;", b"\\set a int(1e300)\nSELECT 1;",
    b"\\sleep 99999999999999 s\n", b"\\sleep -1 s\nSELECT 1;", b"\\sleep :nothing\n", b"\\gset\n", b"SELECT 1 \\gset \xff",
    b"SELECT 1 WHERE false \\gset", b"SELECT generate_series(1, 100000) \\gset", b"\\startpipeline\n\\startpipeline\n",
    b"\\startpipeline\nSELECT 1;\n", b"\\endpipeline\n", b"\\startpipeline\nBEGIN; COPY (SELECT 1) TO STDOUT;\n\\endpipeline\n",
    b"COPY pg_class FROM STDIN;", b"COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT;",
    b"SELECT repeat('x', 60000000);", b"SELECT pg_terminate_backend(pg_backend_pid());", b"DISCARD ALL;", b"ROLLBACK AND CHAIN;",
    b"LISTEN a; NOTIFY a, '\x1b[31m';", b"DO $$ BEGIN FOR i IN 1..30000 LOOP RAISE NOTICE '%', repeat('n', 500); END LOOP; END $$;",
    b"DO $$ BEGIN RAISE EXCEPTION E'\\x1b[31m bad \\u202e'; END $$;", b"SET client_encoding = 'LATIN1'; SELECT chr(233);",
    b"SET standard_conforming_strings = off; SELECT 'a\\';';", b"\\shell", b"\\setshell a echo 99999999999999999999\n",
    b"\\setshell a false\n", b"\\shell kill -9 $$\n", b"\xef\xbb\xbfSELECT 1;", b"SELECT 1;\r\n\\set a 1\r\n", b"\xff\xfe\0;",
    b"SELECT " + b"1," * 1600 + b"1;", b"SELECT " + b",".join(b":v%d" % n for n in range(3000)) + b";",
    b"SELECT 1;\n" * 50_000, b"SELECT '" + b"x" * 10_000_000 + b"';", b";" * 1_000_000, b"SELECT 1;" * 300_000,
)

CONFIG = ("UPDATE_PCT=$(touch {mark})", "RUN_TIME=`touch {mark}`", "SCALE=100; touch {mark}", "DBNAME='; touch {mark}; '",
          "CONNECT_STRING=\"host=x; touch {mark}\"", "CREATE_BASE_TABLE=1 && touch {mark}", "WORK_UNIT=$((`touch {mark}`))",
          "export PATH={mark}", "source {mark}", "eval touch {mark}", "NUM_SCHEMAS=99999999999999999999", "NUM_SCHEMAS=-1",
          "SCALE=1T", "RUN_TIME=\x00", "=", "A" * 100_000 + "=1", "UPDATE_PCT=1e999", "NUM_THREADS=\x1b[31m")


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    file, mark, conf = work / "script.sql", work / "mark", work / "pgio.conf"
    with Server(lab, work / "server") as server:
        target = server.target()
        pgbench = ("pgbench", "-n", "-t", "1", "-f", file)

        def attempt(text, timeout=40):
            server.up()
            file.write_bytes(text)
            way = rng.choice(((), ("-M", "extended"), ("-M", "prepared")))
            asked = []
            # What waits forever by its own script ends with one Ctrl-C.
            def interrupt(process, elapsed):
                if elapsed > 15 and not asked:
                    asked.append(elapsed)
                    os.kill(process.pid, signal.SIGINT)
            section.try_(*pgbench, *way, target, keep=[file], timeout=timeout, act=interrupt)

        for text in section.through(HOSTILE):
            attempt(text)
        for text in section.through(CONFIG):
            conf.write_text(text.format(mark=mark))
            section.try_("run", "pgio", target, "--config", conf, *scratch(lab), keep=[conf], timeout=60,
                         also=lambda _: ["a command in pgio.conf was executed"] if mark.exists() else [])
        # As a workload, checked before anything is made.
        for text in section.through(HOSTILE[:20]):
            file.write_bytes(text)
            section.try_("run", file, target, "--load", *SHORT, keep=[file], timeout=60,
                         also=lambda _: ["the schema was left"] if server.schema_left() else [])
        end = time.monotonic() + max(10, section.deadline - time.monotonic())
        while section.more() and time.monotonic() < end:
            attempt(damage_text(rng, rng.choice(GOOD)))
