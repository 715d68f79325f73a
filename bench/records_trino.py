"""Trino as one process, coordinator and worker, on tables of this machine. For bench/records.py."""

import os
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
STARTS = 180
FLAGS = ["-Xmx3G", "--add-modules=jdk.incubator.vector", "--add-opens=java.base/java.nio=ALL-UNNAMED",
         "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Trino:
    """A server in TRINO_HOME, by the Java in JAVA_HOME, that has the tables of a directory."""

    def __init__(self, tables, place):
        home, java = Path(os.environ["TRINO_HOME"]), Path(os.environ["JAVA_HOME"]) / "bin/java"
        self.port, self.tables, place = free_port(), Path(tables).resolve(), Path(place).resolve()
        self.place = place
        catalog = place / "catalog"
        catalog.mkdir(parents=True)
        (place / "metastore").mkdir()
        (place / "config.properties").write_text(
            "coordinator=true\nnode-scheduler.include-coordinator=true\n"
            f"http-server.http.port={self.port}\nhttp-server.http.enabled=true\n"
            f"discovery.uri=http://127.0.0.1:{self.port}\n"
            f"catalog.config-dir={catalog}\nplugin.dir={home / 'plugin'}\n")
        (catalog / "hive.properties").write_text(
            f"connector.name=hive\nhive.metastore=file\nhive.metastore.catalog.dir=local://{place}/metastore\n"
            "hive.timestamp-precision=MICROSECONDS\nhive.non-managed-table-writes-enabled=true\n"
            "fs.native-local.enabled=true\nlocal.location=/\n")
        self.log = open(place / "log", "w+")
        self.process = subprocess.Popen(
            [java, *FLAGS, "-cp", f"{home}/lib/*", f"-Dconfig={place}/config.properties", "-Dnode.environment=test",
             "-Dnode.id=pgassay", f"-Dnode.data-dir={place}", "-Dnode.internal-address=127.0.0.1",
             "-Dnode.bind-ip=127.0.0.1",
             "io.trino.server.TrinoServer"],
            cwd=place, stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self.wait(place / "log")
            import trino
            self.session = trino.dbapi.connect(host="127.0.0.1", port=self.port, user="pgassay", catalog="hive",
                                               schema="pgassay")
            statements = (HERE / "docs/trino.sql").read_text().replace("LOCATION", f"local://{self.tables}")
            for statement in statements.split(";\n"):
                if statement.strip():
                    self.ask(statement)
        except BaseException:
            self.stop()
            raise

    def wait(self, log):
        until = time.monotonic() + STARTS
        while "SERVER STARTED" not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("Trino did not start:\n" + log.read_text()[-4000:])
            time.sleep(0.5)

    def version(self):
        return self.ask("SELECT version()")[1][0][0]

    def ask(self, sql):
        cursor = self.session.cursor()
        cursor.execute(sql)
        rows = [tuple(row) for row in cursor.fetchall()]
        return [column[0] for column in cursor.description or []], rows

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
