"""Roles with odd settings and limits, encodings, TLS that is not there."""

from common import SHORT
from postgres import Server

ROLES = {
    "slow": "SET statement_timeout = '1ms'", "locks": "SET lock_timeout = '1ms'", "idle": "SET idle_session_timeout = '200ms'",
    "idle_tx": "SET idle_in_transaction_session_timeout = '5ms'", "reader": "SET default_transaction_read_only = on",
    "serial": "SET default_transaction_isolation = 'serializable'", "path": "SET search_path = nothing, pg_temp",
    "evil_path": "SET search_path = evil, pg_catalog", "verbose": "SET client_min_messages = debug5", "latin": "SET client_encoding = 'LATIN1'",
    "german": "SET lc_messages = 'C'", "bytes": "SET bytea_output = 'escape'", "dates": "SET datestyle = 'German, DMY'",
    "zone": "SET timezone = 'Asia/Kathmandu'", "floats": "SET extra_float_digits = -15", "old_strings": "SET standard_conforming_strings = off",
    "secure": "SET row_security = off", "intervals": "SET intervalstyle = 'iso_8601'", "small": "SET temp_file_limit = '1kB'",
    "work": "SET work_mem = '64kB'", "jit_all": "SET jit_above_cost = 0", "three": "CONNECTION LIMIT 3", "one": "CONNECTION LIMIT 1",
    "zero": "CONNECTION LIMIT 0", "no_login": "NOLOGIN", "expired": "VALID UNTIL '2001-01-01'", "plain": "NOSUPERUSER",
    "synchronous": "SET synchronous_commit = off", "null_equals": "SET transform_null_equals = on", "plans": "SET plan_cache_mode = force_custom_plan",
    "nothing_scans": "SET enable_seqscan = off", "arrays": "SET array_nulls = off", "quotes": "SET quote_all_identifiers = on",
    "bs": "SET backslash_quote = off", "escape": "SET escape_string_warning = off",
}


def run(section):
    lab, work = section.lab, section.work
    with Server(lab, work / "server", settings={"superuser_reserved_connections": 3}) as server:
        server.psql("CREATE SCHEMA evil")
        # What a hostile search path would have us call instead of the catalogue's own.
        server.psql("CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT 'evil'$$;"
                    "CREATE FUNCTION evil.pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 1';"
                    "CREATE TABLE evil.pg_class (x int); CREATE TABLE evil.pg_settings (name text, setting text);"
                    "CREATE FUNCTION evil.eq(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';"
                    "CREATE OPERATOR evil.= (leftarg = text, rightarg = text, function = evil.eq)")
        for name, what in ROLES.items():
            server.psql(f"CREATE ROLE {name} LOGIN; GRANT CREATE ON DATABASE postgres TO {name}; GRANT ALL ON SCHEMA evil TO {name}")
            server.psql(f"ALTER ROLE {name} {what}")
        for name in section.through(ROLES):
            target = server.target(user=name)
            for words in (["check", target], ["check", target, "--json"], ["assay", target, "--quick"],
                          ["run", "tpcb-like", target, "--load", *SHORT],
                          ["run", "tpcb-like", target, "--load", *SHORT[:-4], "--clients", "1,8", "--threads", "2"],
                          ["pgbench", "-n", "-t", "2", "-f", "/dev/null", target]):
                section.try_(*words, timeout=90)
                if server.schema_left():
                    section.lose(f"role {name}: the schema was left", " ".join(map(str, words)))
                    server.psql("DROP SCHEMA pgassay CASCADE")
        for name, options in section.through((("latin1", "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"),
                                              ("ascii", "ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"),
                                              ("closed", "ALLOW_CONNECTIONS false"), ("limited", "CONNECTION LIMIT 1"))):
            server.psql(f"CREATE DATABASE {name} {options}")
            for words in (["check"], ["assay", "--quick"], ["run", "tpcb-like", "--load", *SHORT]):
                at = 2 if words[0] == "run" else 1
                section.try_(*words[:at], server.target(db=name, user="plain"), *words[at:], timeout=90)
        for more in section.through(("sslmode=require", "sslmode=verify-full", "sslrootcert=/dev/zero sslmode=verify-ca", "sslcert=/etc/passwd sslkey=/etc/passwd",
                                     "gssencmode=require", "target_session_attrs=standby", "target_session_attrs=read-only", "channel_binding=require",
                                     "connect_timeout=1", "options=-cwork_mem=nonsense", "options='-c search_path=evil'", "replication=database",
                                     "client_encoding=LATIN1", "application_name='" + "x" * 5000 + "'", "require_auth=scram-sha-256", "load_balance_hosts=random")):
            section.try_("check", server.tcp().replace("sslmode=disable", "") + more, timeout=60)
            section.try_("run", "select-only", server.tcp().replace("sslmode=disable", "") + more, "--load", *SHORT, timeout=60)
