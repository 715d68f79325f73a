"""Twenty spoilt servers: the causes that an author, the third of three, meets most often.

For bench/spoilt.py PGASSAY --entries spoilt_blind11. The keys are those of spoilt_blind.py. The author knew neither what
pgassay looks for nor what was tried before, unlike those of spoilt_blind2.py to spoilt_blind8.py, who were to find other
causes each time; so what is common is here again. `factor` is what mending gained in the author's trials, with pgbench on
two CPUs that others used as well (PostgreSQL 15).
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"
# The same for the server's own directory, its programs and the account that it runs under.
SERVER = SHELL + """SELECT current_setting('data_directory') AS datadir \\gset
\\setenv DATADIR :datadir
\\setenv BIN /usr/lib/postgresql/15/bin
\\setenv AS 'setpriv --reuid postgres --regid postgres --clear-groups'
"""

# ---------------------------------------------------------------- settings

entry(
    id="work-mem-too-small", area="settings",
    # factor 7.2
    cause="work_mem was lowered to 64kB after an out-of-memory incident; the catalogue filter's bitmaps no longer fit and become lossy, so that all rows of most pages are checked again",
    mends="raise work_mem (some 16 to 64MB, perhaps only for the reporting role)",
    settings={"work_mem": "64kB"},
    spoil="""
CREATE TABLE catalogue (id int PRIMARY KEY, name text NOT NULL, attributes jsonb NOT NULL);
INSERT INTO catalogue SELECT i, 'product ' || md5(i::text), jsonb_build_object('colour', (i::bigint * 48271 % 2147483647) % 25,
  'size', (i::bigint * 69621 % 2147483647) % 40, 'brand', 'brand ' || i % 300, 'text', repeat(md5(i::text), 7)) FROM generate_series(1, 100000) i;
CREATE INDEX catalogue_attributes ON catalogue USING gin (attributes jsonb_path_ops);
VACUUM ANALYZE catalogue;
""",
    load="""
\\set colour random(0, 24)
SELECT count(*), max(name) FROM catalogue WHERE attributes @> jsonb_build_object('colour', :colour::int);
""",
    mend_settings={"work_mem": "64MB"}, time=15,
)

entry(
    id="nestloop-switched-off", area="settings",
    # factor 123.5
    cause="enable_nestloop = off was left in postgresql.conf after one report's bad plan: the short look-ups of the shop read whole tables for hash joins",
    mends="enable_nestloop back on (the default); mend the one report by itself",
    settings={"enable_nestloop": "off"},
    spoil="""
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, placed_at timestamp NOT NULL);
INSERT INTO orders SELECT i, (i::bigint * 48271 % 2147483647) % 12000, timestamp '2024-01-01' + i * interval '4 min' FROM generate_series(1, 100000) i;
CREATE INDEX ON orders (customer_id);
CREATE TABLE order_lines (id int PRIMARY KEY, order_id int NOT NULL, sku text NOT NULL, quantity int NOT NULL);
INSERT INTO order_lines SELECT i, i % 100000 + 1, 'SKU-' || i % 5000, i % 7 + 1 FROM generate_series(1, 300000) i;
CREATE INDEX ON order_lines (order_id);
VACUUM ANALYZE orders; VACUUM ANALYZE order_lines;
""",
    load="""
\\set customer random(0, 11999)
SELECT o.id, o.placed_at, l.sku, l.quantity FROM orders o JOIN order_lines l ON l.order_id = o.id
WHERE o.customer_id = :customer ORDER BY o.placed_at DESC, l.id;
""",
    mend_settings={},
)

entry(
    id="random-page-cost-default", area="settings",
    # factor 4.4
    cause="random_page_cost 4 (made for spinning disks) and a small effective_cache_size on a machine whose data lie in memory and on SSD: "
          "the planner reads the whole table instead of going through the index",
    mends="random_page_cost to 1.1 or so, effective_cache_size to what the machine caches",
    settings={"random_page_cost": "4", "effective_cache_size": "64MB"},
    spoil="""
CREATE TABLE orders (id int PRIMARY KEY, store_id int NOT NULL, placed_at timestamp NOT NULL);
INSERT INTO orders SELECT i, (i::bigint * 48271 % 2147483647) % 160, timestamp '2024-01-01' + i * interval '3 min' FROM generate_series(1, 240000) i;
CREATE INDEX ON orders (store_id);
CREATE TABLE order_items (order_id int NOT NULL, line int NOT NULL, product_id int NOT NULL, quantity int NOT NULL, price numeric(8,2) NOT NULL);
INSERT INTO order_items SELECT (i::bigint * 69621 % 2147483647) % 240000 + 1, i % 4, i % 3000, i % 7, i % 100 FROM generate_series(1, 700000) i;
CREATE INDEX ON order_items (order_id);
VACUUM ANALYZE orders; VACUUM ANALYZE order_items;
""",
    load="""
\\set store random(0, 159)
SELECT count(*), sum(i.quantity * i.price) FROM orders o JOIN order_items i ON i.order_id = o.id WHERE o.store_id = :store;
""",
    mend_settings={}, time=15,
)

entry(
    id="jit-short-queries", area="settings",
    # factor 13.3
    cause="JIT at its default thresholds compiles a query of a few milliseconds whose cost the planner overestimates (a recursive folder tree), at every execution",
    mends="jit = off, or jit_above_cost much higher",
    settings={"jit": "on"},
    spoil="""
CREATE TABLE folders (id int PRIMARY KEY, parent_id int, owner_id int NOT NULL, name text NOT NULL);
INSERT INTO folders SELECT i, CASE WHEN i > 20000 THEN (i - 20001) / 10 + 1 END, i % 1000, 'folder ' || i FROM generate_series(1, 60000) i;
CREATE INDEX ON folders (parent_id); CREATE INDEX ON folders (owner_id);
CREATE TABLE documents (id int PRIMARY KEY, folder_id int NOT NULL, bytes bigint NOT NULL, deleted_at timestamptz, kind text NOT NULL);
INSERT INTO documents SELECT i, i % 60000 + 1, i % 100000, CASE WHEN i % 9 = 0 THEN now() END, 'kind ' || i % 5 FROM generate_series(1, 300000) i;
CREATE INDEX ON documents (folder_id);
VACUUM ANALYZE folders; VACUUM ANALYZE documents;
""",
    load="""
\\set owner random(0, 999)
WITH RECURSIVE tree AS (
  SELECT id, owner_id FROM folders WHERE owner_id = :owner
  UNION ALL SELECT f.id, f.owner_id FROM folders f JOIN tree t ON f.parent_id = t.id)
SELECT t.id, (SELECT sum(d.bytes) FROM documents d WHERE d.folder_id = t.id AND d.deleted_at IS NULL) AS bytes,
  (SELECT count(*) FROM documents d WHERE d.folder_id = t.id AND d.kind = 'kind 3') AS sheets
FROM tree t ORDER BY 2 DESC NULLS LAST LIMIT 20;
""",
    mend_settings={"jit": "off"}, time=15,
)

# ---------------------------------------------------------------- statements

entry(
    id="date-cast-predicate", area="statements",
    # factor 125.5
    cause="the day's bookings are looked for with created_at::date = day: the cast keeps the index on created_at from being used, the table is read whole",
    mends="a range instead (created_at >= day AND created_at < day + 1), or an index on the expression",
    spoil="""
CREATE TABLE bookings (id bigserial PRIMARY KEY, guest_id int NOT NULL, created_at timestamp NOT NULL, total numeric(10,2) NOT NULL, state text NOT NULL);
INSERT INTO bookings (guest_id, created_at, total, state)
SELECT i % 9000, timestamp '2023-01-01' + i * interval '3 min', i % 700, 'confirmed' FROM generate_series(1, 300000) i;
CREATE INDEX bookings_created_at ON bookings (created_at);
VACUUM ANALYZE bookings;
""",
    load="""
\\set day random(0, 600)
SELECT count(*), sum(total) FROM bookings WHERE created_at::date = date '2023-01-01' + :day::int;
""",
    mend_load="""
\\set day random(0, 600)
SELECT count(*), sum(total) FROM bookings WHERE created_at >= date '2023-01-01' + :day::int AND created_at < date '2023-01-01' + :day::int + 1;
""",
)

entry(
    id="deep-offset-paging", area="statements",
    # factor 154.2
    cause="the API pages through the articles with LIMIT 20 OFFSET n: a deep page reads and throws away everything before it",
    mends="keyset paging: WHERE (published_at, id) < (last row seen) ORDER BY ... LIMIT 20",
    spoil="""
CREATE TABLE articles (id int PRIMARY KEY, author_id int NOT NULL, published_at timestamp NOT NULL, title text NOT NULL);
INSERT INTO articles SELECT i, i % 800, timestamp '2020-01-01' + i * interval '5 min', 'Article number ' || i || ' ' || md5(i::text) FROM generate_series(1, 300000) i;
CREATE INDEX articles_published ON articles (published_at DESC, id DESC);
VACUUM ANALYZE articles;
""",
    load="""
\\set page random(0, 12000)
SELECT id, title, published_at FROM articles ORDER BY published_at DESC, id DESC LIMIT 20 OFFSET :page::int * 20;
""",
    mend_load="""
\\set page random(0, 12000)
SELECT id, title, published_at FROM articles
WHERE (published_at, id) < (timestamp '2020-01-01' + (300001 - :page::int * 20) * interval '5 min', 300001 - :page::int * 20)
ORDER BY published_at DESC, id DESC LIMIT 20;
""",
)

entry(
    id="leading-wildcard-like", area="statements",
    # factor 49.9
    cause="the search box of the support desk looks for a fragment with LIKE '%fragment%'; a btree cannot serve a leading wildcard, every row is compared",
    mends="a trigram index (pg_trgm, GIN), or a prefix or full text search",
    spoil="""
CREATE TABLE contacts (id int PRIMARY KEY, full_name text NOT NULL, email text NOT NULL, phone text NOT NULL);
INSERT INTO contacts SELECT i, initcap(substr(md5(i::text), 1, 8)) || ' ' || initcap(substr(md5((i + 7)::text), 1, 10)),
  substr(md5((i * 3)::text), 1, 12) || '@example.com', '+49' || (1500000000 + (i::bigint * 48271) % 499999993) FROM generate_series(1, 200000) i;
CREATE INDEX contacts_phone ON contacts (phone);
VACUUM ANALYZE contacts;
""",
    load="""
\\set fragment random(100000, 999999)
SELECT id, full_name, phone FROM contacts WHERE phone LIKE '%' || :fragment::int || '%' ORDER BY full_name LIMIT 25;
""",
    mend="""CREATE EXTENSION pg_trgm; CREATE INDEX contacts_phone_trgm ON contacts USING gin (phone gin_trgm_ops); VACUUM ANALYZE contacts;""",
)

entry(
    id="limit-walks-wrong-index", area="statements",
    # factor 636.4
    cause="WHERE tenant_id = x ORDER BY id LIMIT 20: the planner walks the primary key hoping to meet the tenant's rows soon, but the newer tenants' rows "
          "all lie at the end, so nearly the whole table is read and filtered away",
    mends="an index on (tenant_id, id) that gives both, or an ORDER BY that the primary key cannot serve (id + 0)",
    spoil="""
CREATE TABLE tickets (id bigint PRIMARY KEY, tenant_id int NOT NULL, state text NOT NULL, subject text NOT NULL);
INSERT INTO tickets SELECT i, (i - 1) / 10000 + 1, CASE WHEN i % 3 = 0 THEN 'open' ELSE 'closed' END, 'subject ' || md5(i::text) FROM generate_series(1, 400000) i;
CREATE INDEX tickets_tenant ON tickets (tenant_id);
VACUUM ANALYZE tickets;
""",
    load="""
\\set tenant random(30, 40)
SELECT id, subject FROM tickets WHERE tenant_id = :tenant AND state = 'open' ORDER BY id LIMIT 20;
""",
    mend="CREATE INDEX tickets_tenant_id ON tickets (tenant_id, id); ANALYZE tickets;",
)

# ---------------------------------------------------------------- schema

entry(
    id="missing-index", area="schema",
    # factor 503.8
    cause="parcels are looked up by tracking_code, a column without an index: each look-up reads the whole table",
    mends="CREATE INDEX ON parcels (tracking_code)",
    spoil="""
CREATE TABLE parcels (id bigserial PRIMARY KEY, tracking_code text NOT NULL, depot_id int NOT NULL, state text NOT NULL, updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO parcels (tracking_code, depot_id, state) SELECT 'PX' || lpad(i::text, 10, '0'), i % 40, 'in transit' FROM generate_series(1, 300000) i;
CREATE INDEX ON parcels (depot_id);
VACUUM ANALYZE parcels;
""",
    load="""
\\set n random(1, 300000)
SELECT id, state, updated_at FROM parcels WHERE tracking_code = 'PX' || lpad((:n::int)::text, 10, '0');
""",
    mend="CREATE INDEX parcels_tracking_code ON parcels (tracking_code); ANALYZE parcels;",
)

entry(
    id="foreign-key-unindexed", area="schema",
    # factor 12.9
    cause="page_views.session_id references sessions ON DELETE CASCADE and has no index: each deleted session scans all page views inside the foreign key's trigger",
    mends="CREATE INDEX ON page_views (session_id)",
    spoil="""
CREATE TABLE sessions (id int PRIMARY KEY, account_id int NOT NULL, started_at timestamptz NOT NULL DEFAULT now());
INSERT INTO sessions SELECT i, i % 5000 FROM generate_series(1, 100000) i;
CREATE TABLE page_views (id bigserial PRIMARY KEY, session_id int NOT NULL REFERENCES sessions ON DELETE CASCADE, path text NOT NULL, viewed_at timestamptz NOT NULL DEFAULT now());
INSERT INTO page_views (session_id, path) SELECT i % 100000 + 1, '/shop/item/' || i % 777 FROM generate_series(1, 250000) i;
VACUUM ANALYZE sessions; VACUUM ANALYZE page_views;
""",
    load="""
\\set s random(1, 100000)
DELETE FROM sessions WHERE id = :s;
""",
    mend="CREATE INDEX page_views_session_id ON page_views (session_id); ANALYZE page_views;",
)

entry(
    id="bloated-queue-table", area="schema",
    # factor 17.3
    cause="autovacuum was switched off for the jobs table (autovacuum_enabled = off): a few hundred live rows among hundreds of thousands of dead ones, "
          "each look at the queue reads all of the bloat",
    mends="autovacuum for the table on again (and more eager), VACUUM FULL or pg_repack once",
    spoil="""
CREATE TABLE jobs (id bigserial PRIMARY KEY, queue text NOT NULL, state text NOT NULL, payload text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())
  WITH (autovacuum_enabled = off);
INSERT INTO jobs (queue, state, payload) SELECT 'mail', 'new', repeat(md5(i::text), 4) FROM generate_series(1, 300000) i;
ANALYZE jobs;
UPDATE jobs SET state = 'done' WHERE id % 4 = 0;
DELETE FROM jobs WHERE id % 1000 <> 0;
""",
    load="""
\\set n random(1, 300)
UPDATE jobs SET state = 'running' WHERE id = :n::int * 1000;
SELECT state, count(*), min(created_at) FROM jobs GROUP BY state;
""",
    mend="ALTER TABLE jobs RESET (autovacuum_enabled); VACUUM FULL ANALYZE jobs;",
)

entry(
    id="stale-stats-after-load", area="schema",
    # factor 123.2
    cause="the nightly load brings a new day in, less than a tenth of the table, so that autoanalyze does not come: the statistics know no row of that day, "
          "the planner expects one row on both sides and joins by a nested loop",
    mends="ANALYZE after the load (or a lower autovacuum_analyze_scale_factor for these tables)",
    spoil="""
CREATE TABLE price_feed (feed_date date NOT NULL, sku int NOT NULL, price numeric(8,2) NOT NULL);
CREATE TABLE stock_feed (feed_date date NOT NULL, sku int NOT NULL, quantity int NOT NULL);
INSERT INTO price_feed SELECT current_date - d, s, s % 500 FROM generate_series(1, 60) d, generate_series(1, 900) s;
INSERT INTO stock_feed SELECT current_date - d, s, s % 50 FROM generate_series(1, 60) d, generate_series(1, 900) s;
CREATE INDEX ON price_feed (feed_date); CREATE INDEX ON stock_feed (feed_date);
VACUUM ANALYZE price_feed; VACUUM ANALYZE stock_feed;
INSERT INTO price_feed SELECT current_date, s, s % 500 FROM generate_series(1, 900) s;
INSERT INTO stock_feed SELECT current_date, s, s % 50 FROM generate_series(1, 900) s;
""",
    load="""
SELECT count(*), sum(p.price * s.quantity) FROM price_feed p JOIN stock_feed s ON s.sku = p.sku AND s.feed_date = p.feed_date
WHERE p.feed_date = current_date AND s.feed_date = current_date;
""",
    mend="ANALYZE price_feed; ANALYZE stock_feed;", time=15,
)

# ---------------------------------------------------------------- workload

entry(
    id="connection-per-request", area="workload",
    # factor 265.4
    cause="the web application opens a new connection for each request and closes it: most of the time goes into starting server processes",
    mends="a connection pool (pgbouncer, or the framework's own), persistent connections",
    role="app", args=["-C"], mend_args=[],
    spoil="""
CREATE TABLE profiles (id int PRIMARY KEY, nickname text NOT NULL, settings jsonb NOT NULL);
INSERT INTO profiles SELECT i, 'user' || i, '{"theme": "dark"}' FROM generate_series(1, 50000) i;
GRANT SELECT, UPDATE ON profiles TO app;
VACUUM ANALYZE profiles;
""",
    load="""
\\set id random(1, 50000)
SELECT nickname, settings FROM profiles WHERE id = :id;
""",
)
N = 60
entry(
    id="n-plus-one-queries", area="workload",
    # factor 14.8
    cause="the ORM loads the basket's lines and then each line's product by a query of its own (N+1): the time goes into round trips",
    mends="one join (eager loading), or WHERE id = ANY(list)",
    role="app",
    spoil="""
CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, price numeric(8,2) NOT NULL);
INSERT INTO products SELECT i, 'product ' || i, i % 300 FROM generate_series(1, 20000) i;
CREATE TABLE basket_lines (basket_id int NOT NULL, line int NOT NULL, product_id int NOT NULL REFERENCES products, PRIMARY KEY (basket_id, line));
INSERT INTO basket_lines SELECT b, l, (b * 31 + l * 97) % 20000 + 1 FROM generate_series(1, 2000) b, generate_series(1, 60) l;
GRANT SELECT ON products, basket_lines TO app;
VACUUM ANALYZE products; VACUUM ANALYZE basket_lines;
""",
    load="\\set b random(1, 2000)\nSELECT line, product_id FROM basket_lines WHERE basket_id = :b ORDER BY line;\n" + "".join(
        f"\\set p (:b * 31 + {k} * 97) % 20000 + 1\nSELECT id, name, price FROM products WHERE id = :p;\n" for k in range(1, N + 1)),
    mend_load="""
\\set b random(1, 2000)
SELECT l.line, p.id, p.name, p.price FROM basket_lines l JOIN products p ON p.id = l.product_id WHERE l.basket_id = :b ORDER BY l.line;
""",
)

entry(
    id="lock-during-api-call", area="workload",
    # factor 4.8
    cause="the payment worker updates the event's row and then calls the payment provider inside the open transaction: idle in transaction, "
          "it keeps the row locked, all other sales of that event wait",
    mends="the external call outside of the transaction, short transactions (idle_in_transaction_session_timeout as a net)",
    role="app",
    spoil="""
CREATE TABLE events (id int PRIMARY KEY, title text NOT NULL, seats_left int NOT NULL);
INSERT INTO events SELECT i, 'concert ' || i, 1000000 FROM generate_series(1, 40) i;
CREATE TABLE seats_sold (id bigserial PRIMARY KEY, event_id int NOT NULL REFERENCES events, sold_at timestamptz NOT NULL DEFAULT now());
GRANT SELECT, INSERT, UPDATE ON events, seats_sold TO app; GRANT USAGE ON SEQUENCE seats_sold_id_seq TO app;
VACUUM ANALYZE events;
""",
    load="""
\\set e random(1, 4)
BEGIN;
UPDATE events SET seats_left = seats_left - 1 WHERE id = :e;
INSERT INTO seats_sold (event_id) VALUES (:e);
COMMIT;
""",
    beside="""SET application_name = 'payment-worker';
BEGIN;
UPDATE events SET seats_left = seats_left - 1 WHERE id = 3;
\\! sleep 0.25
INSERT INTO seats_sold (event_id) VALUES (3);
COMMIT;
""",
    mend_beside="""SET application_name = 'payment-worker';
\\! sleep 0.25
BEGIN;
UPDATE events SET seats_left = seats_left - 1 WHERE id = 3;
INSERT INTO seats_sold (event_id) VALUES (3);
COMMIT;
""",
)

# ---------------------------------------------------------------- replication

# A line to a far standby: a proxy that hands everything on 15 ms later. It ends the standby when the primary is gone.
PROXY = r'''
import os, queue, shutil, socket, subprocess, sys, threading, time
place, primary, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
door = socket.socket(socket.AF_UNIX); door.bind(place + "/line/.s.PGSQL.5432"); os.chmod(place + "/line/.s.PGSQL.5432", 0o777); door.listen()
def hand(a, b):
    line = queue.Queue()
    def send():
        while True:
            at, data = line.get()
            time.sleep(max(0, at - time.time()))
            try:
                if not data: b.shutdown(socket.SHUT_WR); return
                b.sendall(data)
            except OSError: return
    threading.Thread(target=send, daemon=True).start()
    data = b"x"
    while data:
        try: data = a.recv(1 << 16)
        except OSError: data = b""
        line.put((time.time() + 0.015, data))
def doors():
    while True:
        a, _ = door.accept()
        b = socket.socket(socket.AF_UNIX); b.connect(primary + "/.s.PGSQL.5432")
        for pair in ((a, b), (b, a)): threading.Thread(target=hand, args=pair, daemon=True).start()
threading.Thread(target=doors, daemon=True).start()
while os.path.exists("/proc/%d" % pid): time.sleep(0.3)
subprocess.run("setpriv --reuid postgres --regid postgres --clear-groups /usr/lib/postgresql/15/bin/pg_ctl -D %s/data -m immediate stop" % place, shell=True)
shutil.rmtree(place, ignore_errors=True)
'''
entry(
    id="far-synchronous-standby", area="replication",
    # factor 11.0
    cause="synchronous_standby_names names a standby in a far data centre (30 ms round trip): each commit waits for its confirmation (SyncRep)",
    mends="a synchronous standby nearby, or asynchronous replication to the far one, or synchronous_commit = local where a loss is bearable; fewer, larger transactions",
    role="app",
    spoil="""
CREATE TABLE invoices (id bigserial PRIMARY KEY, customer_id int NOT NULL, amount numeric(10,2) NOT NULL, paid boolean NOT NULL DEFAULT false);
INSERT INTO invoices (customer_id, amount) SELECT i % 700, i % 900 FROM generate_series(1, 20000) i;
GRANT SELECT, INSERT, UPDATE ON invoices TO app; GRANT USAGE ON SEQUENCE invoices_id_seq TO app;
VACUUM ANALYZE invoices;
""" + SERVER + "SELECT $$" + PROXY + """$$ \\g (format=unaligned tuples_only=on) /tmp/blind11-line.py
\\! d=$(mktemp -d /tmp/blind11-far.XXXX); mkdir $d/line $d/s; mv /tmp/blind11-line.py $d/line.py; chown -R postgres:postgres $d; chmod 755 $d; setsid python3 $d/line.py $d $PGHOST $(head -1 $DATADIR/postmaster.pid) >/dev/null 2>&1 </dev/null & sleep 0.5; cd /; $AS $BIN/pg_basebackup -h $PGHOST -U postgres -D $d/data -c fast -X stream >/dev/null 2>&1; echo "primary_conninfo = 'host=$d/line user=postgres application_name=frankfurt'" >> $d/data/postgresql.auto.conf; $AS touch $d/data/standby.signal; $AS $BIN/pg_ctl -D $d/data -w -l $d/s/log -o "-k $d/s -c shared_buffers=32MB" start >/dev/null 2>&1 </dev/null
DO $$ BEGIN FOR i IN 1 .. 100 LOOP
  IF EXISTS (SELECT FROM pg_stat_get_wal_senders() WHERE state = 'streaming') THEN EXIT; END IF; PERFORM pg_sleep(0.1); END LOOP; END $$;
ALTER SYSTEM SET synchronous_standby_names = 'frankfurt';
SELECT pg_reload_conf();
""",
    load="""
\\set id random(1, 20000)
BEGIN;
UPDATE invoices SET paid = true WHERE id = :id;
INSERT INTO invoices (customer_id, amount) VALUES (:id, 12.5);
COMMIT;
""",
    mend="ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf();",
)

entry(
    id="abandoned-slot-xmin", area="replication",
    # factor 3.7 (7.1)
    cause="a standby with hot_standby_feedback was taken away without dropping its replication slot: the slot's old xmin keeps VACUUM from removing any dead row",
    mends="pg_drop_replication_slot for the abandoned slot, then VACUUM (FULL) the bloated tables",
    spoil="""
CREATE TABLE stock_levels (item_id int PRIMARY KEY, warehouse int NOT NULL, quantity int NOT NULL, updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO stock_levels SELECT i, i % 9, 100 FROM generate_series(1, 6000) i;
VACUUM ANALYZE stock_levels;
""" + SERVER + """
\\! d=$(mktemp -d /tmp/blind11-old.XXXX); mkdir $d/s; chown -R postgres:postgres $d; cd /; $AS $BIN/pg_basebackup -h $PGHOST -U postgres -D $d/data -c fast -X stream -C -S standby_old -R >/dev/null 2>&1; $AS $BIN/pg_ctl -D $d/data -w -l $d/s/log -o "-k $d/s -c shared_buffers=32MB -c hot_standby_feedback=on -c wal_receiver_status_interval=1s" start >/dev/null 2>&1 </dev/null; for i in $(seq 60); do [ "$($BIN/psql -XAtc 'SELECT xmin IS NOT NULL FROM pg_replication_slots')" = t ] && break; sleep 0.2; done; $AS $BIN/pg_ctl -D $d/data -m immediate stop >/dev/null 2>&1; rm -rf $d
SELECT format('UPDATE stock_levels SET quantity = quantity + 1, warehouse = (warehouse + 1) %% 9') FROM generate_series(1, 50) \\gexec
VACUUM ANALYZE stock_levels;
""",
    load="""
\\set item random(1, 6000)
UPDATE stock_levels SET quantity = quantity - 1, updated_at = now() WHERE item_id = :item;
SELECT warehouse, sum(quantity) FROM stock_levels GROUP BY warehouse;
""",
    mend="SELECT pg_drop_replication_slot('standby_old'); VACUUM FULL ANALYZE stock_levels;",
)

entry(
    id="replica-identity-full", area="replication",
    # factor 10.5 (2.5)
    cause="REPLICA IDENTITY FULL was set for change data capture on a table with large documents: each small update writes the whole old row, "
          "the stored document included, into the WAL, though there is a primary key",
    mends="REPLICA IDENTITY DEFAULT (the primary key), the documents in a table of their own",
    settings={"wal_level": "logical"},
    spoil="""
CREATE TABLE contracts (id int PRIMARY KEY, state text NOT NULL, views int NOT NULL DEFAULT 0, document text NOT NULL);
ALTER TABLE contracts ALTER document SET STORAGE EXTERNAL;
INSERT INTO contracts (id, state, document) SELECT i, 'draft', repeat(md5(i::text), 10000) FROM generate_series(1, 200) i;
CREATE PUBLICATION cdc FOR TABLE contracts;
ALTER TABLE contracts REPLICA IDENTITY FULL;
VACUUM ANALYZE contracts;
""",
    load="""
\\set id random(1, 200)
UPDATE contracts SET views = views + 1 WHERE id = :id;
""",
    mend="ALTER TABLE contracts REPLICA IDENTITY DEFAULT;",
)

# ---------------------------------------------------------------- machine

PAGES = """
CREATE TABLE accounts (id int PRIMARY KEY, branch int NOT NULL, balance bigint NOT NULL);
INSERT INTO accounts SELECT i, i % 50, 1000 FROM generate_series(1, 100000) i;
CREATE INDEX ON accounts (branch);
VACUUM ANALYZE accounts;
"""
SUMS = """
\\set b random(0, 49)
\\set id random(1, 100000)
SELECT branch, sum(balance), avg(balance) FROM accounts WHERE branch = :b GROUP BY branch;
SELECT balance FROM accounts WHERE id = :id;
"""
entry(
    id="cgroup-cpu-quota", area="machine",
    # factor 3.9 (5.4)
    cause="the container's CPU limit (cgroup cpu.cfs_quota_us) gives the server 0.3 of a CPU: its processes are throttled in each period",
    mends="raise or lift the CPU limit of the container / cgroup",
    spoil=PAGES + SERVER + """
\\! g=/sys/fs/cgroup/cpu/pg_blind11; mkdir -p $g; echo 100000 > $g/cpu.cfs_period_us; echo 30000 > $g/cpu.cfs_quota_us; p=$(head -1 $DATADIR/postmaster.pid); for q in $p $(pgrep -P $p); do echo $q > $g/cgroup.procs; done
""",
    load=SUMS,
    mend=SERVER + """
\\! g=/sys/fs/cgroup/cpu/pg_blind11; echo -1 > $g/cpu.cfs_quota_us; for n in 1 2 3; do for q in $(cat $g/cgroup.procs); do echo $q > /sys/fs/cgroup/cpu/cgroup.procs; done; done; rmdir $g
""",
)

entry(
    id="backup-compression-beside", area="machine",
    # factor 5.5 (4.8)
    cause="a backup job on the same machine compresses dumps with many parallel gzip processes at normal priority: the server gets only a part of the CPUs",
    mends="move the backup job to another machine or hour, fewer processes, nice / a cgroup for it",
    spoil=PAGES, load=SUMS,
    beside="\\! for i in $(seq 24); do (for n in $(seq 20); do setsid sh -c 'head -c 8000000 /dev/zero | gzip -9 > /dev/null'; done) & done; wait\n",
    mend_beside="",
)
