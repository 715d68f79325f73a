"""Twenty-six spoilt servers: the causes that a fourth author meets most often.

For bench/spoilt.py PGASSAY --entries spoilt_blind12. The keys are those of spoilt_blind.py. The author knew neither what
pgassay looks for nor what was tried before, and chose freely, as those of spoilt_blind9.py to spoilt_blind11.py did.
"""

ENTRIES = []
def entry(**k):
    ENTRIES.append(k)
# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"
# Where the server's programs and files are.
PLACES = SHELL + r"""
\setenv PGPORT :PORT
SELECT setting AS bindir FROM pg_config WHERE name = 'BINDIR' \gset
SELECT current_setting('data_directory') AS datadir \gset
\setenv BIN :bindir
\setenv PRIMARY :datadir
"""
AS_POSTGRES = "cd /; setpriv --reuid postgres --regid postgres --clear-groups"
def standby(conf):
    """A standby under /tmp/blind12_standby (port 5499) that ends with its primary; conf: lines for its settings."""
    return PLACES + r"""
\setenv D /tmp/blind12_standby
\! rm -rf $D; install -d -o postgres -g postgres -m 700 $D
\! %(as)s $BIN/pg_basebackup -D $D -c fast -X stream -R </dev/null >/dev/null 2>&1
\! printf "port = 5499\nshared_buffers = '32MB'\n%(conf)s" >> $D/postgresql.auto.conf
\! %(as)s $BIN/pg_ctl -D $D -l $D/log -w start </dev/null >/dev/null 2>&1
\! P=$(head -n 1 $PRIMARY/postmaster.pid); (while [ -f $D/postmaster.pid ] && [ "$(head -n 1 $PRIMARY/postmaster.pid)" = "$P" ]; do sleep 0.5; done; %(as)s $BIN/pg_ctl -D $D -m immediate stop; rm -rf $D) </dev/null >/dev/null 2>&1 &
""" % {"as": AS_POSTGRES, "conf": conf}

# ---------------------------------------------------------------- settings
entry(
    id="starved-work-mem", area="settings",
    cause="work_mem was lowered to 64kB after an out-of-memory scare: every sort and aggregate of the report spills to temporary files in many passes",
    mends="raise work_mem (some tens of MB, for the server or for the reporting role) so that sorts and hash aggregates stay in memory",
    settings={"work_mem": "64kB"}, mend_settings={"work_mem": "64MB"},
    spoil="""CREATE TABLE page_views (id bigint PRIMARY KEY, visitor text NOT NULL, url text NOT NULL, viewed_at timestamp NOT NULL);
INSERT INTO page_views SELECT i, md5((i * 7919 % 30011)::text), '/shop/category/' || i % 97 || '/article/' || i % 4999,
    timestamp '2025-03-01' + i * interval '1 second' FROM generate_series(1, 60000) i;
VACUUM ANALYZE page_views;""",
    load="""SELECT visitor, count(*) AS views, min(viewed_at), max(viewed_at), max(url) FROM page_views
 GROUP BY visitor ORDER BY views DESC, visitor LIMIT 20;""",
)
entry(
    id="tiny-max-wal-size", area="settings",
    cause="max_wal_size of 32MB: a checkpoint starts every second, so that all changed pages are written again and again and nearly every update logs a full page image",
    mends="raise max_wal_size (some GB) and checkpoint_timeout so that checkpoints come by time, not by WAL volume",
    settings={"max_wal_size": "32MB", "min_wal_size": "32MB"}, mend_settings={},
    spoil="""CREATE TABLE meters (meter_id int PRIMARY KEY, reading bigint NOT NULL, read_at timestamptz NOT NULL, installation text NOT NULL)
    WITH (fillfactor = 50);
INSERT INTO meters SELECT i, 0, now(), repeat('x', 800) FROM generate_series(1, 24000) i;
VACUUM ANALYZE meters;
CHECKPOINT;""",
    load="""UPDATE meters SET reading = reading + 1, read_at = now()
 WHERE meter_id = ANY (ARRAY(SELECT 4 * (random() * 5999)::int + :client_id::int % 4 + 1 FROM generate_series(1, 100)));""",
)
entry(
    id="random-page-cost-disks", area="settings",
    cause="random_page_cost is still 4, as for spinning disks, though the data sit in memory and on SSD: the planner reads all of invoice_lines and hashes it instead of an index nested loop",
    mends="set random_page_cost to about 1.1 (SSD, cached data)",
    settings={"random_page_cost": "4"}, mend_settings={"random_page_cost": "1.1"},
    spoil="""CREATE TABLE invoices (id int PRIMARY KEY, customer_id int NOT NULL, issued_on date NOT NULL);
INSERT INTO invoices SELECT i, i % 100 + 1, date '2023-01-01' + i % 700 FROM generate_series(1, 100000) i;
CREATE INDEX invoices_customer_id_idx ON invoices (customer_id);
CREATE TABLE invoice_lines (id int NOT NULL, invoice_id int NOT NULL, article_id int NOT NULL, quantity int NOT NULL, amount float8 NOT NULL);
INSERT INTO invoice_lines SELECT i, (i::bigint * 7919 % 100000 + 1)::int, i % 5003, i % 9 + 1, i % 1000 / 10.0 FROM generate_series(1, 1000000) i;
CREATE INDEX invoice_lines_invoice_id_idx ON invoice_lines (invoice_id);
VACUUM ANALYZE invoices, invoice_lines;""",
    load="""\\set c random(1, 100)
SELECT count(*), sum(l.amount) FROM invoices i JOIN invoice_lines l ON l.invoice_id = i.id WHERE i.customer_id = :c;""",
)
entry(
    id="jit-short-queries", area="settings",
    cause="JIT compiles each run of a query of few milliseconds, because the estimate (100 elements for each jsonb array) makes it look expensive; compiling takes many times longer than running",
    mends="switch jit off (or raise jit_above_cost well above the cost of these queries)",
    settings={"jit": "on"}, mend_settings={"jit": "off"},
    spoil="""CREATE TABLE shop_orders (id int PRIMARY KEY, shop_id int NOT NULL, items jsonb NOT NULL);
INSERT INTO shop_orders SELECT i, i % 30 + 1, jsonb_build_array(jsonb_build_object('sku', 'A' || i % 500, 'price', i % 90 + 1, 'qty', i % 4 + 1,
    'tags', jsonb_build_array('t' || i % 20))) FROM generate_series(1, 18000) i;
CREATE INDEX shop_orders_shop_id_idx ON shop_orders (shop_id);
VACUUM ANALYZE shop_orders;""",
    load="""\\set s random(1, 30)
SELECT t.tag #>> '{}' AS tag, count(*), sum((i.item ->> 'price')::int), max((i.item ->> 'qty')::int)
  FROM shop_orders o CROSS JOIN LATERAL jsonb_array_elements(o.items) AS i(item)
 CROSS JOIN LATERAL jsonb_array_elements(i.item -> 'tags') AS t(tag)
 WHERE o.shop_id = :s GROUP BY 1 ORDER BY 2 DESC LIMIT 10;""",
)
entry(
    id="auto-explain-everything", area="settings",
    cause="auto_explain was left on for everything (log_min_duration 0, log_analyze, log_nested_statements): each statement inside each function is timed node by node and its plan written to the log",
    mends="raise auto_explain.log_min_duration, switch off log_analyze and log_nested_statements (or take auto_explain out)",
    preload="auto_explain,pg_stat_statements",
    settings={"auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on",
              "auto_explain.log_verbose": "on", "auto_explain.log_nested_statements": "on"},
    mend_settings={"auto_explain.log_min_duration": "5s", "auto_explain.log_analyze": "off", "auto_explain.log_nested_statements": "off"},
    spoil="""CREATE TABLE price_list (article_id int PRIMARY KEY, price numeric(10,2) NOT NULL, discount numeric(4,2) NOT NULL);
INSERT INTO price_list SELECT i, i % 500 + 0.99, i % 30 FROM generate_series(1, 20000) i;
VACUUM ANALYZE price_list;
CREATE FUNCTION basket_total(first_article int) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE total numeric := 0; p numeric;
BEGIN
    FOR n IN 0..24 LOOP
        SELECT price * (100 - discount) / 100 INTO p FROM price_list WHERE article_id = first_article + n * 13;
        total := total + p;
    END LOOP; RETURN round(total, 2);
END $$;""",
    load="""\\set a random(1, 19000)
SELECT basket_total(:a);""",
)

# ---------------------------------------------------------------- statements
entry(
    id="cast-on-column", area="statements",
    cause="the WHERE clause casts the indexed column (paid_at::date = ...), so that the index on paid_at cannot be used and all payments are read for one day",
    mends="write a range on the bare column (paid_at >= day AND paid_at < day + 1), or an index on the expression",
    spoil="""CREATE TABLE payments (id bigint PRIMARY KEY, account_id int NOT NULL, amount numeric(10,2) NOT NULL, paid_at timestamp NOT NULL);
INSERT INTO payments SELECT i, i % 9001, i % 777 + 0.5, timestamp '2025-01-01' + i * interval '126 seconds' FROM generate_series(1, 250000) i;
CREATE INDEX payments_paid_at_idx ON payments (paid_at);
VACUUM ANALYZE payments;""",
    load="""\\set d random(1, 360)
SELECT count(*), sum(amount) FROM payments WHERE paid_at::date = date '2025-01-01' + :d::int;""",
    mend_load="""\\set d random(1, 360)
SELECT count(*), sum(amount) FROM payments
 WHERE paid_at >= (date '2025-01-01' + :d::int)::timestamp AND paid_at < (date '2025-01-01' + :d::int + 1)::timestamp;""",
)
entry(
    id="deep-offset-paging", area="statements",
    cause="a crawler pages through the catalogue with OFFSET: each page reads and throws away all the rows before it",
    mends="keyset pagination: WHERE id > last id seen ORDER BY id LIMIT 20",
    spoil="""CREATE TABLE articles (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL, price numeric(8,2) NOT NULL);
INSERT INTO articles SELECT i, 'Article number ' || i, repeat(md5(i::text), 3), i % 300 FROM generate_series(1, 250000) i;
VACUUM ANALYZE articles;""",
    load="""\\set o random(150000, 240000)
SELECT id, title, price FROM articles ORDER BY id LIMIT 20 OFFSET :o;""",
    mend_load="""\\set o random(150000, 240000)
SELECT id, title, price FROM articles WHERE id > :o ORDER BY id LIMIT 20;""",
)
entry(
    id="leading-wildcard-search", area="statements",
    cause="the search box runs ILIKE '%word%' over the company names; a btree index cannot serve a leading wildcard, so every search reads the whole table",
    mends="pg_trgm and a GIN (gin_trgm_ops) index on the searched column (or full-text search)",
    spoil="""CREATE TABLE companies (id int PRIMARY KEY, name text NOT NULL, city text NOT NULL);
INSERT INTO companies SELECT i, initcap(md5(i::text)) || ' Trading Ltd', 'City ' || i % 400 FROM generate_series(1, 60000) i;
CREATE INDEX companies_name_idx ON companies (name);
VACUUM ANALYZE companies;""",
    load="""\\set k random(1, 60000)
SELECT id, name, city FROM companies WHERE name ILIKE '%' || substr(md5(:k::text), 5, 7) || '%';""",
    mend="""CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX companies_name_trgm_idx ON companies USING gin (name gin_trgm_ops);
VACUUM ANALYZE companies;""",
)
entry(
    id="order-limit-wrong-index", area="statements",
    cause="ORDER BY created_at DESC LIMIT 20 for one tenant: the planner walks the index on created_at backwards and filters by tenant, hoping to find twenty rows soon, but tenants that are no longer active have only old rows",
    mends="an index on (tenant_id, created_at), or an ORDER BY that cannot use the created_at index",
    spoil="""CREATE TABLE tickets (id int NOT NULL, tenant_id int NOT NULL, created_at timestamp NOT NULL, subject text NOT NULL);
INSERT INTO tickets SELECT i, i / 2500 + 1, timestamp '2022-01-01' + i * interval '7 minutes', 'Ticket about ' || md5(i::text)
  FROM generate_series(1, 200000) i ORDER BY md5(i::text);
ALTER TABLE tickets ADD PRIMARY KEY (id);
CREATE INDEX tickets_tenant_id_idx ON tickets (tenant_id);
CREATE INDEX tickets_created_at_idx ON tickets (created_at);
VACUUM ANALYZE tickets;""",
    load="""\\set t random(2, 50)
SELECT id, created_at, subject FROM tickets WHERE tenant_id = :t ORDER BY created_at DESC LIMIT 20;""",
    mend="CREATE INDEX tickets_tenant_created_idx ON tickets (tenant_id, created_at); ANALYZE tickets;",
)
entry(
    id="or-across-tables", area="statements",
    cause="one WHERE with OR over columns of two joined tables (customer's e-mail or order's reference): no index can serve it, so that both tables are joined whole and filtered afterwards",
    mends="split it into a UNION of two queries, each of which uses its own index",
    spoil="""CREATE TABLE customers (id int PRIMARY KEY, email text NOT NULL UNIQUE, name text NOT NULL);
INSERT INTO customers SELECT i, 'user' || i || '@example.com', 'Customer ' || i FROM generate_series(1, 30000) i;
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers, reference text NOT NULL, total numeric(10,2) NOT NULL);
INSERT INTO orders SELECT i, i % 30000 + 1, 'REF-' || i, i % 500 FROM generate_series(1, 150000) i;
CREATE INDEX orders_customer_id_idx ON orders (customer_id);
CREATE INDEX orders_reference_idx ON orders (reference);
VACUUM ANALYZE customers, orders;""",
    load="""\\set k random(1, 30000)
\\set r random(1, 150000)
SELECT o.id, o.reference, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id
 WHERE c.email = 'user' || :k::text || '@example.com' OR o.reference = 'REF-' || :r::text;""",
    mend_load="""\\set k random(1, 30000)
\\set r random(1, 150000)
SELECT o.id, o.reference, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id
 WHERE c.email = 'user' || :k::text || '@example.com'
UNION
SELECT o.id, o.reference, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id
 WHERE o.reference = 'REF-' || :r::text;""",
)

# ---------------------------------------------------------------- schema
entry(
    id="foreign-key-unindexed", area="schema",
    cause="cart_items.cart_id references carts ON DELETE CASCADE without an index: each deletion of a cart reads all of cart_items",
    mends="an index on cart_items (cart_id)",
    spoil="""CREATE TABLE carts (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id int NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE cart_items (id int PRIMARY KEY, cart_id bigint NOT NULL REFERENCES carts ON DELETE CASCADE, article_id int NOT NULL, quantity int NOT NULL);
INSERT INTO carts (customer_id) SELECT i % 7001 FROM generate_series(1, 50000) i;
INSERT INTO cart_items SELECT i, i % 50000 + 1, i % 999, i % 5 + 1 FROM generate_series(1, 300000) i;
VACUUM ANALYZE carts, cart_items;""",
    load="""\\set c random(1, 7000)
BEGIN;
INSERT INTO carts (customer_id) VALUES (:c) RETURNING id AS cart \\gset
DELETE FROM carts WHERE id = :cart;
COMMIT;""",
    mend="CREATE INDEX cart_items_cart_id_idx ON cart_items (cart_id); ANALYZE cart_items;",
)
HOARD = ["customer_id", "warehouse_id", "carrier_id", "status", "city", "zip", "weight", "price", "created_at", "reference",
         "customer_id, created_at", "status, created_at", "warehouse_id, status, carrier_id", "city, zip", "zip, customer_id", "price, weight"]
entry(
    id="index-hoard", area="schema",
    cause="sixteen secondary indexes on the table that takes the imports, created over the years and never used: every inserted row has to maintain all of them",
    mends="drop the unused and redundant indexes (idx_scan = 0 in pg_stat_user_indexes)",
    spoil="""CREATE TABLE parcels (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id int, warehouse_id int, carrier_id int, status text,
    city text, zip text, weight int, price int, reference text, created_at timestamptz);
INSERT INTO parcels (customer_id, warehouse_id, carrier_id, status, city, zip, weight, price, reference, created_at)
SELECT random() * 50000, random() * 300, random() * 40, 'status' || i % 6, 'City ' || i * 7919 % 5003, lpad((i::bigint * 104729 % 99991)::text, 5, '0'),
    random() * 30000, random() * 9999, md5(i::text), timestamptz '2025-01-01' + random() * interval '300 days' FROM generate_series(1, 80000) i;
""" + "".join(f"CREATE INDEX parcels_idx_{n} ON parcels ({c});\n" for n, c in enumerate(HOARD, 1)) + """
VACUUM ANALYZE parcels;""",
    load="""INSERT INTO parcels (customer_id, warehouse_id, carrier_id, status, city, zip, weight, price, reference, created_at)
SELECT random() * 50000, random() * 300, random() * 40, 'status' || i % 6, 'City ' || (random() * 5000)::int, lpad((random() * 99990)::int::text, 5, '0'),
    random() * 30000, random() * 9999, md5(random()::text), timestamptz '2025-01-01' + random() * interval '300 days' FROM generate_series(1, 300) i;""",
    mend="".join(f"DROP INDEX parcels_idx_{n};\n" for n in range(1, len(HOARD) + 1)),
)
entry(
    id="key-types-differ", area="schema",
    cause="shipments.order_no is varchar while purchase_orders.order_no is bigint: the join has to cast the varchar column, so that its index is of no use and all shipments are read",
    mends="make both columns the same type (ALTER TABLE shipments ALTER order_no TYPE bigint), or an index on the cast expression",
    spoil="""CREATE TABLE purchase_orders (id int PRIMARY KEY, order_no bigint NOT NULL UNIQUE, supplier text NOT NULL);
INSERT INTO purchase_orders SELECT i, 4500000000 + i, 'Supplier ' || i % 200 FROM generate_series(1, 80000) i;
CREATE TABLE shipments (id int PRIMARY KEY, order_no varchar(20) NOT NULL, carrier text NOT NULL, shipped_on date NOT NULL);
INSERT INTO shipments SELECT i, (4500000000 + i % 80000 + 1)::text, 'Carrier ' || i % 12, date '2025-01-01' + i % 300 FROM generate_series(1, 240000) i;
CREATE INDEX shipments_order_no_idx ON shipments (order_no);
VACUUM ANALYZE purchase_orders, shipments;""",
    load="""\\set p random(1, 80000)
SELECT p.order_no, p.supplier, s.carrier, s.shipped_on FROM purchase_orders p JOIN shipments s ON s.order_no::bigint = p.order_no WHERE p.id = :p;""",
    mend="ALTER TABLE shipments ALTER COLUMN order_no TYPE bigint USING order_no::bigint; VACUUM ANALYZE shipments;",
)
entry(
    id="daily-partitions-no-key", area="schema",
    cause="four hundred daily partitions for a small table, and the queries ask by customer without a date: every query plans, locks and probes the index of all the partitions",
    mends="fewer, coarser partitions (or none at this size), or the partition key in the queries",
    protocol="extended",
    spoil="""CREATE TABLE calls (id int NOT NULL, customer_id int NOT NULL, called_on date NOT NULL, seconds int NOT NULL) PARTITION BY RANGE (called_on);
DO $$ BEGIN
    FOR d IN 0..399 LOOP
        EXECUTE format('CREATE TABLE calls_%s PARTITION OF calls FOR VALUES FROM (%L) TO (%L)', to_char(date '2024-10-01' + d, 'YYYYMMDD'),
            date '2024-10-01' + d, date '2024-10-01' + d + 1);
    END LOOP;
END $$;
INSERT INTO calls SELECT i, i % 2003, date '2024-10-01' + i % 400, i % 600 FROM generate_series(1, 80000) i;
CREATE INDEX calls_customer_id_idx ON calls (customer_id);
ANALYZE calls;""",
    load="""\\set c random(1, 2000)
SELECT count(*), sum(seconds) FROM calls WHERE customer_id = :c;""",
    mend="""CREATE TABLE calls_plain (id int NOT NULL, customer_id int NOT NULL, called_on date NOT NULL, seconds int NOT NULL);
INSERT INTO calls_plain SELECT * FROM calls;
DROP TABLE calls;
ALTER TABLE calls_plain RENAME TO calls;
CREATE INDEX calls_customer_id_idx ON calls (customer_id);
VACUUM ANALYZE calls;""",
)
entry(
    id="outbox-without-autovacuum", area="schema",
    cause="autovacuum_enabled=false on the outbox table, whose messages are deleted once they are sent: the table is thousands of pages of dead rows around two hundred live ones, and each poll reads them all",
    mends="switch autovacuum on for the table again and rewrite it once (VACUUM FULL or pg_repack)",
    spoil="""CREATE TABLE outbox (id bigint PRIMARY KEY, topic text NOT NULL, payload text NOT NULL, created_at timestamptz NOT NULL, sent_at timestamptz)
    WITH (autovacuum_enabled = false);
INSERT INTO outbox SELECT i, 'topic' || i % 5, md5(i::text) || md5((i + 1)::text), now(), NULL FROM generate_series(1, 400000) i;
DELETE FROM outbox WHERE id <= 399800;
ANALYZE outbox;""",
    load="SELECT count(*), min(created_at), max(length(payload)) FROM outbox WHERE sent_at IS NULL;\n",
    mend="ALTER TABLE outbox RESET (autovacuum_enabled); VACUUM FULL outbox; ANALYZE outbox;",
)

# ---------------------------------------------------------------- workload
entry(
    id="connection-per-request", area="workload",
    cause="the application opens a new connection for each request: a process is started, its caches are filled and all is thrown away after one short query",
    mends="keep connections open: a pool in the application or PgBouncer",
    role="app", args=["-C"], mend_args=[],
    spoil="""CREATE TABLE user_profiles (user_id int PRIMARY KEY, display_name text NOT NULL, preferences text NOT NULL);
INSERT INTO user_profiles SELECT i, 'User ' || i, md5(i::text) FROM generate_series(1, 50000) i;
VACUUM ANALYZE user_profiles;
GRANT SELECT ON user_profiles TO app;""",
    load="""\\set u random(1, 50000)
SELECT display_name, preferences FROM user_profiles WHERE user_id = :u;""",
)
entry(
    id="idle-in-transaction-holder", area="workload",
    cause="a back-office tool left a transaction open (idle in transaction) that holds the oldest xmin: vacuum cannot remove the dead versions of a small, always updated table, and every read goes through all of them",
    mends="end that session, set idle_in_transaction_session_timeout, let the tool commit; then vacuum (VACUUM FULL) the table",
    spoil=SHELL + r"""
CREATE TABLE audit_note (noted_at timestamptz NOT NULL, note text NOT NULL);
CREATE TABLE driver_positions (driver_id int PRIMARY KEY, zone int NOT NULL, lat float8 NOT NULL, lon float8 NOT NULL, updated_at timestamptz NOT NULL);
INSERT INTO driver_positions SELECT i, i % 10, 48, 11, now() FROM generate_series(1, 500) i;
VACUUM ANALYZE driver_positions;
\! (echo "BEGIN; INSERT INTO audit_note VALUES (now(), 'opened');"; sleep 3; while psql -XAtqc "SELECT pid FROM pg_stat_activity WHERE application_name = 'backoffice'" | grep -q .; do sleep 1; done) </dev/null 2>/dev/null | PGAPPNAME=backoffice psql -Xq >/dev/null 2>&1 &
DO $$ BEGIN
    FOR i IN 1..100 LOOP PERFORM pg_stat_clear_snapshot();
        EXIT WHEN EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'backoffice' AND state = 'idle in transaction' AND backend_xid IS NOT NULL);
        PERFORM pg_sleep(0.1);
    END LOOP; END $$;
DO $$ BEGIN
    FOR i IN 1..300 LOOP
        UPDATE driver_positions SET lat = lat + 0.0001, updated_at = clock_timestamp();
        COMMIT;
    END LOOP; END $$;
VACUUM ANALYZE driver_positions;""",
    load="""\\set d random(1, 125) * 4 - :client_id % 4
\\set z random(0, 9)
UPDATE driver_positions SET lat = lat + 0.0001, updated_at = now() WHERE driver_id = :d;
SELECT count(*), avg(lat), avg(lon) FROM driver_positions WHERE zone = :z;
SELECT max(updated_at) FROM driver_positions;""",
    mend="""SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'backoffice';
SELECT pg_sleep(1);
VACUUM FULL driver_positions;
ANALYZE driver_positions;""",
)
entry(
    id="queue-without-skip-locked", area="workload", clients=8,
    cause="eight workers take jobs with SELECT ... FOR UPDATE LIMIT 1 without SKIP LOCKED: all of them wait for the same first row, so that one job at a time is worked on",
    mends="FOR UPDATE SKIP LOCKED (or claim the job in a short transaction before working on it)",
    spoil="""CREATE TABLE mail_queue (id int PRIMARY KEY, recipient text NOT NULL, status text NOT NULL DEFAULT 'new', sent_at timestamptz);
INSERT INTO mail_queue (id, recipient) SELECT i, 'user' || i || '@example.com' FROM generate_series(1, 200000) i;
CREATE INDEX mail_queue_new_idx ON mail_queue (id) WHERE status = 'new';
VACUUM ANALYZE mail_queue;""",
    load="""BEGIN;
SELECT id FROM mail_queue WHERE status = 'new' ORDER BY id LIMIT 1 FOR UPDATE \\gset job_
\\sleep 10 ms
UPDATE mail_queue SET status = 'sent', sent_at = now() WHERE id = :job_id;
COMMIT;""",
    mend_load="""BEGIN;
SELECT id FROM mail_queue WHERE status = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED \\gset job_
\\sleep 10 ms
UPDATE mail_queue SET status = 'sent', sent_at = now() WHERE id = :job_id;
COMMIT;""",
)
entry(
    id="n-plus-one-lookups", area="workload",
    cause="the ORM loads the orders of a customer and then the items of each order by a query of its own: sixty-one round trips for one page",
    mends="one query with a join (or IN / = ANY over the orders' ids): eager loading",
    spoil="""CREATE TABLE web_orders (id int PRIMARY KEY, customer_id int NOT NULL, ordered_on date NOT NULL);
INSERT INTO web_orders SELECT i, (i - 1) / 60 + 1, date '2025-01-01' + i % 200 FROM generate_series(1, 60000) i;
CREATE INDEX web_orders_customer_id_idx ON web_orders (customer_id);
CREATE TABLE web_order_items (order_id int NOT NULL, line int NOT NULL, sku text NOT NULL, quantity int NOT NULL, PRIMARY KEY (order_id, line));
INSERT INTO web_order_items SELECT o, l, 'SKU' || o % 700, l FROM generate_series(1, 60000) o, generate_series(1, 3) l;
VACUUM ANALYZE web_orders, web_order_items;""",
    load="\\set c random(1, 1000)\nSELECT id, ordered_on FROM web_orders WHERE customer_id = :c;\n" + "".join(
        f"\\set o (:c - 1) * 60 + {n}\nSELECT line, sku, quantity FROM web_order_items WHERE order_id = :o;\n" for n in range(1, 61)),
    mend_load="""\\set c random(1, 1000)
SELECT o.id, o.ordered_on, i.line, i.sku, i.quantity FROM web_orders o JOIN web_order_items i ON i.order_id = o.id WHERE o.customer_id = :c;""",
)

# ---------------------------------------------------------------- replication
# A line to a far site: hands on each piece 25 ms late, in both directions.
FAR_LINE = r"""
\pset format unaligned
\pset tuples_only on
\! rm -rf /tmp/blind12_line; install -d -m 755 /tmp/blind12_line
\o /tmp/blind12_line/line.py
SELECT $py$
import os, queue, shutil, socket, sys, threading, time
front, back, pidfile = sys.argv[1:4]
def first():
    try:
        with open(pidfile) as f:
            return f.readline()
    except OSError:
        return ""
def carry(a, b):
    late = queue.Queue()
    def send():
        while True:
            due, data = late.get()
            time.sleep(max(0, due - time.time()))
            try:
                if not data:
                    b.shutdown(socket.SHUT_WR)
                    return
                b.sendall(data)
            except OSError:
                return
    threading.Thread(target=send, daemon=True).start()
    while True:
        try:
            data = a.recv(65536)
        except OSError:
            data = b""
        late.put((time.time() + 0.025, data))
        if not data:
            return
server = socket.socket(socket.AF_UNIX)
server.bind(front)
os.chmod(front, 0o777)
server.listen(8)
server.settimeout(0.5)
pid = first()
while pid and first() == pid:
    try:
        near = server.accept()[0]
    except socket.timeout:
        continue
    near.setblocking(True)
    far = socket.socket(socket.AF_UNIX)
    far.connect(back)
    for pair in ((near, far), (far, near)):
        threading.Thread(target=carry, args=pair, daemon=True).start()
shutil.rmtree(os.path.dirname(front), ignore_errors=True)
$py$;
\o
\! python3 /tmp/blind12_line/line.py /tmp/blind12_line/.s.PGSQL.5432 $PGHOST/.s.PGSQL.$PGPORT $PRIMARY/postmaster.pid </dev/null >/dev/null 2>&1 &
"""
entry(
    id="synchronous-far-site", area="replication",
    cause="the standby at the disaster recovery site, 50 ms away, is the synchronous one: every commit waits for a round trip over the far line",
    mends="make the far standby asynchronous (synchronous_standby_names without it, or a near standby in it), or synchronous_commit = local where loss is bearable",
    spoil=PLACES + FAR_LINE + standby(r"primary_conninfo = 'host=/tmp/blind12_line port=5432 user=postgres application_name=dr_site'\n") + """
CREATE TABLE bookings (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, room_id int NOT NULL, guest text NOT NULL, booked_at timestamptz NOT NULL);
DO $$ BEGIN
    FOR i IN 1..100 LOOP
        PERFORM pg_stat_clear_snapshot();
        EXIT WHEN EXISTS (SELECT 1 FROM pg_stat_replication WHERE application_name = 'dr_site' AND state = 'streaming');
        IF i = 100 THEN RAISE 'the standby does not stream'; END IF;
        PERFORM pg_sleep(0.2);
    END LOOP; END $$;
ALTER SYSTEM SET synchronous_standby_names = 'dr_site';
SELECT pg_reload_conf();
SELECT pg_sleep(1);""",
    load="""\\set r random(1, 400)
INSERT INTO bookings (room_id, guest, booked_at) VALUES (:r, 'A guest', now());""",
    mend="ALTER SYSTEM RESET synchronous_standby_names;\nSELECT pg_reload_conf();\nSELECT pg_sleep(1);\n",
)
entry(
    id="dead-replica-slot", area="replication",
    cause="a replica with hot_standby_feedback was taken away, but its physical slot stayed: the slot's xmin holds vacuum back, and the dead versions of a much updated table pile up",
    mends="drop the slot of the replica that is gone (pg_drop_replication_slot), then vacuum the bloated table (VACUUM FULL)",
    spoil="""CREATE TABLE stock_levels (article_id int PRIMARY KEY, warehouse_id int NOT NULL, on_hand int NOT NULL, changed_at timestamptz NOT NULL);
INSERT INTO stock_levels SELECT i, i % 8, 1000, now() FROM generate_series(1, 800) i;
SELECT pg_create_physical_replication_slot('replica2');
""" + standby(r"primary_slot_name = 'replica2'\nhot_standby_feedback = on\nwal_receiver_status_interval = 1\n") + r"""
DO $$ BEGIN
    FOR i IN 1..100 LOOP
        EXIT WHEN EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = 'replica2' AND xmin IS NOT NULL);
        IF i = 100 THEN RAISE 'the slot has no xmin'; END IF;
        PERFORM pg_sleep(0.2);
    END LOOP; END $$;
\! """ + AS_POSTGRES + r""" $BIN/pg_ctl -D $D -m immediate -w stop </dev/null >/dev/null 2>&1
SELECT pg_sleep(1);
DO $$ BEGIN
    FOR i IN 1..200 LOOP
        UPDATE stock_levels SET on_hand = on_hand - 1, changed_at = clock_timestamp();
        COMMIT;
    END LOOP; END $$;
VACUUM ANALYZE stock_levels;""",
    load="""\\set w random(0, 7)
SELECT count(*), min(on_hand), sum(on_hand) FROM stock_levels WHERE warehouse_id = :w;
SELECT article_id, on_hand FROM stock_levels WHERE on_hand < 10;""",
    mend="SELECT pg_drop_replication_slot('replica2');\nVACUUM FULL stock_levels;\nANALYZE stock_levels;\n",
)
entry(
    id="replica-identity-full", area="replication",
    cause="REPLICA IDENTITY FULL on a published table with large documents: each update of a counter fetches the whole old row, documents and all, and writes it to the WAL",
    mends="REPLICA IDENTITY DEFAULT (the table has a primary key)",
    settings={"wal_level": "logical"},
    spoil="""CREATE TABLE documents (id int PRIMARY KEY, title text NOT NULL, views int NOT NULL DEFAULT 0, body text NOT NULL) WITH (fillfactor = 40);
INSERT INTO documents (id, title, body)
SELECT i, 'Document ' || i, (SELECT string_agg(md5((i * 10000 + n)::text), '') FROM generate_series(1, 3000) n) FROM generate_series(1, 400) i;
ALTER TABLE documents REPLICA IDENTITY FULL;
CREATE PUBLICATION search_feed FOR TABLE documents;
VACUUM ANALYZE documents;""",
    load="""\\set a :client_id % 4 * 100 + random(1, 90)
UPDATE documents SET views = views + 1 WHERE id BETWEEN :a AND :a::int + 9;""",
    mend="ALTER TABLE documents REPLICA IDENTITY DEFAULT;",
)
entry(
    id="abandoned-cdc-slot", area="replication",
    cause="the logical slot of a finished migration was never dropped: its catalog_xmin keeps vacuum from the system catalogs, and the temporary tables of the application leave them full of dead rows",
    mends="drop the slot (pg_drop_replication_slot) and vacuum the catalogs (VACUUM FULL pg_class, pg_attribute)",
    settings={"wal_level": "logical"},
    spoil="""CREATE TABLE tenants (tenant_id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE contracts (id int PRIMARY KEY, tenant_id int NOT NULL REFERENCES tenants, signed_on date);
CREATE TABLE contacts (id int PRIMARY KEY, tenant_id int NOT NULL REFERENCES tenants, name text);
SELECT pg_create_logical_replication_slot('migration_task_7', 'pgoutput');
SET synchronous_commit = off;
DO $$ BEGIN
    FOR i IN 1..4000 LOOP
        EXECUTE format('CREATE TEMP TABLE basket_%s (line int PRIMARY KEY, sku text, quantity int, price numeric, note text, tenant_id int)', i);
        EXECUTE format('DROP TABLE basket_%s', i);
        COMMIT;
    END LOOP; END $$;
VACUUM pg_class;
VACUUM pg_attribute;""",
    load="""SELECT a.attrelid::regclass::text, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
 WHERE a.attname = 'tenant_id' AND a.attnum > 0 AND NOT a.attisdropped;
SELECT c.relname, c.reltuples FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace;""",
    mend="""SELECT pg_drop_replication_slot('migration_task_7');
VACUUM FULL pg_class;
VACUUM FULL pg_attribute;
VACUUM;""",
)

# ---------------------------------------------------------------- machine
entry(
    id="log-compression-beside", area="machine",
    cause="a job compresses old logs with sixteen gzip processes at once on the database's own two processors",
    mends="move the job off the machine or to the night, with fewer processes and nice / a CPU limit of its own",
    spoil="""CREATE TABLE sensor_values (sensor_id int NOT NULL, measured_at timestamp NOT NULL, value float8 NOT NULL);
INSERT INTO sensor_values SELECT i % 50, timestamp '2025-01-01' + i * interval '1 second', i % 1000 FROM generate_series(1, 50000) i;
VACUUM ANALYZE sensor_values;""",
    load="SELECT sensor_id, count(*), avg(value), max(value) FROM sensor_values GROUP BY sensor_id;\n",
    beside=r"""\! for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do setsid timeout 1.5 gzip -9 </dev/zero >/dev/null 2>&1 & done; wait""",
    mend_beside="SELECT pg_sleep(1);\n",
)
entry(
    id="cgroup-cpu-quota", area="machine",
    cause="the service runs in a control group with a CPU quota of a quarter of one processor: the backends are throttled most of the time while the machine is idle",
    mends="raise or remove the CPU quota (CPUQuota, cpu.cfs_quota_us / cpu.max, container limit)",
    spoil=PLACES + r"""
CREATE TABLE visits (id int PRIMARY KEY, site_id int NOT NULL, seconds int NOT NULL);
INSERT INTO visits SELECT i, i % 40, i % 900 FROM generate_series(1, 20000) i;
VACUUM ANALYZE visits;
\! if [ -d /sys/fs/cgroup/cpu ]; then G=/sys/fs/cgroup/cpu/postgresql-small; mkdir -p $G; echo 100000 > $G/cpu.cfs_period_us; echo 25000 > $G/cpu.cfs_quota_us; else G=/sys/fs/cgroup/postgresql-small; echo +cpu > /sys/fs/cgroup/cgroup.subtree_control; mkdir -p $G; echo "25000 100000" > $G/cpu.max; fi; P=$(head -n 1 $PRIMARY/postmaster.pid); for p in $P $(ps -o pid= --ppid $P); do echo $p > $G/cgroup.procs; done
\! G=$(ls -d /sys/fs/cgroup/cpu/postgresql-small /sys/fs/cgroup/postgresql-small 2>/dev/null | head -n 1); P=$(head -n 1 $PRIMARY/postmaster.pid); (while [ -d $G ] && [ "$(head -n 1 $PRIMARY/postmaster.pid)" = "$P" ]; do sleep 1; done; sleep 1; rmdir $G) </dev/null >/dev/null 2>&1 &""",
    load="SELECT site_id, count(*), avg(seconds) FROM visits GROUP BY site_id ORDER BY 2 DESC LIMIT 10;\n",
    mend=r"""\! G=$(ls -d /sys/fs/cgroup/cpu/postgresql-small /sys/fs/cgroup/postgresql-small 2>/dev/null | head -n 1); for k in 1 2 3; do for p in $(cat $G/cgroup.procs); do echo $p > $(dirname $G)/cgroup.procs; done; done; rmdir $G""",
)
entry(
    id="backup-on-same-disk", area="machine",
    cause="a backup job writes its archives, synchronously and four at a time, to the disk that holds the data directory and the WAL: every commit waits behind it for its flush",
    mends="put the archives (or pg_wal) on another disk, or limit the job's rate and priority",
    spoil="""CREATE TABLE click_log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id int NOT NULL, clicked_at timestamptz NOT NULL, target text NOT NULL);""",
    load="""\\set u random(1, 100000)
INSERT INTO click_log (user_id, clicked_at, target) VALUES (:u, now(), '/home');""",
    beside=PLACES + r"""
\! W=$(dirname $PRIMARY); for i in 1 2 3 4; do timeout --foreground 3 dd if=/dev/zero of=$W/archive.$i bs=1M count=100 oflag=dsync 2>/dev/null & done; wait; rm -f $W/archive.[1-4]""",
    mend=PLACES + r"""\! rm -f $(dirname $PRIMARY)/archive.[1-4]""", mend_beside="SELECT pg_sleep(1);\n",
)
