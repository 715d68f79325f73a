"""The spoilt servers of bench/spoilt.py: what spoils each, its load, what must be named, what mends it.

An entry is a dict:

  id, area    its name; statements, schema, settings, workload, machine
  settings    settings of the server beyond the sound ones (it is restarted with them)
  spoil       SQL in the entry's database, before the load
  load        pgbench script; `{r}` etc. are not replaced: it is given as it is
  args        further arguments of `pgassay run`
  clients     default 4
  beside      SQL that a session beside the load repeats until the end; `\\!` lines are psql's
  expect      ids of findings, any of which is the cause
  remedy      a regular expression: what a step of that finding must say
  mend        SQL that mends it; or
  mend_settings, mend_load, mend_args, mend_beside   what is another way then (None: as before)
  role        role of the load: `app` is no superuser
  preload     shared_preload_libraries; pg_stat_statements unless it says otherwise
"""

ACCOUNTS = """
CREATE TABLE account (id int, mail text, region int, balance int, filler text);
INSERT INTO account SELECT i, 'u' || i || '@example.org', i % 1000, 0, repeat('x', 60) FROM generate_series(1, {rows}) i;
"""


def accounts(rows=200000, more=""):
    return ACCOUNTS.format(rows=rows) + more + "VACUUM ANALYZE account;"


KEYED = "ALTER TABLE account ADD PRIMARY KEY (id);"
FIRST_ROW = ("BEGIN;\nUPDATE job SET n = n + 1 WHERE id = (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE%s);\n"
             "SELECT pg_sleep(0.004);\nCOMMIT;\n")
BY_ID = "\\set id random(1, 200000)\nSELECT balance FROM account WHERE id = :id;\n"

MONTHS = """
CREATE TABLE reading (id int NOT NULL, month int NOT NULL, v int NOT NULL) PARTITION BY RANGE (month);
DO $$ BEGIN FOR m IN 0..59 LOOP EXECUTE format('CREATE TABLE reading_%s PARTITION OF reading FOR VALUES FROM (%s) TO (%s)', m, m, m + 1); END LOOP; END $$;
INSERT INTO reading SELECT g, g % 60, g % 77 FROM generate_series(1, 60000) g;
VACUUM ANALYZE reading;
"""
# Five tables, each of which refers to the one before.
CHAIN = "".join(
    f"CREATE TABLE {t} (id int PRIMARY KEY, k int, {of} int); INSERT INTO {t} SELECT g, g % 500, g % 4000 + 1 FROM generate_series(1, 8000) g;\n"
    f"CREATE INDEX ON {t} ({of}); CREATE INDEX ON {t} (k);\n" for t, of in ["az", "ba", "cb", "dc", "ed"]) + "VACUUM ANALYZE;"
ORDERS = """
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, region int NOT NULL);
INSERT INTO customer SELECT g, 'Customer ' || g, g % 40 FROM generate_series(1, 5000) g;
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, total int NOT NULL, note text NOT NULL);
INSERT INTO orders SELECT g, (g::bigint * 7919) % 5000 + 1, g % 900, repeat('n', 60) FROM generate_series(1, 100000) g;
CREATE INDEX ON orders (customer);
VACUUM ANALYZE customer; VACUUM ANALYZE orders;
"""
OF_CUSTOMER = "\\set c random(1, 5000)\nSELECT sum(total) FROM orders WHERE customer = :c;\n"
DUE = """
CREATE OR REPLACE FUNCTION due(c int) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE s bigint := 0; t int; BEGIN
  FOR t IN SELECT total FROM orders WHERE customer = c LOOP %ss := s + t; END LOOP; RETURN s; END $$;
"""
# The data directory, for a program beside the load.
DATA = "SELECT current_setting('data_directory') AS data \\gset\n\\setenv DATA :data\n"

ENTRIES = [
    # Statements.
    dict(id="no-index", area="statements", spoil=accounts(), load=BY_ID, expect=["sequential-scan"],
         remedy=r"CREATE INDEX .*account \(id\)", mend="CREATE INDEX ON account (id);"),
    dict(id="cast-column", area="statements", spoil=accounts(more=KEYED),
         load="\\set id random(1, 200000)\nSELECT balance FROM account WHERE id::text = (:id)::text;\n",
         expect=["sequential-scan"], remedy=r"type of the column|CREATE INDEX .*id\)?::text", mend_load=BY_ID),
    dict(id="lower-column", area="statements", spoil=accounts(more="CREATE INDEX ON account (mail);"),
         load="\\set id random(1, 200000)\nSELECT balance FROM account WHERE lower(mail) = 'u' || :id || '@example.org';\n",
         expect=["sequential-scan"], remedy=r"CREATE INDEX .*lower", mend="CREATE INDEX ON account (lower(mail));ANALYZE account;"),
    dict(id="invalid-index", area="schema",
         spoil=accounts(more="CREATE INDEX account_id ON account (id);"
                             "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'account_id'::regclass;"),
         load=BY_ID, expect=["sequential-scan", "invalid-index"], remedy=r"REINDEX", mend="REINDEX INDEX account_id;"),
    dict(id="partial-index", area="statements", spoil=accounts(more="CREATE INDEX ON account (id) WHERE region < 10;"),
         load=BY_ID, expect=["sequential-scan"], remedy=r"index on|covers only", mend="CREATE INDEX ON account (id);"),
    dict(id="correlated-subquery", area="statements",
         spoil=accounts(20000, KEYED) + "CREATE TABLE booking AS SELECT i, i % 20000 + 1 AS account FROM generate_series(1, 40000) i;"
               "VACUUM ANALYZE booking;",
         load="\\set id random(1, 19900)\nSELECT a.id, (SELECT count(*) FROM booking b WHERE b.account = a.id) FROM account a "
              "WHERE a.id BETWEEN :id AND :id + 20;\n",
         expect=["sequential-scan"], remedy=r"CREATE INDEX .*booking \(account\)", mend="CREATE INDEX ON booking (account);"),
    dict(id="offset-pages", area="statements", spoil=accounts(more=KEYED),
         load="\\set n random(50000, 150000)\nSELECT id, balance FROM account ORDER BY id OFFSET :n LIMIT 20;\n",
         expect=["rows-discarded"], remedy=r"OFFSET|keyset|last",
         mend_load="\\set n random(50000, 150000)\nSELECT id, balance FROM account WHERE id > :n ORDER BY id LIMIT 20;\n"),
    dict(id="half-an-index", area="statements",
         spoil=accounts(more="CREATE INDEX ON account (region);UPDATE account SET region = id % 5, filler = id % 4000;"),
         load="\\set n random(0, 3999)\nSELECT count(*) FROM account WHERE region = :n % 5 AND filler = (:n)::text;\n",
         expect=["rows-discarded", "sequential-scan"], remedy=r"[Ii](NDEX|ndex)",
         mend="CREATE INDEX ON account (filler, region);"),
    dict(id="sort-spills", area="statements", settings=dict(work_mem="64kB"), spoil=accounts(60000),
         load="SELECT count(*) FROM (SELECT id FROM account ORDER BY filler || mail OFFSET 0) x;\n",
         expect=["spilling", "order-unneeded"], remedy=r"work_mem|leave ORDER BY out", clients=2,
         mend_load="SELECT count(*) FROM (SELECT id FROM account OFFSET 0) x;\n"),
    dict(id="sort-spills-unseen", area="statements", settings=dict(work_mem="64kB"), preload="", spoil=accounts(60000),
         load="SELECT count(*) FROM (SELECT id FROM account ORDER BY filler || mail OFFSET 0) x;\n",
         expect=["spilling", "order-unneeded"], remedy=r"work_mem|leave ORDER BY out", clients=2,
         mend_load="SELECT count(*) FROM (SELECT id FROM account OFFSET 0) x;\n"),
    dict(id="hash-spills", area="statements", settings=dict(work_mem="256kB", hash_mem_multiplier="1"), spoil=accounts(100000),
         load="SELECT count(*) FROM account a JOIN account b USING (mail);\n",
         expect=["spilling"], remedy=r"work_mem", mend_settings=dict(work_mem="64MB", hash_mem_multiplier="1"), clients=2),
    dict(id="function-in-filter", area="statements",
         spoil=accounts(20000) + "CREATE FUNCTION net(b int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN b * 100 / 119; END';",
         load="SELECT count(*) FROM account WHERE net(balance) > 10;\n", expect=["function-per-row"],
         remedy=r"SQL (expression|function)",
         mend="CREATE OR REPLACE FUNCTION net(b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT b * 100 / 119';"),
    dict(id="policy-function", area="schema", role="app",
         spoil=accounts(20000) + "CREATE FUNCTION mine(r int) RETURNS bool LANGUAGE plpgsql STABLE AS "
               "'BEGIN RETURN r < current_setting(''app.region'', true)::int; END';"
               "ALTER TABLE account ENABLE ROW LEVEL SECURITY;"
               "CREATE POLICY regions ON account USING (mine(region)); GRANT SELECT ON account TO app;"
               "ALTER ROLE app IN DATABASE spoilt SET app.region = '500';",
         load="SELECT count(*) FROM account;\n", expect=["function-per-row"], remedy=r"SQL|scalar subquery",
         mend="ALTER POLICY regions ON account USING (region < (SELECT current_setting('app.region', true)::int));"),
    dict(id="planned-each-time", area="statements",
         spoil="CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);"
               "DO $$ BEGIN FOR i IN 0..99 LOOP EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES FROM (%s) TO (%s)',"
               " i, i * 100, i * 100 + 100); END LOOP; END $$;"
               "INSERT INTO p SELECT i, i FROM generate_series(0, 9999) i; CREATE INDEX ON p (id); VACUUM ANALYZE p;",
         load="\\set id random(0, 9999)\nSELECT a.v, b.v, c.v FROM p a JOIN p b USING (v) JOIN p c USING (v) WHERE a.id = :id AND b.id = :id AND c.id = :id;\n",
         args=["-M", "simple"], mend_args=["-M", "prepared"], expect=["planning-longer", "parse-and-plan"],
         remedy=r"[Pp]repare"),
    dict(id="partitions-all", area="schema",
         spoil="CREATE TABLE p (id int, day int, v int) PARTITION BY RANGE (day);"
               "DO $$ BEGIN FOR i IN 0..63 LOOP EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES FROM (%s) TO (%s)',"
               " i, i * 10, i * 10 + 10); END LOOP; END $$;"
               "INSERT INTO p SELECT i, i % 640, i FROM generate_series(1, 128000) i; CREATE INDEX ON p (id); VACUUM ANALYZE p;",
         load="\\set id random(1, 128000)\nSELECT v FROM p WHERE id = :id;\n", expect=["partitions-not-pruned"],
         remedy=r"partition key",
         mend_load="\\set id random(1, 128000)\n\\set day :id % 640\nSELECT v FROM p WHERE id = :id AND day = :day;\n"),
    dict(id="large-json", area="statements",
         spoil="CREATE TABLE doc (id int PRIMARY KEY, state text, body jsonb);"
               "INSERT INTO doc SELECT i, 'new', jsonb_build_object('k', i, 'items', (SELECT jsonb_agg(md5((i * j)::text)) "
               "FROM generate_series(1, 1500) j)) FROM generate_series(1, 400) i; VACUUM ANALYZE doc;",
         load="\\set n random(1, 380)\nSELECT sum((body ->> 'k')::int) FROM doc WHERE id BETWEEN :n AND :n + 20;\n",
         expect=["detoasting"], remedy=r"column|lz4|index",
         mend="ALTER TABLE doc ADD k int; UPDATE doc SET k = (body ->> 'k')::int; VACUUM FULL ANALYZE doc;",
         mend_load="\\set n random(1, 380)\nSELECT sum(k) FROM doc WHERE id BETWEEN :n AND :n + 20;\n"),
    dict(id="stale-statistics", area="schema",
         spoil="CREATE TABLE big (id int PRIMARY KEY, grp int) WITH (autovacuum_enabled = off);"
               "CREATE TABLE item (grp int, v int) WITH (autovacuum_enabled = off);"
               "INSERT INTO big SELECT 1, 1; INSERT INTO item SELECT 1, 1; ANALYZE big; ANALYZE item;"
               "INSERT INTO big SELECT i, i % 2000 FROM generate_series(2, 20000) i;"
               "INSERT INTO item SELECT i % 2000, i FROM generate_series(1, 20000) i;",
         load="\\set n random(1, 100)\nSELECT count(*) FROM big b JOIN item i USING (grp) WHERE b.id % 100 = :n % 100 AND i.v % 100 = :n % 100;\n",
         expect=["statistics-missing", "rows-misestimated"], remedy=r"ANALYZE", mend="ANALYZE big; ANALYZE item;"),
    dict(id="parallel-for-little", area="settings",
         settings=dict(parallel_setup_cost="0", parallel_tuple_cost="0", min_parallel_table_scan_size="0",
                       min_parallel_index_scan_size="0"), spoil=accounts(20000),
         load="SELECT sum(balance) FROM account;\n", expect=["parallel-for-little", "plan-by-settings"],
         remedy=r"parallel", mend_settings={}),
    # Schema.
    dict(id="foreign-key", area="schema",
         spoil="CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent SELECT generate_series(1, 400000);"
               "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, filler text);"
               "INSERT INTO child SELECT i, 400001 - i % 100 - 1, repeat('x', 40) FROM generate_series(1, 100000) i;"
               "CREATE SEQUENCE s; VACUUM ANALYZE parent; VACUUM ANALYZE child;",
         load="DELETE FROM parent WHERE id = (SELECT nextval('s'));\n", expect=["foreign-key-unindexed"],
         remedy=r"CREATE INDEX .*child \(parent\)", mend="CREATE INDEX ON child (parent);"),
    dict(id="row-trigger", area="schema",
         spoil="CREATE TABLE entry (id int, v int, changed timestamptz); INSERT INTO entry SELECT i, 0 FROM generate_series(1, 50000) i;"
               "CREATE INDEX ON entry (id);"
               "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE n int := 0; BEGIN FOR i IN 1..50 LOOP n := n + i; END LOOP;"
               " NEW.changed := now(); RETURN NEW; END';"
               "CREATE TRIGGER touch BEFORE UPDATE ON entry FOR EACH ROW EXECUTE FUNCTION touch(); VACUUM ANALYZE entry;",
         load="\\set id random(1, 49000)\nBEGIN;\nUPDATE entry SET v = v + 1 WHERE id BETWEEN :id AND :id + 200;\nROLLBACK;\n",
         clients=2, expect=["trigger-per-row"], remedy=r"STATEMENT|WHEN", mend="DROP TRIGGER touch ON entry;"),
    dict(id="trigger-scans", area="schema",
         spoil="CREATE TABLE stock (sku int, n int); INSERT INTO stock SELECT i, 0 FROM generate_series(1, 100000) i;"
               "CREATE TABLE orders (id serial, sku int);"
               "CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM n FROM stock WHERE sku = NEW.sku; RETURN NEW; END';"
               "CREATE TRIGGER take BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION take(); VACUUM ANALYZE stock;",
         load="\\set sku random(1, 100000)\nINSERT INTO orders (sku) VALUES (:sku);\n",
         expect=["scans-within-functions", "trigger-per-row"], remedy=r"stock|STATEMENT", mend="CREATE INDEX ON stock (sku);"),
    dict(id="dead-queue", area="schema",
         spoil="CREATE TABLE queue (id bigserial PRIMARY KEY, payload text) WITH (autovacuum_enabled = off);"
               "INSERT INTO queue (payload) SELECT repeat('x', 100) FROM generate_series(1, 300000); VACUUM ANALYZE queue;"
               "DELETE FROM queue WHERE id <= 298000;",
         beside="BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; \\! sleep 1\nCOMMIT;",
         load="BEGIN;\nDELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);\n"
              "INSERT INTO queue (payload) VALUES ('y');\nCOMMIT;\n",
         expect=["autovacuum-behind"], remedy=r"VACUUM", mend="VACUUM queue;"),
    dict(id="many-indexes", area="schema",
         spoil="CREATE TABLE wide (id int PRIMARY KEY, a int, b int, c int, d int, e int, f int);"
               "INSERT INTO wide SELECT i, i, i, i, i, i, i FROM generate_series(1, 50000) i;"
               + "".join(f"CREATE INDEX ON wide ({c}); CREATE INDEX ON wide ({c}, a);" for c in "abcdef") + "VACUUM ANALYZE wide;",
         load="\\set id random(1, 49000)\nUPDATE wide SET a = a + 1 WHERE id BETWEEN :id AND :id + 30;\n", clients=2,
         settings=dict(synchronous_commit="off"),
         expect=["updates-not-hot", "indexes-unread"], remedy=r"DROP INDEX|fillfactor",
         mend="".join(f"DROP INDEX wide_{c}_idx; DROP INDEX wide_{c}_a_idx;" for c in "bcdef")
              + "DROP INDEX wide_a_idx; DROP INDEX wide_a_a1_idx;"),
    # Settings.
    dict(id="database-setting", area="settings",
         spoil=accounts(more=KEYED + "ALTER DATABASE spoilt SET enable_indexscan = off;"
                                     "ALTER DATABASE spoilt SET enable_bitmapscan = off; ALTER DATABASE spoilt SET enable_indexonlyscan = off;"),
         load=BY_ID, expect=["plan-by-settings", "sequential-scan", "developer-settings", "planner-methods-off"], remedy=r"ALTER DATABASE spoilt RESET enable_indexscan",
         mend="ALTER DATABASE spoilt RESET ALL;"),
    dict(id="role-setting", area="settings", role="app",
         spoil=accounts(more=KEYED + "GRANT SELECT ON account TO app; ALTER ROLE app SET enable_indexscan = off;"
                                     "ALTER ROLE app SET enable_bitmapscan = off; ALTER ROLE app SET enable_indexonlyscan = off;"),
         load=BY_ID, expect=["plan-by-settings", "sequential-scan", "developer-settings", "planner-methods-off"], remedy=r"ALTER ROLE app RESET enable_indexscan",
         mend="ALTER ROLE app RESET ALL;"),
    dict(id="function-setting", area="settings",
         spoil=accounts(more=KEYED + "CREATE FUNCTION balance_of(i int) RETURNS int LANGUAGE sql STABLE SET enable_indexscan = off "
                                     "SET enable_bitmapscan = off AS 'SELECT balance FROM account WHERE id = i';"),
         load="\\set id random(1, 200000)\nSELECT balance_of(:id);\n",
         expect=["planner-methods-off", "scans-within-functions"], remedy=r"ALTER FUNCTION .*balance_of.* RESET enable_indexscan",
         mend="ALTER FUNCTION balance_of(int) RESET ALL;"),
    dict(id="tiny-cache", area="settings", settings=dict(shared_buffers="1MB"), spoil=accounts(more=KEYED), load=BY_ID,
         expect=["shared-buffers-small"], remedy=r"shared_buffers", mend_settings={}),
    dict(id="small-wal", area="settings", settings=dict(max_wal_size="32MB", min_wal_size="32MB"), spoil=accounts(more=KEYED),
         load="\\set id random(1, 199000)\nUPDATE account SET balance = balance + 1 WHERE id BETWEEN :id AND :id + 50;\n",
         expect=["forced-checkpoints", "max-wal-size-small"], remedy=r"max_wal_size", mend_settings={}, time=4),
    dict(id="commit-delay", area="settings", settings=dict(commit_delay="20000", commit_siblings="1"), spoil=accounts(more=KEYED),
         load="\\set id random(1, 200000)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\n",
         expect=["commit-delay"], remedy=r"commit_delay", mend_settings={}),
    dict(id="log-everything", area="settings", settings=dict(log_statement="all", log_duration="on", log_min_duration_statement="0"),
         spoil=accounts(more=KEYED), load=BY_ID, expect=["statement-logging"], remedy=r"log_", mend_settings={}),
    dict(id="auto-explain", area="settings", preload="auto_explain",
         settings={"auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on", "auto_explain.log_timing": "on"},
         spoil=accounts(more=KEYED), load="\\set id random(1, 190000)\nSELECT sum(balance) FROM account WHERE id BETWEEN :id AND :id + 500;\n",
         expect=["costly-libraries"], remedy=r"auto_explain", mend_settings={}, mend_preload=""),
    dict(id="jit", area="settings", settings=dict(jit_above_cost="0", jit_inline_above_cost="0", jit_optimize_above_cost="0"),
         spoil=accounts(more=KEYED), load=BY_ID, expect=["jit-small-queries"], remedy=r"jit", mend_settings={}, args=["-M", "simple"],
         mend_args=["-M", "simple"]),
    dict(id="serializable", area="settings", settings=dict(default_transaction_isolation="serializable"), spoil=accounts(200, KEYED),
         load="\\set id random(1, 200)\nBEGIN;\nSELECT sum(balance) FROM account WHERE id BETWEEN :id AND :id + 20;\n"
              "UPDATE account SET balance = balance + 1 WHERE id = :id;\nCOMMIT;\n", args=["--max-tries", "1"],
         mend_args=["--max-tries", "1"], expect=["default-isolation", "predicate-locks"], remedy=r"default_transaction_isolation",
         mend_settings={}),
    dict(id="random-page-cost", area="settings", settings=dict(random_page_cost="4000"), spoil=accounts(more=KEYED), load=BY_ID,
         expect=["random-page-cost", "plan-by-settings", "sequential-scan"], remedy=r"random_page_cost", mend_settings={}),
    # Workload.
    dict(id="hot-row", area="workload", spoil="CREATE TABLE counter (id int PRIMARY KEY, n int); INSERT INTO counter VALUES (1, 0);",
         load="BEGIN;\nUPDATE counter SET n = n + 1 WHERE id = 1;\nSELECT pg_sleep(0.003);\nCOMMIT;\n", expect=["hot-row"],
         remedy=r"spread|round trip|several rows",
         mend="INSERT INTO counter SELECT i, 0 FROM generate_series(2, 64) i;",
         mend_load="\\set i random(1, 64)\nBEGIN;\nUPDATE counter SET n = n + 1 WHERE id = :i;\nSELECT pg_sleep(0.003);\nCOMMIT;\n"),
    dict(id="idle-holder", area="workload", spoil="CREATE TABLE counter (id int PRIMARY KEY, n int); INSERT INTO counter SELECT i, 0 FROM generate_series(1, 8) i;",
         beside="BEGIN; UPDATE counter SET n = n WHERE id = 1;\n\\! sleep 2\nCOMMIT;",
         load="\\set i random(1, 8)\nUPDATE counter SET n = n + 1 WHERE id = :i;\n", expect=["idle-in-transaction"],
         remedy=r"idle_in_transaction_session_timeout|terminate", mend_beside=""),
    dict(id="alter-table", area="workload", spoil=accounts(20000, KEYED),
         beside="BEGIN; ALTER TABLE account ADD COLUMN IF NOT EXISTS x int; SELECT pg_sleep(1.2); ROLLBACK;\nSELECT pg_sleep(0.1);",
         load="\\set id random(1, 20000)\nSELECT balance FROM account WHERE id = :id;\n", expect=["schema-change-queue"],
         remedy=r"lock_timeout|last in its transaction", mend_beside=""),
    dict(id="advisory-lock", area="workload", spoil=accounts(20000, KEYED),
         load="\\set id random(1, 20000)\nBEGIN;\nSELECT pg_advisory_xact_lock(7);\nSELECT pg_sleep(0.004);\nSELECT balance FROM account WHERE id = :id;\nCOMMIT;\n",
         expect=["advisory-lock-queue"], remedy=r"keys|release|SKIP LOCKED",
         mend_load="\\set id random(1, 20000)\nBEGIN;\nSELECT pg_advisory_xact_lock(:id);\nSELECT pg_sleep(0.004);\nSELECT balance FROM account WHERE id = :id;\nCOMMIT;\n"),
    dict(id="deadlocks", area="workload", spoil=accounts(4, KEYED),
         load="\\set a random(1, 4)\n\\set b random(1, 4)\nBEGIN;\nUPDATE account SET balance = balance + 1 WHERE id = :a;\n"
              "UPDATE account SET balance = balance + 1 WHERE id = :b;\nCOMMIT;\n", args=["--max-tries", "1"], mend_args=["--max-tries", "1"],
         expect=["deadlocks"], remedy=r"same order",
         mend_load="\\set a random(1, 4)\n\\set b random(1, 4)\n\\set x least(:a, :b)\n\\set y greatest(:a, :b)\nBEGIN;\n"
                   "UPDATE account SET balance = balance + 1 WHERE id = :x;\nUPDATE account SET balance = balance + 1 WHERE id = :y;\nCOMMIT;\n"),
    dict(id="connection-storm", area="workload", spoil=accounts(20000, KEYED), load="\\set id random(1, 20000)\nSELECT balance FROM account WHERE id = :id;\n",
         args=["-C"], mend_args=[], expect=["connections-opened"], remedy=r"pool|PgBouncer"),
    dict(id="temporary-tables", area="workload", spoil=accounts(20000, KEYED),
         load="\\set id random(1, 19000)\nCREATE TEMP TABLE w AS SELECT id FROM account WHERE id BETWEEN :id AND :id + 5;\nSELECT count(*) FROM w;\nDROP TABLE w;\n",
         args=["-M", "simple"], mend_args=["-M", "simple"], expect=["temporary-tables"], remedy=r"ON COMMIT DELETE ROWS|WITH",
         mend_load="\\set id random(1, 19000)\nWITH w AS (SELECT id FROM account WHERE id BETWEEN :id AND :id + 5) SELECT count(*) FROM w;\n"),
    dict(id="lock-table", area="workload", spoil=accounts(20000, KEYED),
         load="\\set id random(1, 20000)\nBEGIN;\nLOCK TABLE account IN EXCLUSIVE MODE;\nUPDATE account SET balance = balance + 1 WHERE id = :id;\nCOMMIT;\n",
         expect=["schema-change-queue", "relation-lock-queue"], remedy=r"LOCK TABLE|lock",
         mend_load="\\set id random(1, 20000)\nBEGIN;\nUPDATE account SET balance = balance + 1 WHERE id = :id;\nCOMMIT;\n"),
    dict(id="notify", area="workload", spoil="CREATE TABLE e (id bigserial, v int);",
         load="BEGIN;\nINSERT INTO e (v) VALUES (1);\nNOTIFY changed;\nCOMMIT;\n", clients=8,
         expect=["wait-event/Lock:object", "notify-queue"], remedy=r"NOTIFY",
         mend_load="BEGIN;\nINSERT INTO e (v) VALUES (1);\nCOMMIT;\n"),
    dict(id="old-snapshot", area="workload", spoil="CREATE TABLE hot (id int PRIMARY KEY, n int); INSERT INTO hot SELECT i, 0 FROM generate_series(1, 20) i;"
         "BEGIN; INSERT INTO hot VALUES (99, 0); PREPARE TRANSACTION 'forgotten'; SELECT pg_sleep(1.5);",
         settings=dict(max_prepared_transactions="10", synchronous_commit="off"),
         load="\\set i random(1, 20)\nUPDATE hot SET n = n + 1 WHERE id = :i;\nSELECT sum(n) FROM hot WHERE id BETWEEN 1 AND 20;\n", warmup=6,
         expect=["horizon-held"], remedy=r"ROLLBACK PREPARED", mend="ROLLBACK PREPARED 'forgotten'; VACUUM hot;",
         mend_settings=dict(max_prepared_transactions="10", synchronous_commit="off")),
    dict(id="row-by-row", area="workload", spoil=accounts(20000, KEYED),
         load="BEGIN;\n" + "".join(f"SELECT balance FROM account WHERE id = {i};\n" for i in range(1, 41)) + "COMMIT;\n",
         expect=["round-trips"], remedy=r"several rows per statement",
         mend_load="SELECT balance FROM account WHERE id = ANY (ARRAY(SELECT generate_series(1, 40)));\n"),
    dict(id="subtransactions", area="workload", spoil=accounts(2000, KEYED), settings=dict(synchronous_commit="off"),
         beside="BEGIN;\n" + "".join(f"SAVEPOINT s; UPDATE account SET balance = {i} WHERE id = {i}; RELEASE s;\n" for i in range(1, 130))
                + "SELECT pg_sleep(1);\nCOMMIT;",
         load="\\set id random(200, 2000)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\nSELECT sum(balance) FROM account WHERE id < 150;\n",
         clients=8, expect=["subtransaction-lookups"], remedy=r"64", mend_beside=""),
    dict(id="empty-pages", area="schema", spoil=accounts() + "DELETE FROM account WHERE id <= 199800; VACUUM ANALYZE account;",
         load="SELECT max(balance) FROM account WHERE region = 7;\n", expect=["swollen-table"], remedy=r"FULL",
         mend="VACUUM FULL ANALYZE account;"),
    dict(id="first-row-queue", area="workload",
         spoil="CREATE TABLE job (id bigserial PRIMARY KEY, n int); INSERT INTO job (n) SELECT 0 FROM generate_series(1, 500);"
               "VACUUM ANALYZE job;",
         load=FIRST_ROW % "", expect=["skip-locked"], remedy=r"SKIP LOCKED", mend_load=FIRST_ROW % " SKIP LOCKED"),
    dict(id="pool-around", area="workload", args=["-M", "extended"], spoil=accounts(20000, KEYED),
         load="\\set id random(1, 20000)\nSELECT 1;\nSET statement_timeout = 30000;\nSELECT balance FROM account WHERE id = :id;\n"
              "DISCARD ALL;\n",
         expect=["pool-checks"], remedy=r"test query|reset",
         mend_load="\\set id random(1, 20000)\nSELECT balance FROM account WHERE id = :id;\n"),
    dict(id="wal-buffers", area="settings", settings=dict(wal_buffers="32kB"), spoil="CREATE TABLE line (id bigserial, body text);",
         load="INSERT INTO line (body) SELECT repeat('y', 500) FROM generate_series(1, 400);\n", expect=["wal-buffers-full"],
         remedy=r"wal_buffers", mend_settings={}),
    dict(id="old-rows-logged", area="settings", settings=dict(wal_level="logical"),
         spoil="CREATE TABLE doc (id int PRIMARY KEY, n int, body text); ALTER TABLE doc REPLICA IDENTITY FULL;"
               "INSERT INTO doc SELECT g, 0, (SELECT string_agg(md5(g || '.' || p), '') FROM generate_series(1, 1000) p)"
               " FROM generate_series(1, 400) g; VACUUM ANALYZE doc;",
         load="\\set id random(1, 400)\nUPDATE doc SET n = n + 1 WHERE id = :id;\n", expect=["replica-identity-full"],
         remedy=r"REPLICA IDENTITY DEFAULT", mend="ALTER TABLE doc REPLICA IDENTITY DEFAULT;"),
    dict(id='rls-cast', area="schema", role='app', spoil="CREATE TABLE invoice (id int PRIMARY KEY, tenant_id int NOT NULL, total int NOT NULL, note text NOT NULL);\nINSERT INTO invoice SELECT g, g % 400, g % 900, repeat('n', 80) FROM generate_series(1, 80000) g;\nCREATE INDEX ON invoice (tenant_id); ALTER TABLE invoice ENABLE ROW LEVEL SECURITY;\nCREATE POLICY tenant ON invoice USING (tenant_id::text = current_setting('app.tenant'));\nGRANT SELECT ON invoice TO app; VACUUM ANALYZE invoice;\n", load="\\set t random(0, 399)\nBEGIN;\nSELECT set_config('app.tenant', (:t)::text, true);\nSELECT count(*), sum(total) FROM invoice;\nCOMMIT;\n", mend="DROP POLICY tenant ON invoice; CREATE POLICY tenant ON invoice USING (tenant_id = current_setting('app.tenant')::int);", expect=['sequential-scan'], remedy=r'ALTER POLICY'),
    dict(id='view-barrier', area="schema", role='app', spoil="CREATE TABLE person (id int PRIMARY KEY, dept int NOT NULL, email text NOT NULL, active bool NOT NULL);\nINSERT INTO person SELECT g, g % 50, 'person' || g || '@example.org', g % 10 > 0 FROM generate_series(1, 80000) g;\nCREATE INDEX ON person (lower(email));\nCREATE VIEW active_person WITH (security_barrier) AS SELECT id, dept, email FROM person WHERE active;\nGRANT SELECT ON active_person TO app; VACUUM ANALYZE person;\n", load="\\set t random(1, 80000)\nSELECT id, dept FROM active_person WHERE lower(email) = 'person' || :t || '@example.org';\n", mend='ALTER VIEW active_person RESET (security_barrier);', expect=['view-fenced'], remedy=r'RESET .security_barrier'),
    dict(id='fillfactor-10', area="schema", spoil='CREATE TABLE stock (id int PRIMARY KEY, shop int NOT NULL, article int NOT NULL, n int NOT NULL) WITH (fillfactor = 10);\nINSERT INTO stock SELECT g, g % 60, g % 3000, g % 50 FROM generate_series(1, 60000) g;\nVACUUM ANALYZE stock;\n', load='\\set a random(0, 2999)\nSELECT sum(n) FROM stock WHERE article = :a;\n', mend='ALTER TABLE stock RESET (fillfactor); VACUUM FULL ANALYZE stock;', expect=['rows-wide'], remedy=r'fillfactor'),
    dict(id='tablespace-cost', area="schema", spoil="CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, total int NOT NULL, note text NOT NULL);\nINSERT INTO orders SELECT g, (g::bigint * 7919) % 4000, g % 900, repeat('n', 60) FROM generate_series(1, 100000) g;\nCREATE INDEX ON orders (customer); VACUUM ANALYZE orders;\nALTER TABLESPACE pg_default SET (random_page_cost = 500);\n", load='\\set c random(0, 3999)\nSELECT id, total FROM orders WHERE customer = :c;\n', mend='ALTER TABLESPACE pg_default RESET (random_page_cost);', expect=['tablespace-costs'], remedy=r'ALTER TABLESPACE'),
    dict(id='union-view-types', area="schema", spoil='CREATE TABLE booking (id int PRIMARY KEY, account int NOT NULL, cents int NOT NULL);\nCREATE TABLE booking_old (id int PRIMARY KEY, account bigint NOT NULL, cents int NOT NULL);\nINSERT INTO booking SELECT g, g % 3000, g % 900 FROM generate_series(1, 40000) g;\nINSERT INTO booking_old SELECT g, g % 3000, g % 900 FROM generate_series(1, 60000) g;\nCREATE INDEX ON booking (account); CREATE INDEX ON booking_old (account);\nCREATE VIEW booking_all AS SELECT id, account, cents FROM booking UNION ALL SELECT id, account, cents FROM booking_old;\nVACUUM ANALYZE booking; VACUUM ANALYZE booking_old;\n', load='\\set c random(0, 2999)\nSELECT sum(cents) FROM booking_all WHERE account = :c;\n', mend='DROP VIEW booking_all; ALTER TABLE booking_old ALTER account TYPE int; CREATE VIEW booking_all AS SELECT id, account, cents FROM booking UNION ALL SELECT id, account, cents FROM booking_old; ANALYZE booking_old;', expect=['view-fenced'], remedy=r'ALTER COLUMN account TYPE'),
    dict(id="pruning-off", area="settings", settings=dict(enable_partition_pruning="off"), spoil=MONTHS,
         load="\\set m random(0, 59)\nSELECT count(*), sum(v) FROM reading WHERE month = :m;\n", mend_settings={},
         expect=["plan-by-settings"], remedy=r"enable_partition_pruning = on"),
    dict(id="from-collapse", area="settings", settings=dict(from_collapse_limit="1"), spoil=CHAIN,
         load="\\set k random(0, 499)\nSELECT count(*) FROM (SELECT b.a AS x, c.id AS cid FROM b, c WHERE c.b = b.id) s, a, "
              "(SELECT d.c AS y, e.k AS ek FROM d, e WHERE e.d = d.id) t WHERE s.x = a.id AND t.y = s.cid AND a.k = :k;\n",
         mend_settings={}, expect=["plan-by-settings"], remedy=r"from_collapse_limit"),
    dict(id="costs-zero", area="settings", settings=dict(seq_page_cost="0", cpu_tuple_cost="0", cpu_operator_cost="0"), spoil=ORDERS,
         load=OF_CUSTOMER, mend_settings={}, expect=["plan-by-settings", "sequential-scan"], remedy=r"seq_page_cost"),
    dict(id="force-parallel", area="settings", settings=dict(force_parallel_mode="on"), spoil=ORDERS, load=OF_CUSTOMER, mend_settings={},
         expect=["plan-by-settings", "developer-settings"], remedy=r"RESET force_parallel_mode"),
    dict(id="idle-class", area="machine", load=OF_CUSTOMER,
         spoil=ORDERS + DATA + "\\! p=$(head -n 1 $DATA/postmaster.pid); for q in $p $(pgrep -P $p); do chrt -i -p 0 $q; done\n",
         beside="\\! for n in 1 2; do sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done' & done; wait\n",
         mend=DATA + "\\! p=$(head -n 1 $DATA/postmaster.pid); for q in $p $(pgrep -P $p); do chrt -o -p 0 $q; done\n",
         expect=["server-niced"], remedy=r"chrt -o"),
    dict(id="move-to-count", area="workload", args=["-M", "simple"], mend_args=["-M", "simple"], spoil=ORDERS,
         load="BEGIN;\nDECLARE c SCROLL CURSOR FOR SELECT * FROM orders WHERE total < 600;\nMOVE FORWARD ALL IN c;\nMOVE ABSOLUTE 0 IN c;\n"
              "FETCH 50 FROM c;\nCOMMIT;\n",
         expect=["command-often/MOVE"], remedy=r"take MOVE out",
         mend_load="BEGIN;\nDECLARE c NO SCROLL CURSOR FOR SELECT * FROM orders WHERE total < 600;\nFETCH 50 FROM c;\nCOMMIT;\n"),
    dict(id="repeatable-read", area="settings", settings=dict(default_transaction_isolation="repeatable read"), mend_settings={},
         args=["--max-tries", "1"], mend_args=["--max-tries", "1"],
         spoil="CREATE TABLE counter (id int PRIMARY KEY, n int); INSERT INTO counter SELECT i, 0 FROM generate_series(1, 3) i;",
         load="\\set id random(1, 3)\nBEGIN;\nSELECT 1;\nUPDATE counter SET n = n + 1 WHERE id = :id;\nSELECT pg_sleep(0.003);\nCOMMIT;\n",
         expect=["transactions-failed"], remedy=r"READ COMMITTED"),
    dict(id="raise-log", area="workload", spoil=ORDERS + DUE % "RAISE LOG 'order of % has %, sum so far %', c, t, s; ",
         load="\\set c random(1, 5000)\nSELECT due(:c);\n", mend=DUE % "",
         expect=["statement-logging"], remedy=r"take RAISE out"),
    dict(id='path-ops-and-key', area='schema', spoil="CREATE TABLE doc (id int PRIMARY KEY, body jsonb NOT NULL);\nINSERT INTO doc SELECT g, jsonb_build_object('k' || g % 400, 1, 'name', 'n' || g, 'filler', repeat('f', 60)) FROM generate_series(1, 60000) g;\nCREATE INDEX doc_body ON doc USING gin (body jsonb_path_ops); VACUUM ANALYZE doc;", load="\\set k random(0, 399)\nSELECT count(*) FROM doc WHERE body ? ('k' || :k);\n", mend='CREATE INDEX ON doc USING gin (body);', expect=['sequential-scan'], remedy='USING gin .body.'),
    dict(id='join-types-differ', area='schema', spoil="CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, region int NOT NULL);\nINSERT INTO customer SELECT g, 'customer ' || g, g % 4000 FROM generate_series(1, 20000) g; CREATE INDEX ON customer (region);\nCREATE TABLE orders (id int PRIMARY KEY, customer_ref text NOT NULL, total int NOT NULL);\nINSERT INTO orders SELECT g, (g % 20000 + 1)::text, g % 900 FROM generate_series(1, 100000) g; CREATE INDEX orders_customer ON orders (customer_ref);\nVACUUM ANALYZE customer; VACUUM ANALYZE orders;", load='\\set r random(0, 3999)\nSELECT c.name, sum(o.total) FROM customer c JOIN orders o ON o.customer_ref::int = c.id WHERE c.region = :r GROUP BY c.name;\n', mend='ALTER TABLE orders ALTER customer_ref TYPE int USING customer_ref::int; VACUUM ANALYZE orders;', expect=['late-filter'], remedy='ALTER COLUMN customer_ref TYPE integer'),
    dict(id='column-arithmetic', area='statements', spoil="CREATE TABLE ticket (id int PRIMARY KEY, created timestamptz NOT NULL, body text NOT NULL);\nINSERT INTO ticket SELECT g, now() - (g || ' minutes')::interval, repeat('b', 60) FROM generate_series(1, 90000) g; CREATE INDEX ON ticket (created); VACUUM ANALYZE ticket;", load="SELECT count(*) FROM ticket WHERE created + interval '2 hours' > now();\n", mend_load="SELECT count(*) FROM ticket WHERE created > now() - interval '2 hours';\n", expect=['plan-node/Index-Only-Scan-on-public.ticket', 'index-walked'], remedy='created > value - '),
    dict(id='strpos', area='statements', spoil='CREATE TABLE book (id int PRIMARY KEY, title text NOT NULL);\nINSERT INTO book SELECT g, md5(g::text) || md5((g + 1)::text) FROM generate_series(1, 60000) g; VACUUM ANALYZE book;', load='\\set i random(1, 60000)\nSELECT id FROM book WHERE strpos(title, substr(md5((:i)::text), 1, 10)) > 0;\n', mend='CREATE EXTENSION pg_trgm; CREATE INDEX ON book USING gin (title gin_trgm_ops);', mend_load="\\set i random(1, 60000)\nSELECT id FROM book WHERE title LIKE '%' || substr(md5((:i)::text), 1, 10) || '%';\n", expect=['sequential-scan'], remedy='gin_trgm_ops'),
    dict(id='partition-lacks-index', area='schema', spoil="CREATE TABLE sale (at date NOT NULL, shop int NOT NULL, cents int NOT NULL) PARTITION BY RANGE (at);\nCREATE TABLE sale_1 PARTITION OF sale FOR VALUES FROM ('2024-01-01') TO ('2024-02-01'); CREATE TABLE sale_2 PARTITION OF sale FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');\nINSERT INTO sale SELECT date '2024-01-01' + g % 60, g % 3000, g FROM generate_series(1, 120000) g;\nCREATE INDEX sale_shop ON ONLY sale (shop); CREATE INDEX s1 ON sale_1 (shop); ALTER INDEX sale_shop ATTACH PARTITION s1; VACUUM ANALYZE sale;", load='\\set s random(0, 2999)\nSELECT sum(cents) FROM sale WHERE shop = :s;\n', mend='CREATE INDEX s2 ON sale_2 (shop); ALTER INDEX sale_shop ATTACH PARTITION s2;', expect=['sequential-scan'], remedy='CREATE INDEX .*sale_2 .shop.'),
]

# Sound servers: whatever is found above "low" and is not allowed here is wrong.
SOUND = [
    dict(id="reads", spoil=accounts(more=KEYED), load=BY_ID),
    dict(id="reads-unseen", preload="", spoil=accounts(more=KEYED), load=BY_ID, clients=2),
    dict(id="writes", spoil=accounts(more=KEYED),
         load="\\set id random(1, 200000)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\n", allowed=["wal-flush"]),
    dict(id="inserts", spoil="CREATE TABLE event (id bigserial PRIMARY KEY, at timestamptz DEFAULT now(), v int);",
         load="\\set v random(1, 1000)\nINSERT INTO event (v) VALUES (:v);\n", allowed=["wal-flush"]),
    dict(id="joins", spoil=accounts(20000, KEYED) + "CREATE TABLE booking AS SELECT i, i % 20000 + 1 AS account FROM generate_series(1, 40000) i;"
         "CREATE INDEX ON booking (account); VACUUM ANALYZE booking;",
         load="\\set id random(1, 19900)\nSELECT count(*) FROM account a JOIN booking b ON b.account = a.id WHERE a.id BETWEEN :id AND :id + 20;\n"),
    dict(id="report", spoil=accounts(50000, KEYED), load="SELECT region, count(*), sum(balance) FROM account GROUP BY region;\n", clients=2),
    dict(id="queue", spoil="CREATE TABLE queue (id bigserial PRIMARY KEY, payload text);"
         "INSERT INTO queue (payload) SELECT 'x' FROM generate_series(1, 100);VACUUM ANALYZE queue;",
         load="BEGIN;\nDELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);\n"
              "INSERT INTO queue (payload) VALUES ('y');\nCOMMIT;\n", allowed=["wal-flush"]),
    dict(id="keyed-partitions",
         spoil="CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);"
               "DO $$ BEGIN FOR i IN 0..19 LOOP EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES FROM (%s) TO (%s)',"
               " i, i * 1000, i * 1000 + 1000); END LOOP; END $$;"
               "INSERT INTO p SELECT i, i FROM generate_series(0, 19999) i; CREATE INDEX ON p (id); VACUUM ANALYZE p;",
         load="\\set id random(0, 19999)\nSELECT v FROM p WHERE id = :id;\n"),
    dict(id="children", spoil="CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent SELECT generate_series(1, 1000);"
         "CREATE TABLE child (id bigserial PRIMARY KEY, parent int REFERENCES parent, v int); CREATE INDEX ON child (parent);"
         "INSERT INTO child (parent, v) SELECT i % 1000 + 1, 0 FROM generate_series(1, 50000) i; VACUUM ANALYZE;",
         load="\\set p random(1, 1000)\nBEGIN;\nINSERT INTO child (parent, v) VALUES (:p, 1);\nSELECT count(*) FROM child WHERE parent = :p;\nCOMMIT;\n",
         allowed=["wal-flush"]),
    dict(id="mixed", spoil=accounts(more=KEYED),
         load="\\set id random(1, 200000)\nBEGIN;\nSELECT balance FROM account WHERE id = :id;\nUPDATE account SET balance = balance + 1 WHERE id = :id;\n"
              "SELECT count(*) FROM account WHERE id BETWEEN :id AND :id + 10;\nCOMMIT;\n", clients=8, allowed=["wal-flush"]),
]
