"""Servers of our own on private sockets: PostgreSQL, a standby of one, PgBouncer in front of one."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """One cluster; `with Server(lab, dir) as server` starts it and removes it."""

    def __init__(self, lab, place, *, settings=(), hba="local all all trust\nhost all all 127.0.0.1/32 trust\n",
                 standby_of=None):
        self.lab, self.place, self.port = lab, Path(place), free_port()
        self.place.mkdir(parents=True)
        os.chmod(self.place, 0o755)
        lab.give(self.place)
        self.data, self.pid, self.process = self.place / "data", None, None
        if standby_of is None:
            self.own("initdb", "-N", "-A", "trust", "-U", "boss", "-E", "UTF8", "--locale=C", "-D", self.data)
        else:
            self.own("pg_basebackup", "-R", "-c", "fast", "-h", standby_of.place, "-p", str(standby_of.port), "-U", "boss",
                     "-D", self.data)
        common = {"port": self.port, "unix_socket_directories": f"'{self.place}'", "listen_addresses": "'127.0.0.1'",
                  "shared_buffers": "'32MB'", "fsync": "off", "max_connections": 60, "autovacuum": "off",
                  "logging_collector": "off", **dict(settings)}
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.writelines(f"{name} = {value}\n" for name, value in common.items())
        (self.data / "pg_hba.conf").write_text(hba + "local replication all trust\n")

    def own(self, program, *words):
        done = subprocess.run([*self.lab.as_servers_user(), self.lab.bin / program, *words], cwd="/",
                              env=self.lab.environment(), capture_output=True)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode(errors='replace')}")

    def start(self):
        log = open(self.place / "log", "ab")
        self.process = subprocess.Popen(
            [*self.lab.as_servers_user(), self.lab.bin / "postgres", "-D", self.data], cwd="/", stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, env=self.lab.environment(), start_new_session=True)
        log.close()
        self.pid = self.process.pid
        self.lab.servers.add(self.pid)
        end = time.monotonic() + 60
        while self.psql("SELECT 1", check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.place / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)
        return self

    def stop(self, how=signal.SIGQUIT):
        if self.process and self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.lab.servers.discard(self.pid)

    def up(self):
        """Starts it again where it has died."""
        if self.process.poll() is not None:
            self.lab.servers.discard(self.pid)
            self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.place, ignore_errors=True)

    def psql(self, text, db="postgres", user="boss", check=True, program="psql"):
        argv = [self.lab.bin / "psql" if (self.lab.bin / "psql").exists() else program, "-XAtq", "-v", "ON_ERROR_STOP=1",
                "-h", self.place, "-p", str(self.port), "-U", user, "-d", db, "-c", text]
        done = subprocess.run(argv, env=self.lab.environment({"PGOPTIONS": "", "PGCONNECT_TIMEOUT": "10"}),
                              capture_output=True, text=True, errors="replace", cwd="/")
        if check and done.returncode:
            raise RuntimeError(f"psql: {done.stderr}")
        return done

    def ask(self, text, **more):
        return self.psql(text, **more).stdout.strip()

    def target(self, db="postgres", user="boss", more=""):
        return f"host={self.place} port={self.port} dbname={db} user={user} {more}".strip()

    def tcp(self, port=None, db="postgres", user="boss", more=""):
        return f"host=127.0.0.1 port={port or self.port} dbname={db} user={user} sslmode=disable {more}".strip()

    def schema_left(self, db="postgres"):
        """Whether our schema is there."""
        return self.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgassay'", db=db) != "0"

    def catalogue(self, db="postgres"):
        """Everything that a guest must leave as it is."""
        dump = subprocess.run([self.lab.bin / "pg_dump", "-s", "-h", self.place, "-p", str(self.port), "-U", "boss", db],
                              env=self.lab.environment(), capture_output=True, cwd="/").stdout
        # Newer releases print a fresh random key with each dump.
        dump = b"\n".join(line for line in dump.split(b"\n") if not line.startswith((b"\\restrict", b"\\unrestrict")))
        objects = self.ask(
            "SELECT string_agg(x, E'\\n' ORDER BY x) FROM ("
            " SELECT 'class ' || oid::text || ' ' || relname AS x FROM pg_class WHERE relnamespace <> 'pg_toast'::regnamespace"
            "  AND relkind <> 't' AND oid >= 16384"
            " UNION ALL SELECT 'proc ' || oid::text || ' ' || proname FROM pg_proc WHERE oid >= 16384"
            " UNION ALL SELECT 'type ' || oid::text || ' ' || typname FROM pg_type WHERE oid >= 16384"
            " UNION ALL SELECT 'role ' || oid::text || ' ' || rolname FROM pg_roles"
            " UNION ALL SELECT 'set ' || setdatabase::text || ' ' || setrole::text || ' ' || setconfig::text FROM pg_db_role_setting"
            " UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots"
            " UNION ALL SELECT 'ext ' || extname FROM pg_extension"
            " UNION ALL SELECT 'database ' || datname FROM pg_database"
            " UNION ALL SELECT 'file ' || name || ' ' || setting FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf') q", db=db)
        return dump, objects


class Bouncer:
    """PgBouncer before a server, with one connection in its pool."""

    def __init__(self, server, mode, more=""):
        self.server, self.lab, self.port = server, server.lab, free_port()
        program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
        if program is None:
            raise SystemExit("attack: no pgbouncer found; scripts/bootstrap.sh attack installs it")
        self.place = server.place / f"bouncer-{mode}"
        self.place.mkdir()
        self.lab.give(self.place)
        ini = self.place / "ini"
        ini.write_text(f"[databases]\n* = host=127.0.0.1 port={server.port} user=boss\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
                       f"listen_port = {self.port}\nunix_socket_dir = {self.place}\nauth_type = any\npool_mode = {mode}\n"
                       f"default_pool_size = 1\nquery_wait_timeout = 5\nignore_startup_parameters = extra_float_digits\n{more}\n")
        self.lab.give(ini)
        with open(self.place / "log", "wb") as log:
            self.process = subprocess.Popen([*self.lab.as_servers_user(), program, ini], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=self.lab.environment(), start_new_session=True, cwd="/")
        self.lab.servers.add(self.process.pid)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise RuntimeError((self.place / "log").read_text(errors="replace"))
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.lab.servers.discard(self.process.pid)
