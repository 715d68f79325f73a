"""Twenty spoilt servers: the causes that an author, the second of three, meets most often.

For bench/spoilt.py PGASSAY --entries spoilt_blind10. The keys are those of spoilt_blind.py. The author knew neither what
pgassay looks for nor what was tried before, unlike those of spoilt_blind2.py to spoilt_blind8.py, who were to find other
causes each time; so what is common is here again. `factor` is what mending gained in the author's trials, with pgbench on
two CPUs that others used as well (PostgreSQL 15).
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"
# A standby of this server in $SB, which ends (with everything in $SB) when this server's postmaster does.
STANDBY = SHELL + r"""
SELECT pid AS pmpid, '/tmp/sb' || pid AS sb FROM split_part(pg_read_file('postmaster.pid'), E'\n', 1) pid \gset
\setenv PM :pmpid
\setenv SB :sb
\setenv PATH /usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
\setenv AS 'setpriv --reuid postgres --regid postgres --clear-groups'
\! rm -rf $SB; mkdir -p $SB/s; chown -R postgres:postgres $SB; chmod 755 $SB; cd /; $AS pg_basebackup -D $SB/data -c fast -X stream >/dev/null 2>&1; touch $SB/data/standby.signal
\! (while kill -0 $PM; do sleep 0.5; done; cd /; $AS pg_ctl -D $SB/data -m immediate stop; rm -rf $SB) </dev/null >/dev/null 2>&1 &
"""

# ---------------------------------------------------------------- settings

entry(
    id="tiny-work-mem", area="settings",  # factor 10.3
    cause="work_mem is 256kB (an old value carried over since the server had 1 GB of memory): the list of settled payments doesn't fit a hash table of that "
          "size, so that NOT IN runs as a plain SubPlan which is read through (spilt to a file) for every payment",
    mends="raise work_mem (16-64MB), so that the subplan is hashed (NOT EXISTS would help this statement too)",
    settings={"work_mem": "256kB"}, mend_settings={"work_mem": "32MB"},
    spoil="""
CREATE TABLE payments (id int PRIMARY KEY, merchant_id int NOT NULL, amount numeric(10,2) NOT NULL, paid_on date NOT NULL);
INSERT INTO payments SELECT i, i % 400, (i % 9000) / 10.0, date '2024-01-01' + i / 100 FROM generate_series(1, 200000) i;
CREATE INDEX payments_paid_on_idx ON payments (paid_on);
CREATE TABLE settlements (payment_id int NOT NULL, settled_at timestamptz NOT NULL DEFAULT now(), batch int NOT NULL);
INSERT INTO settlements SELECT i, now(), i / 25000 FROM generate_series(1, 200000) i WHERE i % 50 <> 0;
CREATE INDEX settlements_batch_idx ON settlements (batch);
VACUUM ANALYZE payments; VACUUM ANALYZE settlements;
""",
    load=r"""
\set d random(1, 249)
SELECT merchant_id, sum(amount) FROM payments WHERE paid_on = date '2024-01-01' + (:d)::int
   AND id NOT IN (SELECT payment_id FROM settlements WHERE batch = 0) GROUP BY merchant_id;
""",
)

entry(
    id="disk-era-page-cost", area="settings",  # factor 3.7
    cause="random_page_cost is 4 and effective_cache_size 64MB, as for spinning disks and a small machine, although everything is cached or on SSD: the "
          "planner takes a sequential scan with a hash join where the index would fetch a few thousand rows",
    mends="set random_page_cost to about 1.1 and effective_cache_size to what the machine can cache",
    settings={"random_page_cost": "4", "effective_cache_size": "64MB"}, mend_settings={},
    spoil="""
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, placed_at timestamptz NOT NULL, status text NOT NULL);
INSERT INTO orders SELECT i, 1 + (i * 7919::bigint) % 300, now() - i * interval '3 minutes', 'shipped' FROM generate_series(1, 200000) i;
CREATE INDEX orders_customer_id_idx ON orders (customer_id);
CREATE TABLE order_lines (id bigint PRIMARY KEY, order_id int NOT NULL, product_id int NOT NULL, quantity int NOT NULL, price numeric(10,2) NOT NULL);
INSERT INTO order_lines SELECT i, 1 + (i * 104729::bigint) % 200000, i % 3000, 1 + i % 5, (i % 700) / 7.0 FROM generate_series(1, 800000) i;
CREATE INDEX order_lines_order_id_idx ON order_lines (order_id);
VACUUM ANALYZE orders; VACUUM ANALYZE order_lines;
""",
    load=r"""
\set c random(1, 300)
SELECT sum(l.quantity * l.price) FROM orders o JOIN order_lines l ON l.order_id = o.id WHERE o.customer_id = :c;
""",
)

entry(
    id="jit-on-short-reports", area="settings",  # factor 4.0
    cause="jit is on: the planner overestimates the dashboard's cost (100 lines assumed in each jsonb array, 1000 tags in each list), so that each execution compiles and optimizes "
          "machine code for hundreds of milliseconds in order to save nothing",
    mends="turn jit off (or raise jit_above_cost / jit_optimize_above_cost far up)",
    settings={"jit": "on"}, mend_settings={"jit": "off"},
    spoil="""
CREATE TABLE invoices (id int PRIMARY KEY, branch_id int NOT NULL, issued_on date NOT NULL, lines jsonb NOT NULL);
INSERT INTO invoices SELECT i, i % 80, date '2024-01-01' + i % 365,
  jsonb_build_array(jsonb_build_object('sku', i % 900, 'qty', 1 + i % 4, 'price', i % 77, 'tags', 'new,sale'), jsonb_build_object('sku', i % 500, 'qty', 2, 'price', i % 31, 'tags', 'b2b'))
  FROM generate_series(1, 40000) i;
CREATE INDEX invoices_branch_idx ON invoices (branch_id);
VACUUM ANALYZE invoices;
""",
    load=r"""
\set b random(0, 79)
SELECT t.tag, count(*) AS n, sum(l.qty) AS qty, sum(l.qty * l.price) AS value, avg(CASE WHEN l.price > 50 THEN l.price END) AS dear
  FROM invoices i CROSS JOIN LATERAL jsonb_to_recordset(i.lines) AS l(sku int, qty int, price numeric, tags text)
  CROSS JOIN LATERAL regexp_split_to_table(l.tags, ',') AS t(tag)
 WHERE i.branch_id = :b AND l.sku > 10 GROUP BY t.tag ORDER BY value DESC LIMIT 10;
""",
)

entry(
    id="auto-explain-left-on", area="settings",  # factor 3.6
    cause="after an investigation auto_explain was left on with log_min_duration 0, log_analyze and log_timing (and log_duration): every statement is timed "
          "node by node and its plan is written to the log",
    mends="remove auto_explain or set auto_explain.log_min_duration to seconds (log_timing off, sample_rate small), log_duration off",
    preload="auto_explain,pg_stat_statements", mend_preload="pg_stat_statements",
    settings={"auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on", "auto_explain.log_verbose": "on",
              "auto_explain.log_nested_statements": "on", "log_duration": "on", "log_line_prefix": "%m [%p] %q%u@%d "}, mend_settings={},
    spoil="""
CREATE TABLE warehouses (id int PRIMARY KEY, name text NOT NULL);
INSERT INTO warehouses SELECT i, 'Warehouse ' || i FROM generate_series(1, 20) i;
CREATE TABLE stock (product_id int NOT NULL, warehouse_id int NOT NULL REFERENCES warehouses, quantity int NOT NULL, PRIMARY KEY (product_id, warehouse_id));
INSERT INTO stock SELECT i / 5, 1 + i % 20, i % 50 FROM generate_series(1, 200000) i;
CREATE FUNCTION free_stock(product int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE w record; n bigint := 0;
BEGIN
  FOR w IN SELECT id FROM warehouses LOOP
    n := n + coalesce((SELECT quantity FROM stock WHERE product_id = product AND warehouse_id = w.id), 0);
  END LOOP;
  RETURN n;
END $$;
VACUUM ANALYZE stock; VACUUM ANALYZE warehouses;
""",
    load=r"""
\set p random(1, 39999)
SELECT free_stock(:p);
""",
)

# ---------------------------------------------------------------- statements

entry(
    id="date-cast-in-where", area="statements",  # factor 120.0
    cause="the predicate casts the indexed timestamp column to a date (created_at::date = ...), so that the index on created_at can't serve it and "
          "the whole table is scanned",
    mends="write it as a range (created_at >= day AND created_at < day + 1), or create an index on the expression",
    spoil="""
CREATE TABLE payments (id bigint PRIMARY KEY, merchant_id int NOT NULL, amount numeric(10,2) NOT NULL, created_at timestamp NOT NULL);
INSERT INTO payments SELECT i, i % 500, (i % 10000) / 100.0, timestamp '2024-01-01' + i * interval '1 minute' FROM generate_series(1, 500000) i;
CREATE INDEX payments_created_at_idx ON payments (created_at);
VACUUM ANALYZE payments;
""",
    load=r"""
\set d random(0, 330)
SELECT count(*), sum(amount) FROM payments WHERE created_at::date = date '2024-01-01' + (:d)::int;
""",
    mend_load=r"""
\set d random(0, 330)
SELECT count(*), sum(amount) FROM payments WHERE created_at >= date '2024-01-01' + (:d)::int AND created_at < date '2024-01-01' + (:d)::int + 1;
""",
)

entry(
    id="deep-offset-paging", area="statements",  # factor 173.5
    cause="an export pages through the table with LIMIT/OFFSET: each page reads and throws away all rows of the pages before it",
    mends="keyset pagination: remember the last key (WHERE (created_at, id) > (...) ORDER BY ... LIMIT 50), or a cursor",
    spoil="""
CREATE TABLE articles (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL);
INSERT INTO articles SELECT i, 'Article ' || i, repeat(md5(i::text), 5) FROM generate_series(1, 300000) i;
VACUUM ANALYZE articles;
""",
    load=r"""
\set p random(100, 5999)
SELECT id, title, body FROM articles ORDER BY id LIMIT 50 OFFSET :p * 50;
""",
    mend_load=r"""
\set p random(100, 5999)
SELECT id, title, body FROM articles WHERE id > :p * 50 ORDER BY id LIMIT 50;
""",
)

entry(
    id="or-across-tables", area="statements",  # factor 250.6
    cause="the search has an OR of conditions on two joined tables (contact's mail or company's tax number): no index can serve it, both tables are "
          "scanned and joined whole",
    mends="split it into two indexed branches with UNION",
    spoil="""
CREATE TABLE companies (id int PRIMARY KEY, name text NOT NULL, tax_no text NOT NULL);
INSERT INTO companies SELECT i, 'Company ' || i, 'T' || lpad(i::text, 9, '0') FROM generate_series(1, 8000) i;
CREATE INDEX companies_tax_no_idx ON companies (tax_no);
CREATE TABLE contacts (id int PRIMARY KEY, company_id int NOT NULL REFERENCES companies, email text NOT NULL, phone text);
INSERT INTO contacts SELECT i, 1 + i % 8000, 'user' || i || '@example.com', '+49' || i FROM generate_series(1, 40000) i;
CREATE INDEX contacts_company_id_idx ON contacts (company_id);
CREATE INDEX contacts_email_idx ON contacts (email);
VACUUM ANALYZE companies; VACUUM ANALYZE contacts;
""",
    load=r"""
\set k random(1, 8000)
SELECT c.id, c.email, f.name FROM contacts c JOIN companies f ON f.id = c.company_id
 WHERE c.email = 'user' || :k || '@example.com' OR f.tax_no = 'T' || lpad((:k)::text, 9, '0');
""",
    mend_load=r"""
\set k random(1, 8000)
SELECT c.id, c.email, f.name FROM contacts c JOIN companies f ON f.id = c.company_id WHERE c.email = 'user' || :k || '@example.com'
UNION
SELECT c.id, c.email, f.name FROM contacts c JOIN companies f ON f.id = c.company_id WHERE f.tax_no = 'T' || lpad((:k)::text, 9, '0');
""",
)

entry(
    id="order-by-limit-trap", area="statements",  # factor 442.8
    cause="ORDER BY id DESC LIMIT 10 with a filter on a tenant whose rows are all old: the planner walks the primary key backwards, hoping to meet ten "
          "matches soon, and filters nearly the whole table instead of using the index on tenant_id",
    mends="index (tenant_id, id), or rewrite the ordering (ORDER BY id + 0) so that the tenant's index is used",
    spoil="""
CREATE TABLE events (id bigint PRIMARY KEY, tenant_id int NOT NULL, kind text NOT NULL, payload text NOT NULL);
INSERT INTO events SELECT i, CASE WHEN i <= 30000 THEN i % 20 ELSE 20 + i % 80 END, 'kind ' || i % 7, repeat('e', 100) FROM generate_series(1, 150000) i;
CREATE INDEX events_tenant_id_idx ON events (tenant_id);
VACUUM ANALYZE events;
""",
    load=r"""
\set t random(0, 19)
SELECT id, kind, payload FROM events WHERE tenant_id = :t ORDER BY id DESC LIMIT 10;
""",
    mend="CREATE INDEX events_tenant_id_id_idx ON events (tenant_id, id);",
)

# ---------------------------------------------------------------- schema

entry(
    id="foreign-key-unindexed", area="schema",  # factor 97.3
    cause="the foreign key sessions.user_id has no index: each deleted user makes the cascade scan the whole sessions table",
    mends="CREATE INDEX ON sessions (user_id)",
    spoil="""
CREATE TABLE users (id int PRIMARY KEY, email text NOT NULL);
INSERT INTO users SELECT i, 'user' || i || '@example.com' FROM generate_series(1, 200000) i;
CREATE TABLE sessions (id bigint PRIMARY KEY, user_id int NOT NULL REFERENCES users ON DELETE CASCADE, agent text NOT NULL, seen_at timestamptz NOT NULL);
INSERT INTO sessions SELECT i, 1 + (i * 7919::bigint) % 200000, 'Mozilla/5.0', now() FROM generate_series(1, 500000) i;
VACUUM ANALYZE users; VACUUM ANALYZE sessions;
""",
    load=r"""
\set u random(1, 200000)
DELETE FROM users WHERE id = :u;
""",
    mend="CREATE INDEX sessions_user_id_idx ON sessions (user_id);",
)

entry(
    id="too-many-indexes", area="schema",  # factor 3.3
    cause="the tickets table carries sixteen secondary indexes, most never read and one on the column each update changes: no update is HOT, each one writes "
          "to all indexes and to the WAL for each of them",
    mends="drop the unused and redundant indexes (idx_scan = 0)",
    spoil="""
CREATE TABLE tickets (id int PRIMARY KEY, subject text NOT NULL, customer_id int NOT NULL, agent_id int NOT NULL, queue_id int NOT NULL, priority int NOT NULL,
  channel text NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL) WITH (fillfactor = 50);
INSERT INTO tickets SELECT i, 'Subject ' || md5(i::text), (i * 7919::bigint) % 9000, (i * 31) % 300, i % 12, i % 5, 'mail', now() - i * interval '1 s', now()
  FROM generate_series(1, 60000) i;
CREATE INDEX tickets_subject_idx ON tickets (subject); CREATE INDEX tickets_subject_lower_idx ON tickets (lower(subject));
CREATE INDEX tickets_customer_idx ON tickets (customer_id); CREATE INDEX tickets_customer_created_idx ON tickets (customer_id, created_at);
CREATE INDEX tickets_customer_subject_idx ON tickets (customer_id, subject); CREATE INDEX tickets_agent_idx ON tickets (agent_id);
CREATE INDEX tickets_agent_customer_idx ON tickets (agent_id, customer_id); CREATE INDEX tickets_agent_created_idx ON tickets (agent_id, created_at);
CREATE INDEX tickets_agent_subject_idx ON tickets (agent_id, subject); CREATE INDEX tickets_queue_idx ON tickets (queue_id, priority, subject);
CREATE INDEX tickets_queue_created_idx ON tickets (queue_id, created_at); CREATE INDEX tickets_priority_idx ON tickets (priority, created_at);
CREATE INDEX tickets_channel_idx ON tickets (channel, subject); CREATE INDEX tickets_created_idx ON tickets (created_at);
CREATE INDEX tickets_updated_idx ON tickets (updated_at); CREATE INDEX tickets_updated_agent_idx ON tickets (updated_at, agent_id);
VACUUM ANALYZE tickets;
CHECKPOINT;
""",
    load=r"""
\set t random(1, 59900)
UPDATE tickets SET updated_at = clock_timestamp() WHERE id = ANY (ARRAY(SELECT :t + (i * 991) % 100 FROM generate_series(1, 40) i));
""", protocol="simple", clients=2,
    mend="""
DROP INDEX tickets_subject_idx, tickets_subject_lower_idx, tickets_customer_idx, tickets_customer_subject_idx, tickets_agent_idx, tickets_agent_customer_idx,
  tickets_agent_subject_idx, tickets_queue_idx, tickets_queue_created_idx, tickets_priority_idx, tickets_channel_idx, tickets_created_idx,
  tickets_updated_idx, tickets_updated_agent_idx;
VACUUM tickets; CHECKPOINT;
""",
)

entry(
    id="autovacuum-disabled-table", area="schema",  # factor 5.1
    cause="autovacuum was disabled for the shipments table (a storage parameter set for a bulk load and forgotten): it consists of dead rows nearly "
          "alone, and each scan reads them all",
    mends="ALTER TABLE ... RESET (autovacuum_enabled); VACUUM FULL (or pg_repack) once",
    spoil="""
CREATE TABLE shipments (id int PRIMARY KEY, state text NOT NULL, carrier text NOT NULL, weight int NOT NULL) WITH (autovacuum_enabled = false);
INSERT INTO shipments SELECT i, 'open', 'carrier ' || i % 5, i % 100 FROM generate_series(1, 12000) i;
ANALYZE shipments;
SELECT format('UPDATE shipments SET weight = (weight + 1) %% 100, state = %L', CASE WHEN i = 40 THEN 'open' ELSE 'held' END) FROM generate_series(1, 40) i \\gexec
""".replace("\\\\", "\\"),
    load="""
SELECT carrier, count(*), sum(weight) FROM shipments WHERE state = 'open' GROUP BY carrier;
""",
    mend="ALTER TABLE shipments RESET (autovacuum_enabled); VACUUM (FULL, ANALYZE) shipments;",
)

entry(
    id="too-many-partitions", area="schema",  # factor 30.6
    cause="the readings are partitioned by day (a year of partitions) although queries ask by device without a time: each query plans, locks and probes "
          "365 partitions",
    mends="coarser partitions (by month or quarter), or none; or partition by what the queries filter on",
    spoil="""
CREATE TABLE readings (device_id int NOT NULL, read_at timestamp NOT NULL, value float8 NOT NULL) PARTITION BY RANGE (read_at);
SELECT format('CREATE TABLE readings_%s PARTITION OF readings FOR VALUES FROM (%L) TO (%L)', to_char(d, 'YYYYMMDD'), d, d + interval '1 day')
  FROM generate_series(timestamp '2024-01-01', timestamp '2024-12-30', interval '1 day') d \\gexec
CREATE INDEX readings_device_idx ON readings (device_id, read_at);
INSERT INTO readings SELECT (i * 7919::bigint) % 4000, timestamp '2024-01-01' + i * interval '100 s', i FROM generate_series(1, 314000) i;
VACUUM ANALYZE readings;
""".replace("\\\\", "\\"),
    load=r"""
\set d random(0, 3999)
SELECT max(read_at), avg(value) FROM readings WHERE device_id = :d;
""",
    mend="""
ALTER TABLE readings RENAME TO readings_old;
CREATE TABLE readings (device_id int NOT NULL, read_at timestamp NOT NULL, value float8 NOT NULL) PARTITION BY RANGE (read_at);
SELECT format('CREATE TABLE readings_q%s PARTITION OF readings FOR VALUES FROM (%L) TO (%L)', to_char(d, 'YYYYMM'), d, d + interval '3 months')
  FROM generate_series(timestamp '2024-01-01', timestamp '2024-12-01', interval '3 months') d \\gexec
INSERT INTO readings SELECT * FROM readings_old;
DROP TABLE readings_old;
CREATE INDEX readings_device_idx ON readings (device_id, read_at);
VACUUM ANALYZE readings;
""".replace("\\\\", "\\"),
)

# ---------------------------------------------------------------- workload

entry(
    id="connection-per-request", area="workload",  # factor 291.6
    cause="the application (PHP style) opens a new connection for each request, and the server forks and initializes a backend for each short query",
    mends="a connection pool: pgbouncer or the framework's persistent connections",
    args=["-C"], mend_args=[],
    spoil="""
CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, price numeric(10,2) NOT NULL);
INSERT INTO products SELECT i, 'Product ' || i, (i % 1000) / 10.0 FROM generate_series(1, 100000) i;
VACUUM ANALYZE products; GRANT SELECT ON products TO app;
""", role="app",
    load=r"""
\set p random(1, 100000)
SELECT name, price FROM products WHERE id = :p;
""",
)

entry(
    id="idle-in-transaction-snapshot", area="workload",  # factor 41.6
    cause="a session (an admin tool with autocommit off) has been idle in transaction with its snapshot: dead versions of the often updated counters "
          "can't be removed by pruning or vacuum, and each access walks through all of them",
    mends="end that session (COMMIT, idle_in_transaction_session_timeout), then vacuum the table",
    spoil=SHELL + r"""
CREATE TABLE page_counters (page_id int PRIMARY KEY, hits bigint NOT NULL, last_hit timestamptz);
INSERT INTO page_counters SELECT i, 0, now() FROM generate_series(1, 200) i;
CREATE TABLE pages (id int PRIMARY KEY, title text);
INSERT INTO pages SELECT i, 'Page ' || i FROM generate_series(1, 200) i;
VACUUM ANALYZE page_counters; VACUUM ANALYZE pages;
SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1) AS pmpid \gset
\setenv PM :pmpid
\! cd /; ((echo 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM page_counters LIMIT 5;'; while kill -0 $PM; do sleep 0.5; done) | PGAPPNAME=DBeaver psql -X -q) </dev/null >/dev/null 2>&1 &
SELECT pg_sleep(1);
SELECT 'UPDATE page_counters SET hits = hits + 1, last_hit = now()' FROM generate_series(1, 400) \gexec
VACUUM ANALYZE page_counters;
""",
    load=r"""
\set p random(1, 200)
UPDATE page_counters SET hits = hits + 1, last_hit = now() WHERE page_id = :p;
SELECT p.title, c.hits FROM pages p JOIN page_counters c ON c.page_id = p.id ORDER BY c.hits DESC LIMIT 5;
""",
    mend="""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'DBeaver';
SELECT pg_sleep(0.3);
VACUUM (FULL, ANALYZE) page_counters;
""",
)

entry(
    id="row-locked-during-call", area="workload",  # factor 8.3
    cause="the checkout locks the stock row first and calls the payment provider (20 ms) within the transaction: the buyers of the same item queue "
          "for the row lock during each other's calls",
    mends="make the external call outside of the transaction (or lock the stock row last), so that the lock is held for the update alone",
    clients=10,
    spoil="""
CREATE TABLE stock (item_id int PRIMARY KEY, quantity int NOT NULL) WITH (fillfactor = 50);
INSERT INTO stock SELECT i, 1000000 FROM generate_series(1, 500) i;
CREATE TABLE purchases (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item_id int NOT NULL REFERENCES stock, bought_at timestamptz NOT NULL DEFAULT now());
VACUUM ANALYZE stock;
""",
    load=r"""
\set item random_zipfian(1, 500, 2.5)
BEGIN;
UPDATE stock SET quantity = quantity - 1 WHERE item_id = :item;
\sleep 20 ms
INSERT INTO purchases (item_id) VALUES (:item);
COMMIT;
""",
    mend_load=r"""
\set item random_zipfian(1, 500, 2.5)
\sleep 20 ms
BEGIN;
UPDATE stock SET quantity = quantity - 1 WHERE item_id = :item;
INSERT INTO purchases (item_id) VALUES (:item);
COMMIT;
""",
)

# ---------------------------------------------------------------- replication

entry(
    id="distant-synchronous-standby", area="replication",  # factor 12.1
    cause="the standby at the disaster recovery site, 20 ms of round trip away, is the synchronous standby: each commit waits for the network (SyncRep)",
    mends="make the distant standby asynchronous (synchronous_standby_names empty or a near standby; or synchronous_commit = local for these transactions)",
    spoil=r"""
CREATE TABLE bookings (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, room_id int NOT NULL, booked_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE rooms (id int PRIMARY KEY, bookings int NOT NULL) WITH (fillfactor = 50);
INSERT INTO rooms SELECT i, 0 FROM generate_series(1, 5000) i;
VACUUM ANALYZE rooms;
""" + STANDBY + r"""
SELECT $py$
import os, queue, socket, sys, threading, time
near, far, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
def pump(a, b):
    q = queue.Queue()
    def deliver():
        while True:
            when, data = q.get()
            time.sleep(max(0, when - time.time()))
            try:
                b.sendall(data)
            except OSError:
                return
            if not data:
                b.close()
                return
    threading.Thread(target=deliver, daemon=True).start()
    data = b"x"
    while data:
        try:
            data = a.recv(65536)
        except OSError:
            data = b""
        q.put((time.time() + 0.010, data))
def serve():
    s = socket.socket(socket.AF_UNIX)
    s.bind(far); os.chmod(far, 0o777); s.listen(5)
    while True:
        c, _ = s.accept()
        d = socket.socket(socket.AF_UNIX); d.connect(near)
        for x, y in ((c, d), (d, c)):
            threading.Thread(target=pump, args=(x, y), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
while os.path.exists("/proc/%d" % pid):
    time.sleep(0.5)
$py$ \g (tuples_only format=unaligned) :sb/wan.py
\! mkdir $SB/wan; cd /; (python3 $SB/wan.py $PGHOST/.s.PGSQL.5432 $SB/wan/.s.PGSQL.5432 $PM) </dev/null >/dev/null 2>&1 &
\! cd /; sleep 1; $AS pg_ctl -D $SB/data -l $SB/log -w -o "-k $SB/s -c primary_conninfo='host=$SB/wan user=postgres application_name=dr_site' -c synchronous_standby_names=''" start >/dev/null 2>&1
DO $$ BEGIN FOR i IN 1..100 LOOP EXIT WHEN EXISTS (SELECT FROM pg_stat_get_wal_senders() WHERE state = 'streaming'); PERFORM pg_sleep(0.1); END LOOP; END $$;
ALTER SYSTEM SET synchronous_standby_names = 'dr_site';
SELECT pg_reload_conf();
""",
    load=r"""
\set r random(1, 5000)
BEGIN;
INSERT INTO bookings (room_id) VALUES (:r);
UPDATE rooms SET bookings = bookings + 1 WHERE id = :r;
COMMIT;
""",
    mend="ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf(); SELECT pg_sleep(0.5);",
)

entry(
    id="abandoned-logical-slot", area="replication",  # factor 7.2
    cause="a logical replication slot (of a CDC connector that was removed) stays behind: its catalog_xmin keeps all dead catalog rows, those of the "
          "temporary tables which a job creates all the time, and the ORM, which reads the schema for each request, reads past ever more of them",
    mends="drop the abandoned slot (pg_drop_replication_slot), then vacuum the catalogs",
    settings={"wal_level": "logical"}, role="app",
    spoil="""
CREATE TABLE cart_items (cart_id int NOT NULL, product_id int NOT NULL, quantity int NOT NULL);
INSERT INTO cart_items SELECT i / 5, i % 900, 1 + i % 3 FROM generate_series(1, 100000) i;
CREATE INDEX cart_items_cart_id_idx ON cart_items (cart_id);
VACUUM ANALYZE cart_items; GRANT SELECT ON cart_items TO app; GRANT TEMPORARY ON DATABASE spoilt TO app;
SELECT pg_create_logical_replication_slot('debezium', 'test_decoding');
SET synchronous_commit = off;
DO $$ BEGIN FOR i IN 1..30000 LOOP
  EXECUTE format('CREATE TEMP TABLE tmp_cart_%s (product_id int, quantity int)', i); EXECUTE format('DROP TABLE tmp_cart_%s', i); COMMIT;
END LOOP; END $$;
VACUUM pg_class; VACUUM pg_attribute;
""",
    load=r"""
\set c random(1, 19999)
SELECT sum(quantity) FROM cart_items WHERE cart_id = :c;
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid WHERE n.nspname = 'public' AND c.relkind = 'r' AND a.attnum > 0;
""",
    beside="""
CREATE TEMP TABLE tmp_cart (product_id int, quantity int);
INSERT INTO tmp_cart SELECT product_id, quantity FROM cart_items WHERE cart_id = 77;
DROP TABLE tmp_cart;
SELECT pg_sleep(0.1);
""",
    mend="""
SELECT pg_drop_replication_slot('debezium');
VACUUM FULL pg_class; VACUUM FULL pg_attribute; VACUUM FULL pg_type; VACUUM FULL pg_depend;
""",
)

entry(
    id="standby-feedback-long-report", area="replication",  # factor 31.5
    cause="the reporting standby has hot_standby_feedback on and a report there has had its transaction open for hours: its xmin keeps the dead rows of the "
          "primary's busy queue table from being vacuumed, and each poll reads past all of them",
    mends="end the report's transaction on the standby (or turn hot_standby_feedback off, limit its transactions), then vacuum the queue",
    spoil=r"""
CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, payload text NOT NULL);
INSERT INTO outbox (topic, payload) SELECT 'topic ' || i % 5, repeat('p', 60) FROM generate_series(1, 1000) i;
ANALYZE outbox;
""" + STANDBY + r"""
\! cd /; $AS pg_ctl -D $SB/data -l $SB/log -w -o "-k $SB/s -c primary_conninfo='host=$PGHOST user=postgres application_name=reporting' -c hot_standby_feedback=on -c wal_receiver_status_interval=1s -c max_standby_streaming_delay=-1" start >/dev/null 2>&1
\! cd /; ((echo 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox;'; while kill -0 $PM; do sleep 0.5; done) | PGHOST=$SB/s psql -X -q) </dev/null >/dev/null 2>&1 &
DO $$ BEGIN FOR i IN 1..100 LOOP EXIT WHEN EXISTS (SELECT FROM pg_stat_get_activity(NULL) WHERE backend_xmin IS NOT NULL AND backend_type = 'walsender');
  PERFORM pg_sleep(0.1); END LOOP; END $$;
INSERT INTO outbox (topic, payload) SELECT 'topic ' || i % 5, repeat('p', 60) FROM generate_series(1, 120000) i;
DELETE FROM outbox WHERE id <= 120000;
VACUUM ANALYZE outbox;
""",
    load=r"""
BEGIN;
SELECT id, topic, payload FROM outbox ORDER BY id LIMIT 1;
INSERT INTO outbox (topic, payload) VALUES ('topic 1', repeat('p', 60));
COMMIT;
""",
    mend=r"""
SELECT '/tmp/sb' || split_part(pg_read_file('postmaster.pid'), E'\n', 1) || '/s' AS sb \gset
\setenv SB :sb
\! cd /; psql -X -q -h $SB -U postgres -d spoilt -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'idle in transaction'" >/dev/null 2>&1
SELECT pg_sleep(2.5);
VACUUM (FULL, ANALYZE) outbox;
""",
)

# ---------------------------------------------------------------- machine

entry(
    id="container-cpu-limit", area="machine",  # factor 7.2
    cause="the server runs in a control group (a container's CPU limit) with a quota of 0.2 CPUs: its processes are throttled most of the time "
          "while the machine is idle",
    mends="raise or remove the cgroup's CPU quota (cpu.cfs_quota_us / cpu.max, the container's limit)",
    spoil=r"""
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, amount numeric(10,2) NOT NULL);
INSERT INTO orders SELECT i, i % 2000, (i % 700) / 7.0 FROM generate_series(1, 200000) i;
CREATE INDEX orders_customer_id_idx ON orders (customer_id);
VACUUM ANALYZE orders;
SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1) AS pmpid \gset
\setenv PM :pmpid
\! G=/sys/fs/cgroup/cpu/postgres_$PM; mkdir -p $G; echo 100000 > $G/cpu.cfs_period_us; echo 20000 > $G/cpu.cfs_quota_us; echo $PM > $G/cgroup.procs; for p in $(ps -o pid= --ppid $PM); do echo $p > $G/cgroup.procs; done 2>/dev/null
\! P=$PM; (while kill -0 $P; do sleep 0.5; done; sleep 0.5; rmdir /sys/fs/cgroup/cpu/postgres_$P) </dev/null >/dev/null 2>&1 &
""",
    load=r"""
\set c random(0, 1999)
SELECT count(*), sum(amount) FROM orders WHERE customer_id = :c;
""",
    mend=r"""
SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1) AS pmpid \gset
\setenv PM :pmpid
\! echo -1 > /sys/fs/cgroup/cpu/postgres_$PM/cpu.cfs_quota_us
""",
)

entry(
    id="compression-beside-server", area="machine",  # factor 5.5
    cause="another program has the CPUs: the backup job compresses dumps on the database server with sixteen parallel xz processes at normal priority",
    mends="move the compression to another host or another time, or limit it (fewer processes, nice, a cgroup)",
    spoil="""
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, amount numeric(10,2) NOT NULL);
INSERT INTO orders SELECT i, i % 2000, (i % 700) / 7.0 FROM generate_series(1, 200000) i;
CREATE INDEX orders_customer_id_idx ON orders (customer_id);
VACUUM ANALYZE orders;
""",
    load=r"""
\set c random(0, 1999)
SELECT count(*), sum(amount) FROM orders WHERE customer_id = :c;
""",
    beside=SHELL + r"""
\setenv PATH /usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin
\! export P=$$; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do setsid sh -c 'pg_dump -t orders | xz -6 >/dev/null & while kill -0 $P && kill -0 $!; do sleep 0.1; done; kill $!' >/dev/null 2>&1 & done; wait
""",
    mend_beside="SELECT pg_sleep(1);",
)
