"""Twenty spoilt servers: the causes that an author, the first of three, meets most often.

For bench/spoilt.py PGASSAY --entries spoilt_blind9. The keys are those of spoilt_blind.py. The author knew neither what
pgassay looks for nor what was tried before, unlike those of spoilt_blind2.py to spoilt_blind8.py, who were to find other
causes each time; so what is common is here again. `factor` is what mending gained in the author's trials, with pgbench on
two CPUs that others used as well (PostgreSQL 15). small-work-mem and bulk-load-unanalyzed take seconds for each transaction:
within two seconds none ended, and they were tried again with time=15.
"""

import shlex

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"
# The server's data directory, for the shell.
DATADIR = "SELECT current_setting('data_directory') AS dir \\gset\n\\setenv DATADIR :dir\n"


# A psql script that writes a file (psql's \\! takes one line at a time).
def lines_to(path, text):
    return f"\\! rm -f {path}\n" + "".join(f"\\! echo {shlex.quote(line)} >> {path}\n" for line in text.strip().splitlines())


# ---------------------------------------------------------------- settings

entry(
    id="small-work-mem", area="settings", time=15,
    # factor 37.0
    cause="work_mem is 1MB: the hash of the report's NOT IN list doesn't fit, so that the planner gives up the hashed subplan and runs through the list for each row",
    mends="raise work_mem (for the reporting role or the server) so that the hash fits in memory (NOT EXISTS in the place of NOT IN would help as well)",
    settings={"work_mem": "1MB"},
    spoil="""
CREATE TABLE sale (id serial PRIMARY KEY, customer_no int NOT NULL, sold_at date NOT NULL, amount numeric(12,2) NOT NULL);
INSERT INTO sale (customer_no, sold_at, amount) SELECT 1 + g % 30000, date '2026-01-01' + g % 300, g % 500 FROM generate_series(1, 60000) g;
CREATE TABLE unsubscribed (customer_no int NOT NULL, since date NOT NULL);
INSERT INTO unsubscribed SELECT g * 2, date '2026-02-01' FROM generate_series(1, 100000) g;
CREATE INDEX sale_sold_at ON sale (sold_at);
VACUUM ANALYZE sale, unsubscribed;
""",
    load="""
SELECT count(*), sum(amount) FROM sale WHERE sold_at = date '2026-05-01' AND customer_no NOT IN (SELECT customer_no FROM unsubscribed);
""",
    mend_settings={"work_mem": "64MB"},
)

entry(
    id="spinning-disk-costs", area="settings",
    # factor 3.8
    cause="random_page_cost is 4 (PostgreSQL's value for spinning disks) and effective_cache_size only 64MB on a server whose data "
          "lies in memory and on SSD: the planner reads whole tables and hashes them where an index would do",
    mends="lower random_page_cost to about 1.1, raise effective_cache_size to what the machine caches",
    settings={"random_page_cost": "4", "effective_cache_size": "64MB"},
    spoil="""
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, placed_at timestamptz NOT NULL);
CREATE TABLE order_item (id bigserial PRIMARY KEY, order_id int NOT NULL, sku text NOT NULL, quantity int NOT NULL, price numeric(10,2),
  note text);
INSERT INTO orders SELECT g, 1 + (random() * 199)::int, now() - g * interval '3 minutes' FROM generate_series(1, 150000) g;
INSERT INTO order_item (order_id, sku, quantity, price, note)
  SELECT 1 + (random() * 149999)::int, 'SKU' || g % 5000, 1 + g % 5, (random() * 90)::numeric(10,2), repeat('n', 90)
  FROM generate_series(1, 400000) g;
CREATE INDEX orders_customer ON orders (customer_id);
CREATE INDEX order_item_order ON order_item (order_id);
VACUUM ANALYZE orders, order_item;
""",
    load="""
\\set c random(1, 199)
SELECT sum(i.quantity * i.price) FROM orders o JOIN order_item i ON i.order_id = o.id WHERE o.customer_id = :c;
""",
    mend_settings={"random_page_cost": "1.1"},
)

entry(
    id="auto-explain-everything", area="settings",
    # factor 4.8
    cause="auto_explain was left on after an investigation, with log_min_duration 0, log_analyze, log_timing, log_buffers and log_verbose: each statement is instrumented "
          "and its whole plan written to the log",
    mends="auto_explain.log_min_duration of a second or so (or -1), log_timing / log_analyze off, or take it out of shared_preload_libraries",
    preload="auto_explain,pg_stat_statements", mend_preload="pg_stat_statements", mend_settings={},
    settings={"auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on", "auto_explain.log_timing": "on", "auto_explain.log_buffers": "on",
              "auto_explain.log_verbose": "on", "auto_explain.log_nested_statements": "on", "auto_explain.log_settings": "on"},
    spoil="""
CREATE TABLE employee (id int PRIMARY KEY, team_id int NOT NULL, name text NOT NULL, salary numeric(10,2));
INSERT INTO employee SELECT g, g % 500, 'employee ' || g, 2000 + g % 3000 FROM generate_series(1, 50000) g;
CREATE INDEX employee_team ON employee (team_id);
CREATE FUNCTION net(gross numeric) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE rate numeric; BEGIN SELECT 0.3 INTO rate WHERE gross > 0; RETURN gross * (1 - rate); END $$;
VACUUM ANALYZE employee;
""",
    load="""
\\set t random(0, 499)
SELECT id, name, net(salary) FROM employee WHERE team_id = :t;
""",
)

entry(
    id="jit-short-queries", area="settings",
    # factor 2.7
    cause="jit is on at the usual thresholds: the catalogue's tree query takes some milliseconds, but is estimated far above jit_above_cost (a recursive "
          "query's rows are guessed), so each execution compiles for longer than it runs",
    mends="jit = off (or raise jit_above_cost) for this OLTP load",
    spoil="""
CREATE TABLE category (id int PRIMARY KEY, parent_id int, name text);
INSERT INTO category SELECT g, CASE WHEN g > 1 THEN (g + 8) / 10 END, 'category ' || g FROM generate_series(1, 11111) g;
CREATE INDEX category_parent ON category (parent_id);
CREATE TABLE product (id int PRIMARY KEY, category_id int NOT NULL, title text, active boolean NOT NULL);
INSERT INTO product SELECT g, 1 + g % 11111, 'product ' || g, g % 7 <> 0 FROM generate_series(1, 80000) g;
CREATE INDEX product_category ON product (category_id);
CREATE TABLE price (product_id int, valid_from date, amount numeric(10,2), PRIMARY KEY (product_id, valid_from));
INSERT INTO price SELECT p, date '2026-01-01' + 30 * m, (random() * 100)::numeric(10,2) FROM generate_series(1, 80000) p, generate_series(1, 3) m;
VACUUM ANALYZE category, product, price;
""",
    load="""
\\set c random(200, 1100)
WITH RECURSIVE tree AS (
  SELECT id, name, 1 AS depth FROM category WHERE parent_id = :c
  UNION ALL SELECT k.id, k.name, t.depth + 1 FROM category k JOIN tree t ON k.parent_id = t.id)
SELECT t.name, count(*), min(r.amount), max(r.amount) FROM tree t JOIN product p ON p.category_id = t.id
 CROSS JOIN LATERAL (SELECT amount FROM price WHERE product_id = p.id AND valid_from <= current_date ORDER BY valid_from DESC LIMIT 1) r
 WHERE p.active GROUP BY t.name ORDER BY t.name;
""",
    mend_settings={"jit": "off"},
)

# ---------------------------------------------------------------- statements

entry(
    id="function-on-timestamp", area="statements",
    # factor 74.8
    cause="the day's bookings are looked up by date(starts_at) = ..., a function on the column, so that the index on starts_at can't serve",
    mends="write the condition as a range on the bare column (starts_at >= day AND starts_at < day + 1), or index the expression",
    spoil="""
CREATE TABLE booking (id bigserial PRIMARY KEY, room_id int NOT NULL, guest text, starts_at timestamp NOT NULL);
INSERT INTO booking (room_id, guest, starts_at)
  SELECT g % 400, 'guest ' || g, timestamp '2024-01-01' + random() * 900 * interval '1 day' FROM generate_series(1, 300000) g;
CREATE INDEX booking_starts_at ON booking (starts_at);
VACUUM ANALYZE booking;
""",
    load="""
\\set d random(1, 890)
SELECT room_id, guest FROM booking WHERE date(starts_at) = date '2024-01-01' + :d::int ORDER BY starts_at;
""",
    mend_load="""
\\set d random(1, 890)
SELECT room_id, guest FROM booking WHERE starts_at >= date '2024-01-01' + :d::int AND starts_at < date '2024-01-01' + :d::int + 1 ORDER BY starts_at;
""",
)

entry(
    id="deep-offset-paging", area="statements",
    # factor 247.3
    cause="the export walks through the articles by LIMIT 50 OFFSET n: each page reads and throws away all rows before it",
    mends="keyset pagination: WHERE id > the last page's last id ORDER BY id LIMIT 50 (or a cursor)",
    spoil="""
CREATE TABLE article (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL, published_at timestamptz NOT NULL);
INSERT INTO article SELECT g, 'title ' || g, repeat('lorem ipsum ', 12), now() - g * interval '1 minute' FROM generate_series(1, 300000) g;
VACUUM ANALYZE article;
""",
    load="""
\\set page random(100, 5900)
SELECT id, title, published_at FROM article ORDER BY id LIMIT 50 OFFSET 50 * :page;
""",
    mend_load="""
\\set page random(100, 5900)
SELECT id, title, published_at FROM article WHERE id > 50 * :page ORDER BY id LIMIT 50;
""",
)

entry(
    id="numeric-typed-parameter", area="statements",
    # factor 497.1
    cause="the driver binds the invoice number as numeric (BigDecimal) against a bigint column: the column is cast to numeric for the comparison "
          "and its index is of no use",
    mends="bind the parameter in the column's type (bigint), or cast the parameter: invoice_no = $1::bigint",
    spoil="""
CREATE TABLE invoice (invoice_no bigint PRIMARY KEY, customer_id int NOT NULL, total numeric(12,2) NOT NULL, issued_on date NOT NULL);
INSERT INTO invoice SELECT 20260000000 + g, g % 9000, (random() * 1000)::numeric(12,2), date '2026-01-01' + g % 300 FROM generate_series(1, 300000) g;
VACUUM ANALYZE invoice;
""",
    load="""
\\set n random(1, 300000)
SELECT customer_id, total, issued_on FROM invoice WHERE invoice_no = (20260000000 + :n)::numeric;
""",
    mend_load="""
\\set n random(1, 300000)
SELECT customer_id, total, issued_on FROM invoice WHERE invoice_no = (20260000000 + :n)::bigint;
""",
)

entry(
    id="or-across-tables", area="statements",
    # factor 1194
    cause="the service desk's search box asks for o.order_no = x OR c.phone = x over a join: an OR between two tables' columns can use neither index, so both tables "
          "are read and joined whole before the filter",
    mends="write two selects, one for each condition, joined by UNION: each uses its own index",
    spoil="""
CREATE TABLE client (id int PRIMARY KEY, name text NOT NULL, phone text NOT NULL);
CREATE TABLE purchase (id int PRIMARY KEY, client_id int NOT NULL, order_no text NOT NULL, placed_at timestamptz NOT NULL);
INSERT INTO client SELECT g, 'client ' || g, '+49 30 ' || 100000 + g FROM generate_series(1, 50000) g;
INSERT INTO purchase SELECT g, 1 + g % 50000, 'PO-' || g, now() - g * interval '3 minutes' FROM generate_series(1, 150000) g;
CREATE INDEX client_phone ON client (phone);
CREATE INDEX purchase_order_no ON purchase (order_no);
CREATE INDEX purchase_client ON purchase (client_id);
VACUUM ANALYZE client, purchase;
""",
    load="""
\\set n random(1, 150000)
SELECT p.order_no, p.placed_at, c.name FROM purchase p JOIN client c ON c.id = p.client_id WHERE p.order_no = 'PO-' || :n::int OR c.phone = 'PO-' || :n::int;
""",
    mend_load="""
\\set n random(1, 150000)
SELECT p.order_no, p.placed_at, c.name FROM purchase p JOIN client c ON c.id = p.client_id WHERE p.order_no = 'PO-' || :n::int
UNION SELECT p.order_no, p.placed_at, c.name FROM purchase p JOIN client c ON c.id = p.client_id WHERE c.phone = 'PO-' || :n::int;
""",
)

# ---------------------------------------------------------------- schema

entry(
    id="foreign-key-unindexed", area="schema",
    # factor 7.0
    cause="basket_item.basket_id references basket ON DELETE CASCADE without an index on it: each deletion of a basket reads all items",
    mends="CREATE INDEX ON basket_item (basket_id)",
    spoil="""
CREATE TABLE basket (id bigint PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE basket_item (id bigserial PRIMARY KEY, basket_id bigint NOT NULL REFERENCES basket ON DELETE CASCADE, sku text NOT NULL, quantity int NOT NULL);
INSERT INTO basket SELECT g FROM generate_series(1, 50000) g;
INSERT INTO basket_item (basket_id, sku, quantity) SELECT 1 + g % 50000, 'SKU' || g % 3000, 1 + g % 4 FROM generate_series(1, 200000) g;
VACUUM ANALYZE basket, basket_item;
""",
    load="""
\\set b random(1000000, 1000000000000)
BEGIN;
INSERT INTO basket (id) VALUES (:b);
INSERT INTO basket_item (basket_id, sku, quantity) VALUES (:b, 'SKU17', 1), (:b, 'SKU99', 2);
COMMIT;
DELETE FROM basket WHERE id = :b;
""",
    mend="CREATE INDEX basket_item_basket ON basket_item (basket_id);",
)

entry(
    id="bulk-load-unanalyzed", area="schema", time=15,
    # factor 623.8
    cause="the nightly import loaded today's rows with autovacuum turned off for the tables, and nobody ran ANALYZE: by the old statistics there is no row of "
          "today, the planner expects one and joins the two sets by nested loop",
    mends="ANALYZE payment and settlement (at the import's end), and turn the tables' autovacuum on again",
    spoil="""
CREATE TABLE payment (id bigserial PRIMARY KEY, reference text NOT NULL, booked_on date NOT NULL, amount numeric(12,2));
CREATE TABLE settlement (id bigserial PRIMARY KEY, reference text NOT NULL, booked_on date NOT NULL, amount numeric(12,2));
ALTER TABLE payment SET (autovacuum_enabled = off);
ALTER TABLE settlement SET (autovacuum_enabled = off);
INSERT INTO payment (reference, booked_on, amount) SELECT 'R' || g, date '2026-08-01' + g % 90, g % 700 FROM generate_series(1, 100000) g;
INSERT INTO settlement (reference, booked_on, amount) SELECT 'R' || g, date '2026-08-01' + g % 90, g % 700 FROM generate_series(1, 100000) g;
CREATE INDEX payment_booked ON payment (booked_on);
CREATE INDEX settlement_booked ON settlement (booked_on);
VACUUM ANALYZE payment, settlement;
INSERT INTO payment (reference, booked_on, amount) SELECT 'T' || g, date '2026-11-20', g % 700 FROM generate_series(1, 3000) g;
INSERT INTO settlement (reference, booked_on, amount) SELECT 'T' || g, date '2026-11-20', g % 700 FROM generate_series(1, 3000) g;
""",
    load="""
SELECT count(*), sum(p.amount - s.amount) FROM payment p JOIN settlement s ON s.reference = p.reference
 WHERE p.booked_on = date '2026-11-20' AND s.booked_on = date '2026-11-20';
""",
    mend="""
ANALYZE payment;
ANALYZE settlement;
ALTER TABLE payment RESET (autovacuum_enabled);
ALTER TABLE settlement RESET (autovacuum_enabled);
""",
)

entry(
    id="bloated-session-table", area="schema",
    # factor 6.9
    cause="autovacuum is turned off for user_session, whose rows come and go: the table is some 90 MB for a few thousand live rows, "
          "and every count reads the dead space",
    mends="turn the table's autovacuum on again, and VACUUM FULL (or pg_repack) once",
    spoil="""
CREATE TABLE user_session (id bigserial PRIMARY KEY, user_id int NOT NULL, token text NOT NULL, data text, last_seen timestamptz NOT NULL)
  WITH (autovacuum_enabled = off);
INSERT INTO user_session (user_id, token, data, last_seen)
  SELECT g % 20000, md5(g::text), repeat('x', 200), now() - g * interval '1 second' FROM generate_series(1, 280000) g;
DELETE FROM user_session WHERE id % 50 <> 0;
ANALYZE user_session;
""",
    load="""
\\set m random(10, 3000)
SELECT count(*), count(DISTINCT user_id) FROM user_session WHERE last_seen > now() - :m * interval '1 minute';
""",
    mend="""
ALTER TABLE user_session RESET (autovacuum_enabled);
VACUUM FULL ANALYZE user_session;
""",
)

entry(
    id="unused-indexes", area="schema",
    # factor 4.7
    cause="the event table carries fourteen secondary indexes that no statement reads: each insert has to keep all of them",
    mends="drop the unused indexes (idx_scan = 0, none of them a constraint's)",
    spoil="""
CREATE TABLE click_event (id bigserial PRIMARY KEY, visitor uuid NOT NULL, page int NOT NULL, referrer text, campaign text, country text, device text,
  browser text, amount numeric(8,2), score float, happened_at timestamptz NOT NULL DEFAULT now());
INSERT INTO click_event (visitor, page, referrer, campaign, country, device, browser, amount, score)
  SELECT gen_random_uuid(), (random() * 5000)::int, md5(random()::text), md5(random()::text), md5((g % 200)::text), md5((g % 30)::text),
    md5(random()::text), (random() * 100)::numeric(8,2), random() FROM generate_series(1, 60000) g;
CREATE INDEX click_visitor ON click_event (visitor); CREATE INDEX click_page ON click_event (page);
CREATE INDEX click_referrer ON click_event (referrer); CREATE INDEX click_campaign ON click_event (campaign);
CREATE INDEX click_country ON click_event (country); CREATE INDEX click_device ON click_event (device);
CREATE INDEX click_browser ON click_event (browser); CREATE INDEX click_amount ON click_event (amount);
CREATE INDEX click_score ON click_event (score); CREATE INDEX click_campaign_country ON click_event (campaign, country);
CREATE INDEX click_browser_device ON click_event (browser, device); CREATE INDEX click_referrer_campaign ON click_event (referrer, campaign);
CREATE INDEX click_page_visitor ON click_event (page, visitor); CREATE INDEX click_country_score ON click_event (country, score);
VACUUM ANALYZE click_event;
""",
    load="""
INSERT INTO click_event (visitor, page, referrer, campaign, country, device, browser, amount, score)
  SELECT gen_random_uuid(), (random() * 5000)::int, md5(random()::text), md5(random()::text), md5((g % 200)::text), md5((g % 30)::text),
    md5(random()::text), (random() * 100)::numeric(8,2), random() FROM generate_series(1, 100) g;
""",
    mend="""
DROP INDEX click_visitor, click_page, click_referrer, click_campaign, click_country, click_device, click_browser, click_amount, click_score,
  click_campaign_country, click_browser_device, click_referrer_campaign, click_page_visitor, click_country_score;
""",
)

# ---------------------------------------------------------------- workload

entry(
    id="connection-per-request", area="workload",
    # factor 202.2
    cause="the application opens a new connection for every request: fork, authentication and cold catalogue caches cost far more than the query",
    mends="a connection pool (in the application or pgbouncer): connections that stay open",
    role="app", args=["-C"], mend_args=[],
    spoil="""
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, city text);
INSERT INTO customer SELECT g, 'customer ' || g, 'city ' || g % 300 FROM generate_series(1, 50000) g;
VACUUM ANALYZE customer;
GRANT SELECT ON customer TO app;
""",
    load="""
\\set c random(1, 50000)
SELECT name, city FROM customer WHERE id = :c;
""",
)

entry(
    id="outside-call-under-lock", area="workload",
    # factor 6.7
    cause="each order first updates the shop's one counter row, then calls the payment provider (some 8 ms) and only then commits: the row's lock is held "
          "meanwhile, idle in transaction, and all other orders queue for it",
    mends="call the outside service before the transaction (or after it), update the contended row last and commit at once",
    clients=8, role="app",
    spoil="""
CREATE TABLE shop_counter (shop_id int PRIMARY KEY, next_order_no bigint NOT NULL);
INSERT INTO shop_counter VALUES (1, 1000);
CREATE TABLE shop_order (shop_id int, order_no bigint, customer_id int, placed_at timestamptz DEFAULT now(), PRIMARY KEY (shop_id, order_no));
GRANT SELECT, INSERT, UPDATE ON shop_counter, shop_order TO app;
""",
    load="""
\\set c random(1, 50000)
BEGIN;
UPDATE shop_counter SET next_order_no = next_order_no + 1 WHERE shop_id = 1;
INSERT INTO shop_order (shop_id, order_no, customer_id) SELECT 1, next_order_no, :c FROM shop_counter WHERE shop_id = 1;
\\sleep 8 ms
COMMIT;
""",
    mend_load="""
\\set c random(1, 50000)
\\sleep 8 ms
BEGIN;
UPDATE shop_counter SET next_order_no = next_order_no + 1 WHERE shop_id = 1;
INSERT INTO shop_order (shop_id, order_no, customer_id) SELECT 1, next_order_no, :c FROM shop_counter WHERE shop_id = 1;
COMMIT;
""",
)

entry(
    id="forgotten-open-transaction", area="workload",
    # factor 2.9
    cause="a session opened a repeatable read transaction, read, and sits idle in transaction: its snapshot keeps every old version of the "
          "stock rows, which are updated all the time, so that they can be neither pruned nor vacuumed",
    mends="end the idle transaction (pg_terminate_backend; idle_in_transaction_session_timeout; mend the client that doesn't commit), then VACUUM",
    warmup=3,
    spoil="""
CREATE TABLE stock (article_id int PRIMARY KEY, on_hand bigint NOT NULL, changed_at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 50);
INSERT INTO stock SELECT g, 100000 FROM generate_series(1, 2000) g;
VACUUM ANALYZE stock;
""",
    beside="""
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(on_hand) FROM stock;
\\! sleep 60
COMMIT;
""",
    load="""
\\set a random(1, 450)
UPDATE stock SET on_hand = on_hand - 1, changed_at = now() WHERE article_id BETWEEN :client_id * 500 + :a AND :client_id * 500 + :a + 50;
SELECT count(*), sum(on_hand) FROM stock WHERE on_hand > 0;
""",
    mend="VACUUM FULL ANALYZE stock;",
    mend_beside="",
)

# ---------------------------------------------------------------- replication

# A standby in $STANDBY of the server in $DATADIR; it ends, and its files go, with the server (or at a file named stop).
STANDBY = lines_to("$STANDBY.sh", r"""
BIN=/usr/lib/postgresql/15/bin; P="setpriv --reuid postgres --regid postgres --clear-groups"; cd /
rm -rf $STANDBY; $P $BIN/pg_basebackup -h $SOURCE -U postgres -D $STANDBY -X stream -c fast $SLOTARGS || exit 1
cat >> $STANDBY/postgresql.auto.conf <<CONF
primary_conninfo = 'host=$SOURCE user=postgres application_name=$NAME'
primary_slot_name = '$SLOT'
unix_socket_directories = '$STANDBY'
shared_buffers = '32MB'
shared_preload_libraries = ''
hot_standby_feedback = on
wal_receiver_status_interval = 1
synchronous_standby_names = ''
CONF
touch $STANDBY/standby.signal; chown postgres:postgres $STANDBY/standby.signal
$P $BIN/pg_ctl -D $STANDBY -l $STANDBY/log -w start
(M=$(head -1 $DATADIR/postmaster.pid)
 while kill -0 $M 2>/dev/null && [ ! -e $STANDBY/stop ]; do sleep 0.3; done
 $P $BIN/pg_ctl -D $STANDBY -m immediate -w stop; [ -z "$RELAY" ] || kill $RELAY; rm -rf $STANDBY $STANDBY.*) &
""") + r"""
\! sh $STANDBY.sh >/dev/null 2>&1 </dev/null
"""

entry(
    id="far-synchronous-standby", area="replication",
    # factor 7.9
    cause="the one synchronous standby stands in another region, some 20 ms away: every commit waits for a round trip to it",
    mends="synchronous replication only to a near standby (synchronous_standby_names), or asynchronous (synchronous_commit = local, or no names) to the far one",
    spoil=DATADIR + SHELL + r"""
CREATE TABLE ledger (id bigserial PRIMARY KEY, account int NOT NULL, amount numeric(12,2) NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ledger_account ON ledger (account);
INSERT INTO ledger (account, amount) SELECT g % 500, g % 90 FROM generate_series(1, 20000) g;
\setenv STANDBY /tmp/blind9-far
\setenv NAME region_b
\! rm -rf /tmp/blind9-far*; mkdir -m 777 /tmp/blind9-far.net
""" + lines_to("/tmp/blind9-far.py", """
import asyncio, os, sys
async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            asyncio.get_running_loop().call_later(0.01, writer.write, data)
    finally:
        asyncio.get_running_loop().call_later(0.02, writer.close)
async def link(reader, writer):
    r, w = await asyncio.open_unix_connection(os.environ['PGHOST'] + '/.s.PGSQL.5432')
    await asyncio.gather(pipe(reader, w), pipe(r, writer))
async def main():
    server = await asyncio.start_unix_server(link, '/tmp/blind9-far.net/.s.PGSQL.5432')
    os.chmod('/tmp/blind9-far.net/.s.PGSQL.5432', 0o777)
    await server.serve_forever()
asyncio.run(main())
""") + r"""
\! python3 /tmp/blind9-far.py >/dev/null 2>&1 </dev/null & echo $! > /tmp/blind9-far.pid; sleep 0.7
\setenv SOURCE /tmp/blind9-far.net
""" + STANDBY.replace("BIN=", "RELAY=$(cat $STANDBY.pid); BIN=", 1) + r"""
ALTER SYSTEM SET synchronous_standby_names = 'region_b';
SELECT pg_reload_conf();
""",
    load="""
\\set a random(1, 500)
INSERT INTO ledger (account, amount) VALUES (:a, 12.5);
""",
    mend=r"""
ALTER SYSTEM RESET synchronous_standby_names;
SELECT pg_reload_conf();
\! touch /tmp/blind9-far/stop; sleep 1.5
""",
)

entry(
    id="abandoned-slot-xmin", area="replication",
    # factor 6.2
    cause="the replication slot of a standby that was taken away (with hot_standby_feedback) still holds its xmin: vacuum may not remove anything that died since, "
          "and each fetch from the job queue wades through the dead jobs at the index's head",
    mends="drop the abandoned slot (pg_drop_replication_slot), then VACUUM the queue",
    spoil=DATADIR + SHELL + r"""
CREATE TABLE job (id bigserial PRIMARY KEY, kind text NOT NULL, payload text, created_at timestamptz NOT NULL DEFAULT now());
INSERT INTO job (kind, payload) SELECT 'mail', 'hello' FROM generate_series(1, 10) g;
SELECT pg_create_physical_replication_slot('standby_old');
\setenv STANDBY /tmp/blind9-old
\setenv NAME standby_old
\setenv SLOT standby_old
\setenv SOURCE :HOST
""" + STANDBY + r"""
SELECT txid_current();
\! sleep 2.5
\! touch /tmp/blind9-old/stop; while [ -e /tmp/blind9-old ]; do sleep 0.2; done
INSERT INTO job (kind, payload) SELECT 'mail', 'hello ' || g FROM generate_series(1, 60000) g;
DELETE FROM job WHERE id <= 60000;
INSERT INTO job (kind, payload) SELECT 'mail', 'hello ' || g FROM generate_series(1, 500) g;
VACUUM ANALYZE job;
""",
    load="""
BEGIN;
DELETE FROM job WHERE id = (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
INSERT INTO job (kind, payload) VALUES ('mail', 'hello again');
COMMIT;
""",
    mend="""
SELECT pg_drop_replication_slot('standby_old');
VACUUM ANALYZE job;
""",
)

entry(
    id="replica-identity-full", area="replication",
    # factor 2.5
    cause="for change data capture, document has REPLICA IDENTITY FULL although it has a primary key: each update of the small status column writes the whole old row, the large "
          "out-of-line body included, to the WAL",
    mends="ALTER TABLE document REPLICA IDENTITY DEFAULT (the primary key)",
    settings={"wal_level": "logical"},
    spoil="""
CREATE TABLE document (id int PRIMARY KEY, status text NOT NULL, views int NOT NULL DEFAULT 0, body text NOT NULL) WITH (fillfactor = 70);
ALTER TABLE document ALTER body SET STORAGE EXTERNAL;
INSERT INTO document SELECT g, 'draft', 0, (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 1500) i) FROM generate_series(1, 1500) g;
ALTER TABLE document REPLICA IDENTITY FULL;
CREATE PUBLICATION cdc FOR TABLE document;
VACUUM ANALYZE document;
""",
    load="""
\\set d random(1, 1500)
UPDATE document SET status = 'published', views = views + 1 WHERE id = :d;
""",
    mend="ALTER TABLE document REPLICA IDENTITY DEFAULT;",
)

# ---------------------------------------------------------------- machine

entry(
    id="backup-compresses-here", area="machine",
    # factor 4.3
    cause="the backup job runs on the database's machine at business hours and compresses with gzip -9 in eight processes, at the same priority: "
          "the backends hardly get a CPU",
    mends="move the compression elsewhere or to a quiet hour, fewer processes, a lighter compression, nice",
    spoil="""
CREATE TABLE account (id int PRIMARY KEY, owner text, balance numeric(12,2));
INSERT INTO account SELECT g, 'owner ' || g, g % 1000 FROM generate_series(1, 100000) g;
VACUUM ANALYZE account;
""",
    beside=r"""
\! for n in 1 2 3 4 5 6 7 8; do setsid timeout 1 gzip -9 -c /usr/lib/postgresql/15/bin/postgres /usr/lib/postgresql/15/bin/postgres /usr/lib/postgresql/15/bin/postgres > /dev/null & done; wait
""",
    load="""
\\set a random(1, 99000)
SELECT sum(balance) FROM account WHERE id BETWEEN :a AND :a + 800;
""",
    mend="\\! sleep 1.5",
    mend_beside="",
)

entry(
    id="container-cpu-quota", area="machine",
    # factor 3.8
    cause="the server's control group has a CPU quota of 0.1 CPU (cpu.cfs_quota_us): its processes are throttled for most of each period while the machine idles",
    mends="raise or lift the control group's CPU quota (the container's CPU limit)",
    spoil=DATADIR + r"""
CREATE TABLE flight (id int PRIMARY KEY, origin text, seats int);
INSERT INTO flight SELECT g, 'A' || g % 300, g % 250 FROM generate_series(1, 100000) g;
VACUUM ANALYZE flight;
""" + lines_to("/tmp/blind9-quota.sh", r"""
G=/sys/fs/cgroup/cpu/blind9-postgres; M=$(head -1 $DATADIR/postmaster.pid)
mkdir -p $G; echo 100000 > $G/cpu.cfs_period_us; echo 10000 > $G/cpu.cfs_quota_us
for p in $M $(pgrep -P $M); do echo $p > $G/cgroup.procs; done
(while kill -0 $M 2>/dev/null; do sleep 0.3; done; sleep 0.5; rmdir $G; rm -f /tmp/blind9-quota.sh) &
""") + r"""
\! sh /tmp/blind9-quota.sh >/dev/null 2>&1 </dev/null
""",
    load="""
\\set a random(1, 99000)
SELECT sum(seats) FROM flight WHERE id BETWEEN :a AND :a + 900;
""",
    mend=r"""
\! echo -1 > /sys/fs/cgroup/cpu/blind9-postgres/cpu.cfs_quota_us
""",
)
