"""What answers SQL on exported tables: DuckDB, Spark, and pgassay query. For bench/records.py."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

TABLES = ["runs", "servers", "settings", "points", "trials", "metrics", "pairs", "findings",
          "hosts", "audits", "traits", "lines"]


def duck(tables, memory=None):
    import duckdb
    session = duckdb.connect()
    if memory:
        session.execute(f"SET memory_limit = '{memory}'")
    for table in TABLES:
        session.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{tables}/{table}/*/*.parquet', "
                        "hive_partitioning = true, union_by_name = true)")

    def ask(sql):
        answer = session.execute(sql)
        return [name for name, *_ in answer.description], answer.fetchall()
    return ask


def without_java():
    """Why Spark can't be started here."""
    java = shutil.which("java") or shutil.which("java", path=os.path.join(os.environ.get("JAVA_HOME", ""), "bin"))
    return None if java else "Spark needs Java 17 or 21: apt-get install openjdk-17-jre-headless"


def spark(tables, workers, memory=1024):
    """A cluster of processes on this machine: a master, and workers with one CPU each."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import pyspark
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    from pyspark.sql import SparkSession
    session = (SparkSession.builder.master(f"local-cluster[{workers},1,{memory}]").appName("pgassay")
               .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").config("spark.sql.session.timeZone", "UTC")
               .config("spark.executor.memory", f"{memory}m")
               .config("spark.sql.shuffle.partitions", str(2 * workers)).getOrCreate())
    session.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        session.read.parquet(f"{tables}/{table}").createOrReplaceTempView(table)

    def ask(sql):
        answer = session.sql(sql)
        return answer.columns, [tuple(row) for row in answer.collect()]
    return ask, session


def engines(program):
    """The engines that pgassay query has here, and those that it has not."""
    all = ("datafusion", "duckdb")
    here = [engine for engine in all if found(program, engine)]
    return here, [engine for engine in all if engine not in here]


def found(program, engine):
    if engine == "datafusion":
        return (Path(program).parent / "pgassay-query").is_file() or shutil.which("pgassay-query")
    done = subprocess.run(["python3", "-c", "import duckdb"], stderr=subprocess.DEVNULL)
    return done.returncode == 0


def query(program, tables, engine, more=()):
    """Asks by pgassay query. Columns are known where there is a row."""
    def ask(sql):
        words = [program, "query", "--file", "-", str(tables), "--format", "json", "--engine", engine, *more]
        done = subprocess.run(words, input=sql, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{engine}: {done.returncode} {done.stderr}")
        rows = json.loads(done.stdout)
        return (list(rows[0]) if rows else None), [tuple(row.values()) for row in rows]
    return ask


def alike(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    return a == b


def hold(name, wanted, got):
    """Whether two answers are the same, value by value."""
    (columns, rows), (their_columns, their_rows) = wanted, got
    assert their_columns in (None, columns), (name, columns, their_columns)
    assert len(rows) == len(their_rows), (name, len(rows), len(their_rows))
    for row, theirs in zip(rows, their_rows):
        assert len(row) == len(theirs) and all(map(alike, row, theirs)), (name, row, theirs)
    return sum(len(row) for row in rows)
