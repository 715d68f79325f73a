# Answers a question on standard input in the lines of engines/query/src/main.rs.
#   DIR MEMORY_MIB TABLE...
import sys
sys.path[:] = [place for place in sys.path if place]

import decimal
import json
import math
import os

import duckdb


def say(value):
    print(json.dumps(value, allow_nan=False, separators=(",", ":")))


def kind(of):
    name = of.split("(")[0]
    if of.endswith("[]"):
        return "text"
    if name in ("FLOAT", "DOUBLE", "DECIMAL"):
        return "float"
    if name == "BOOLEAN" or name == "DATE":
        return {"BOOLEAN": "bool", "DATE": "date"}[name]
    if name.startswith("TIMESTAMP"):
        return "time"
    return "int" if name.endswith("INT") or name in ("INTEGER", "UINTEGER") else "text"


def form(value, of):
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, (float, decimal.Decimal)):
        return float(value) if math.isfinite(value) else None
    return value if isinstance(value, str) else str(value)


def answer(directory, memory, tables):
    os.chdir(directory)
    session = duckdb.connect()
    session.execute(f"SET memory_limit = '{memory}MiB'; SET TimeZone = 'UTC'")
    session.execute("SET threads = " + os.environ["TOKIO_WORKER_THREADS"])
    # As other engines do it.
    session.execute("SET integer_division = true; SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    session.execute("SET temp_directory = '" + os.environ["TMPDIR"].replace("'", "''") + "'")
    # It would stand between the lines.
    session.execute("SET enable_progress_bar = false")
    session.execute(f"SET max_temp_directory_size = '{8 * int(memory)}MiB'")
    for table in tables:
        session.execute(
            f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{table}/date=*/{table}.parquet', "
            "hive_partitioning = true, hive_types = {'date': DATE}, union_by_name = true)")
    session.execute(f"SET allowed_directories = {list(tables)}; SET enable_external_access = false; "
                    "SET lock_configuration = true")
    sql = sys.stdin.buffer.read().decode()
    statements = session.extract_statements(sql)
    if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
        return say({"error": "one SELECT is answered, and nothing else", "kind": "sql"})
    described = session.execute("DESCRIBE " + sql).fetchall()
    columns = [{"name": name, "type": kind(of)} for name, of, *_ in described]
    kinds = [column["type"] for column in columns]
    # Python's own times are in no zone, or need a module.
    if "time" in kinds:
        # Several columns may have one name.
        names = [f"c{number}" for number in range(len(kinds))]
        asked = ", ".join(f"epoch_us({name})" if of == "time" else name for name, of in zip(names, kinds))
        sql = f"SELECT {asked} FROM (\n{sql}\n) AS answer({', '.join(names)})"
    result = session.execute(sql)
    rows = 0
    say({"engine": f"DuckDB {duckdb.__version__}", "columns": columns})
    while some := result.fetchmany(1000):
        for row in some:
            say([form(value, of) for value, of in zip(row, kinds)])
        rows += len(some)
    say({"rows": rows})


try:
    answer(sys.argv[1], sys.argv[2], sys.argv[3:])
except BrokenPipeError:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
except duckdb.Error as error:
    say({"error": str(error), "kind": "duckdb"})
except MemoryError:
    say({"error": "out of memory", "kind": "memory"})
