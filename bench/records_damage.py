"""Files that are damaged, or whose headers lie, and questions that are wrong. For bench/records.py."""

import random
import re
import resource
import shutil
import subprocess
import time

ALL = "SELECT count(*), max(throughput), max(warnings), min(workload) FROM points"
# What an engine may take here, and a process of it at most: twice as much, and itself.
MEMORY, MOST = "256MB", 1 << 30
SECONDS = 60


def ask(program, tables, engine, sql):
    words = [program, "query", sql, str(tables), "--engine", engine, "--format", "csv", "--memory", MEMORY]
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, errors="replace")
    assert time.monotonic() - began < SECONDS, words
    return done


def refused(program, tables, place, engine):
    """Nothing of that is answered, all of it says what is wrong, and none of it takes the machine's memory."""
    for sql, code, said in (
        ("SELECT no_such FROM runs", 2, "no_such"),
        ("SELECT * FROM no_such", 2, "there is no table no_such"),
        ("SELECT count( FROM runs", 2, "error:"),
        ("COPY runs TO '/tmp/stolen.csv'", 2, "begins with SELECT"),
        ("SELECT 1; SELECT 2", 2, "several statements"),
        ("SELECT $$'$$; COPY (SELECT 7) TO 'runs/date=2026-11-21/runs.parquet' --'", 2, "a $"),
        ("SELECT E'\\''; COPY (SELECT 7) TO 'runs/date=2026-11-21/runs.parquet' --'", 2, "E'"),
        ("SELECT * FROM read_text('/etc/passwd')", 2, "error:"),
        ("SELECT * FROM '/etc/passwd'", 2, "error:"),
    ):
        done = ask(program, tables, engine, sql)
        assert done.returncode == code and said in done.stderr and "help:" in done.stderr, (engine, sql, done)
        assert "root:" not in done.stdout + done.stderr, (engine, sql, done)
    empty = place / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    done = ask(program, empty, engine, ALL)
    assert done.returncode == 2 and "no tables are in" in done.stderr, done
    damaged(program, tables, place, engine)
    # Of all processes that were waited for so far.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    assert peak < MOST, peak
    shutil.rmtree(place)
    print(f"{engine}: damaged files and wrong questions are refused; no process took more than {peak >> 20} MiB")


def damaged(program, tables, place, engine):
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tables, copy)
    file = sorted((copy / "points").glob("*/*.parquet"))[3]
    whole, chance = file.read_bytes(), random.Random(2)
    day = file.parent.name

    def asked(content):
        file.write_bytes(content)
        return ask(program, copy, engine, ALL)
    assert asked(whole).returncode == 0
    for content in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-9], bytes(4096), b"PAR1" + whole[4:-4] + b"PARE"):
        done = asked(content)
        assert done.returncode == 2 and day in done.stderr and "help:" in done.stderr, (engine, len(content), done)
    # Headers that lie: of the file, and of the pages within.
    codes = []
    for number in range(40):
        lying = bytearray(whole)
        at = len(whole) - 9 - chance.randrange(600) if number % 2 else 4 + chance.randrange(200)
        for n in range(chance.randrange(1, 6)):
            lying[max(4, at - n)] = chance.choice((0xff, 0x7f, 0, chance.randrange(256)))
        done = asked(lying)
        codes.append(done.returncode)
        # Some bytes are values: another answer, and a whole one.
        assert done.returncode in (0, 2, 70), (engine, number, done)
        assert done.returncode == 0 or "error:" in done.stderr, (engine, number, done)
        assert not re.search(r"Traceback|panicked at", done.stderr), (engine, number, done)
    assert codes.count(2) > 5, codes
    file.write_bytes(whole)
