"""Twenty more spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind6. The keys are those of spoilt_blind.py. None of the causes is one of
spoilt_entries.py or of spoilt_blind.py to spoilt_blind5.py. The two entries of the area machine need root and a cgroup of
version 1 or 2 (with the controllers io and cpu); only version 1 was tried.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"

# ------------------------------------------------------------------- settings

entry(
    id="seqscan-forbidden", area="settings",
    cause="enable_seqscan is off on the whole server (it had made one report use its index): a sequential scan then counts as 10,000,000,000; the small "
          "lists without an index can be read in no other way, so that each little statement over them is above all thresholds of cost for JIT, and is compiled.",
    mends="Set enable_seqscan back to on (to make a report use an index: mend statistics, costs or the index; at most SET LOCAL for it). "
          "jit = off would only take away the worst of it.",
    settings={"enable_seqscan": "off"},
    spoil="""
CREATE TABLE holiday (country char(2) NOT NULL, day date NOT NULL, name text NOT NULL);
INSERT INTO holiday SELECT (ARRAY['DE', 'AT', 'CH', 'FR', 'IT'])[1 + g % 5], date '2025-01-01' + g * 5, 'Holiday ' || g FROM generate_series(1, 140) g;
CREATE TABLE carrier_cutoff (country char(2) NOT NULL, carrier text NOT NULL, cutoff time NOT NULL, days int NOT NULL);
INSERT INTO carrier_cutoff SELECT (ARRAY['DE', 'AT', 'CH', 'FR', 'IT'])[1 + g % 5], 'Carrier ' || g % 8, time '12:00' + g * interval '7 minutes', 1 + g % 4
  FROM generate_series(1, 60) g;
VACUUM ANALYZE holiday; VACUUM ANALYZE carrier_cutoff;
""",
    load="""
\\set d random(0, 700)
SELECT c.carrier, min(c.days), count(h.day) FROM carrier_cutoff c
  LEFT JOIN holiday h ON h.country = c.country AND h.day BETWEEN date '2025-01-01' + :d::int AND date '2025-01-01' + :d::int + c.days
 WHERE c.country = 'DE' GROUP BY c.carrier ORDER BY 2;
""",
    mend_settings={},
)

entry(
    id="partitionwise-join", area="settings", protocol="simple",
    cause="enable_partitionwise_join (and …_aggregate) were switched on for the whole server, for the sake of the nightly reports: to find one order by its number, "
          "with its lines and parcels, the planner plans the join for each of the 60 months separately, with all their paths; planning takes nearly all the time.",
    mends="Leave enable_partitionwise_join and enable_partitionwise_aggregate off and set them for the reports only (SET LOCAL, ALTER ROLE reports SET …); prepared "
          "statements, or the month in the condition, make it cheaper too.",
    settings={"enable_partitionwise_join": "on", "enable_partitionwise_aggregate": "on"},
    spoil="""
CREATE TABLE orders (id int NOT NULL, month int NOT NULL, order_no int NOT NULL, customer int NOT NULL, PRIMARY KEY (id, month)) PARTITION BY RANGE (month);
CREATE TABLE line (order_id int NOT NULL, month int NOT NULL, line int NOT NULL, article int NOT NULL, PRIMARY KEY (order_id, line, month)) PARTITION BY RANGE (month);
CREATE TABLE parcel (id int NOT NULL, month int NOT NULL, order_id int NOT NULL, weight int NOT NULL, PRIMARY KEY (order_id, id, month)) PARTITION BY RANGE (month);
DO $$ BEGIN
  FOR m IN 0..59 LOOP
    EXECUTE format('CREATE TABLE orders_%s PARTITION OF orders FOR VALUES FROM (%s) TO (%s)', m, m, m + 1);
    EXECUTE format('CREATE TABLE line_%s PARTITION OF line FOR VALUES FROM (%s) TO (%s)', m, m, m + 1);
    EXECUTE format('CREATE TABLE parcel_%s PARTITION OF parcel FOR VALUES FROM (%s) TO (%s)', m, m, m + 1);
  END LOOP;
END $$;
INSERT INTO orders SELECT g, g % 60, g, g % 900 FROM generate_series(1, 12000) g;
INSERT INTO line SELECT g, g % 60, l, (g * l) % 700 FROM generate_series(1, 12000) g, generate_series(1, 3) l;
INSERT INTO parcel SELECT g, g % 60, g, g % 31 FROM generate_series(1, 12000) g;
CREATE INDEX ON orders (order_no);
VACUUM ANALYZE orders; VACUUM ANALYZE line; VACUUM ANALYZE parcel;
""",
    load="""
\\set n random(1, 12000)
SELECT o.id, o.customer, l.line, l.article, p.weight FROM orders o JOIN line l ON l.order_id = o.id AND l.month = o.month
  JOIN parcel p ON p.order_id = o.id AND p.month = o.month WHERE o.order_no = :n;
""",
    mend_settings={},
)

entry(
    id="cursor-tuple-fraction-one", area="settings", protocol="simple",
    cause="cursor_tuple_fraction is 1.0 on the server, because the export reads its cursors to the end: the program's lists, of which the first 50 rows are fetched from a cursor, "
          "are planned as if all rows were fetched, so the whole list is read and sorted instead of walking along the index that gives the first rows at once.",
    mends="Set cursor_tuple_fraction back to 0.1 (and to 1.0 in the export's session or role only); or say LIMIT in the lists' statements.",
    settings={"cursor_tuple_fraction": "1.0"},
    spoil="""
CREATE TABLE message (id int PRIMARY KEY, folder int NOT NULL, received timestamp NOT NULL, subject text NOT NULL);
INSERT INTO message SELECT g, g % 8, timestamp '2023-01-01' + ((g::bigint * 7919) % 120011) * interval '5 minutes', 'Subject of the message ' || g
  FROM generate_series(1, 80000) g;
CREATE INDEX ON message (folder);
CREATE INDEX ON message (received);
VACUUM ANALYZE message;
""",
    load="""
\\set f random(0, 7)
BEGIN;
DECLARE list CURSOR FOR SELECT id, received, subject FROM message WHERE folder = :f ORDER BY received DESC;
FETCH 50 FROM list;
CLOSE list;
COMMIT;
""",
    mend_settings={},
)

entry(
    id="never-vacuumed-map", area="settings",
    cause="autovacuum_vacuum_insert_threshold is -1 ('there is nothing to vacuum in a table that is only inserted into'): the visibility map of the table stays empty, so that an index-only scan "
          "has to look at the table for each of the entries, which lie strewn over it.",
    mends="Set autovacuum_vacuum_insert_threshold back (1000) and VACUUM the table.",
    settings={"autovacuum_vacuum_insert_threshold": "-1"},
    spoil="""
CREATE TABLE hit (id int NOT NULL, site int NOT NULL, ms int NOT NULL, agent text NOT NULL);
INSERT INTO hit SELECT g, (g::bigint * 7919) % 40, g % 3000, 'Mozilla/5.0 (X11; Linux x86_64) as seen by the gateway, with all that belongs to it ' || repeat('x', 100) FROM generate_series(1, 120000) g;
CREATE INDEX ON hit (site, ms);
ANALYZE hit;
""",
    load="""
\\set s random(0, 39)
SELECT count(*), sum(ms) FROM hit WHERE site = :s;
""",
    mend_settings={},
    mend="VACUUM hit;",
)

# ----------------------------------------------------------------- statements

_moving = """
\\set s random(0, 19)
SELECT max(mean) FROM (
  SELECT at, avg(%s) OVER (ORDER BY at ROWS BETWEEN 999 PRECEDING AND CURRENT ROW) AS mean FROM reading WHERE sensor = :s) m;
"""
entry(
    id="moving-average-of-floats", area="statements",
    cause="The moving average over 1,000 values is computed by avg() OVER (… ROWS BETWEEN 999 PRECEDING …) of a double precision column: for float8 the sum has no inverse "
          "(a value can't be taken out again), so that for each row all 1,000 values of its window are added up anew.",
    mends="avg(value::numeric) (or an integer in a smaller unit): for these the value that leaves the window is subtracted; or the difference of two running sums.",
    spoil="""
CREATE TABLE reading (sensor int NOT NULL, at timestamp NOT NULL, value float8 NOT NULL, PRIMARY KEY (sensor, at));
INSERT INTO reading SELECT s, timestamp '2025-01-01' + g * interval '1 minute', 20 + (g * 31 % 100) / 10.0 FROM generate_series(0, 19) s, generate_series(1, 3000) g;
VACUUM ANALYZE reading;
""",
    load=_moving % "value",
    mend_load=_moving % "value::numeric",
)

_words = """
CREATE TABLE paper (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL);
INSERT INTO paper SELECT p, 'Paper ' || p, (SELECT string_agg((ARRAY['the', 'measuring', 'valves', 'of', 'engines', 'running', 'slowly', 'under', 'pressures', 'and', 'heating'])
      [1 + (p * n * 31) % 11] || CASE WHEN n % 3 = 0 THEN ' word' || (p * 17 + n * n) % 1500 ELSE '' END, ' ') FROM generate_series(1, 300) n)
  FROM generate_series(1, 2500) p;
"""
entry(
    id="rank-parses-the-text", area="statements",
    cause="The search orders its hits by ts_rank(to_tsvector('english', body), query). The GIN index on to_tsvector('english', body) finds the hits, but holds no "
          "positions to rank by, so the text of each of the hundreds of hits is parsed and stemmed anew to give the first ten.",
    mends="Keep the tsvector in a column (GENERATED ALWAYS AS (to_tsvector('english', body)) STORED) with the GIN index on it, and rank by that column.",
    spoil=_words + """
CREATE INDEX paper_search ON paper USING gin (to_tsvector('english', body));
VACUUM ANALYZE paper;
""",
    load="""
\\set w random(0, 1499)
SELECT id, title, ts_rank(to_tsvector('english', body), q) AS rank FROM paper, plainto_tsquery('english', 'word' || :w) q
 WHERE to_tsvector('english', body) @@ q ORDER BY rank DESC LIMIT 10;
""",
    mend="""
DROP INDEX paper_search;
ALTER TABLE paper ADD search tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED;
CREATE INDEX paper_search ON paper USING gin (search);
VACUUM ANALYZE paper;
""",
    mend_load="""
\\set w random(0, 1499)
SELECT id, title, ts_rank(search, q) AS rank FROM paper, plainto_tsquery('english', 'word' || :w) q
 WHERE search @@ q ORDER BY rank DESC LIMIT 10;
""",
)

_batch = """
\\set b random(0, 49)
SELECT c.id FROM comment c WHERE c.batch = :b AND %s;
"""
entry(
    id="blocklist-of-patterns", area="statements",
    cause="New comments are held against a list of 200 regular expressions in a table, body ~* pattern: a session keeps the last 32 compiled expressions only, so that for "
          "each comment each of the 200 is compiled anew, which takes far longer than to match it.",
    mends="One expression for all (string_agg(pattern, '|')), which stays compiled; or words in the place of patterns (lower(body) LIKE, a text search), or the matching in the application.",
    spoil="""
CREATE TABLE comment (id int PRIMARY KEY, batch int NOT NULL, body text NOT NULL);
INSERT INTO comment SELECT g, g % 50, 'I have read this with some interest, number ' || g || ', and would like to hear more about it.' FROM generate_series(1, 1000) g;
CREATE INDEX ON comment (batch);
CREATE TABLE blocklist (id int PRIMARY KEY, pattern text NOT NULL);
INSERT INTO blocklist SELECT g, '(cheap|free|best)\\s+' || substr(md5(g::text), 1, 7) || 's?' FROM generate_series(1, 200) g;
VACUUM ANALYZE comment; VACUUM ANALYZE blocklist;
""",
    load=_batch % "EXISTS (SELECT FROM blocklist b WHERE c.body ~* b.pattern)",
    mend_load=_batch % "c.body ~* (SELECT string_agg(pattern, '|' ORDER BY id) FROM blocklist)",
)

_page = """
CREATE OR REPLACE FUNCTION booking_page(p_booking int) RETURNS text LANGUAGE plpgsql STABLE AS $f$
DECLARE page text;
BEGIN
  %s
  RETURN page;
END $f$;
"""
_booking = """SELECT b.id || g.name || r.name || h.name || c.name || n.name || t.name %s FROM booking b JOIN guest g ON g.id = b.guest_id JOIN room r ON r.id = b.room_id
    JOIN hotel h ON h.id = r.hotel_id JOIN city c ON c.id = h.city_id JOIN country n ON n.id = c.country_id JOIN room_type t ON t.id = r.type_id WHERE b.id = """
entry(
    id="dynamic-sql-in-function", area="statements",
    cause="The function puts its statement together as text and runs it by EXECUTE (as it was written for a database where that was needed): PL/pgSQL keeps no plan for EXECUTE, so "
          "the join of seven tables is parsed and planned at each call, which takes far longer than to run it.",
    mends="Write the statement as static SQL in the function (SELECT … INTO … WHERE b.id = p_booking): then its plan is kept in the session. EXECUTE only where names or conditions really change.",
    spoil="""
CREATE TABLE country (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE city (id int PRIMARY KEY, country_id int NOT NULL REFERENCES country, name text NOT NULL);
CREATE TABLE hotel (id int PRIMARY KEY, city_id int NOT NULL REFERENCES city, name text NOT NULL);
CREATE TABLE room_type (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE room (id int PRIMARY KEY, hotel_id int NOT NULL REFERENCES hotel, type_id int NOT NULL REFERENCES room_type, name text NOT NULL);
CREATE TABLE guest (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE booking (id int PRIMARY KEY, guest_id int NOT NULL REFERENCES guest, room_id int NOT NULL REFERENCES room);
INSERT INTO country SELECT g, 'Country ' || g FROM generate_series(1, 90) g;
INSERT INTO city SELECT g, 1 + g % 90, 'City ' || g FROM generate_series(1, 900) g;
INSERT INTO hotel SELECT g, 1 + g % 900, 'Hotel ' || g FROM generate_series(1, 2000) g;
INSERT INTO room_type SELECT g, 'Type ' || g FROM generate_series(1, 9) g;
INSERT INTO room SELECT g, 1 + g % 2000, 1 + g % 9, 'Room ' || g FROM generate_series(1, 9000) g;
INSERT INTO guest SELECT g, 'Guest ' || g FROM generate_series(1, 9000) g;
INSERT INTO booking SELECT g, 1 + g % 9000, 1 + g * 7 % 9000 FROM generate_series(1, 20000) g;
VACUUM ANALYZE country; VACUUM ANALYZE city; VACUUM ANALYZE hotel; VACUUM ANALYZE room_type; VACUUM ANALYZE room; VACUUM ANALYZE guest; VACUUM ANALYZE booking;
""" + _page % ("EXECUTE '" + _booking % "" + "' || p_booking INTO page;"),
    load="""
\\set b random(1, 20000)
SELECT booking_page(:b);
""",
    mend=_page % (_booking % "INTO page" + "p_booking;"),
)

entry(
    id="longest-prefix", area="statements",
    cause="The rate of a call is found by its longest prefix, number LIKE prefix || '%' with ORDER BY length(prefix) DESC LIMIT 1: the pattern comes out of the "
          "column, so no index is of use, and the number is held against each of the 30,000 prefixes.",
    mends="Ask for the few prefixes that the number has: prefix = ANY of left(number, 1) … left(number, 8), which the primary key answers.",
    spoil="""
CREATE TABLE rate (prefix text PRIMARY KEY, zone text NOT NULL, cents int NOT NULL);
INSERT INTO rate SELECT (100 + g)::text, 'Zone ' || g % 90, g % 50 FROM generate_series(0, 899) g;
INSERT INTO rate SELECT (100000 + g * 29)::text, 'Zone ' || g % 90, g % 50 FROM generate_series(0, 30000) g;
VACUUM ANALYZE rate;
""",
    load="""
\\set n random(100000000, 900000000)
SELECT prefix, zone, cents FROM rate WHERE '' || :n LIKE prefix || '%' ORDER BY length(prefix) DESC LIMIT 1;
""",
    mend_load="""
\\set n random(100000000, 900000000)
SELECT prefix, zone, cents FROM rate WHERE prefix = ANY (ARRAY(SELECT left('' || :n, g) FROM generate_series(1, 8) g)) ORDER BY length(prefix) DESC LIMIT 1;
""",
)

# --------------------------------------------------------------------- schema

entry(
    id="hash-index-on-the-state", area="schema",
    cause="The column `state` (four values) has a hash index: all entries of one value lie in one chain of overflow pages, hundreds of them, and to put in a new entry the chain is gone along "
          "page by page for a place; each INSERT of a row with the usual state does so, and the import inserts them by the hundred.",
    mends="Drop the hash index; a B-tree (which keeps equal keys together compactly), or a partial index for the rare states, if one is needed at all.",
    clients=2,
    spoil="""
CREATE TABLE shipment (id bigserial PRIMARY KEY, state text NOT NULL, weight int NOT NULL);
INSERT INTO shipment (state, weight) SELECT CASE WHEN g % 500 = 0 THEN 'returned' ELSE 'delivered' END, g % 900 FROM generate_series(1, 150000) g;
CREATE INDEX shipment_state ON shipment USING hash (state);
VACUUM ANALYZE shipment;
""",
    load="""
\\set w random(1, 900)
INSERT INTO shipment (state, weight) SELECT 'delivered', :w + g FROM generate_series(1, 300) g;
""",
    mend="DROP INDEX shipment_state; CREATE INDEX shipment_state ON shipment (state); ANALYZE shipment;",
)

entry(
    id="range-before-equality", area="schema",
    cause="The index of the log is on (at, tenant), in this order: a tenant's entries of a month are asked for, and the range on `at` comes first, so that the index is read over the whole month, "
          "with the entries of all 400 tenants, and the tenant only checked on the way.",
    mends="An index on (tenant, at): what is compared by = first, the range last.",
    spoil="""
CREATE TABLE audit_log (id int NOT NULL, at timestamp NOT NULL, tenant int NOT NULL, action int NOT NULL, who text NOT NULL);
INSERT INTO audit_log SELECT g, timestamp '2025-01-01' + g * interval '2 minutes', (g::bigint * 7919) % 400, g % 30, 'user ' || g % 70 FROM generate_series(1, 120000) g;
CREATE INDEX audit_log_at_tenant ON audit_log (at, tenant);
VACUUM ANALYZE audit_log;
""",
    load="""
\\set t random(0, 399)
\\set d random(0, 130)
SELECT id, at, action, who FROM audit_log WHERE tenant = :t AND at >= date '2025-01-01' + :d::int AND at < date '2025-01-01' + :d::int + 30 ORDER BY at DESC;
""",
    mend="CREATE INDEX audit_log_tenant_at ON audit_log (tenant, at); DROP INDEX audit_log_at_tenant; ANALYZE audit_log;",
)

entry(
    id="price-list-in-csv", area="schema", clients=2,
    cause="The supplier's price list is a foreign table (file_fdw) on the CSV file that comes each night: there is no index on a file, so for each look-up of a single price the file is opened, read "
          "from beginning to end, and each line taken apart and converted.",
    mends="Import the file once a night into a table with a primary key (COPY or INSERT … SELECT from the foreign table; a materialized view with an index).",
    spoil="""
CREATE EXTENSION file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
COPY (SELECT 'SKU' || g, 'Article ' || g || ', as in the catalogue', g % 9000, g % 7 FROM generate_series(1, 20000) g) TO PROGRAM 'cat > prices.csv' (FORMAT csv);
DO $$ BEGIN
  EXECUTE format('CREATE FOREIGN TABLE supplier_price (sku text, name text, cents int, unit int) SERVER files OPTIONS (filename %L, format %L)',
    current_setting('data_directory') || '/prices.csv', 'csv');
END $$;
ANALYZE supplier_price;
""",
    load="""
\\set s random(1, 20000)
SELECT name, cents, unit FROM supplier_price WHERE sku = 'SKU' || :s;
""",
    mend="""
ALTER FOREIGN TABLE supplier_price RENAME TO supplier_price_file;
CREATE TABLE supplier_price (sku text PRIMARY KEY, name text, cents int, unit int);
INSERT INTO supplier_price SELECT * FROM supplier_price_file;
VACUUM ANALYZE supplier_price;
""",
)

entry(
    id="remote-estimates", area="schema", protocol="simple", clients=4,
    cause="The foreign server has use_remote_estimate = true (set for one report that joins large foreign tables): to plan a look-up of one row, several EXPLAINs are sent to the remote server first, each "
          "with a round trip and planned there, before the statement itself is sent.",
    mends="ALTER SERVER … OPTIONS (SET use_remote_estimate 'false') (ANALYZE the foreign tables for estimates instead), and set it for the tables of that report only.",
    spoil="""
CREATE EXTENSION postgres_fdw;
CREATE SCHEMA crm;
CREATE TABLE crm.contact (id int PRIMARY KEY, company_id int NOT NULL, name text NOT NULL);
CREATE TABLE crm.company (id int PRIMARY KEY, industry_id int NOT NULL, name text NOT NULL);
CREATE TABLE crm.industry (id int PRIMARY KEY, name text NOT NULL);
INSERT INTO crm.industry SELECT g, 'Industry ' || g FROM generate_series(1, 100) g;
INSERT INTO crm.company SELECT g, 1 + g % 100, 'Company ' || g FROM generate_series(1, 3000) g;
INSERT INTO crm.contact SELECT g, 1 + g % 3000, 'Contact ' || g FROM generate_series(1, 9000) g;
CREATE INDEX ON crm.contact (company_id);
VACUUM ANALYZE crm.contact; VACUUM ANALYZE crm.company; VACUUM ANALYZE crm.industry;
DO $$ BEGIN
  EXECUTE format('CREATE SERVER crm FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L, use_remote_estimate %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database(), 'true');
END $$;
CREATE USER MAPPING FOR postgres SERVER crm OPTIONS (user 'postgres');
IMPORT FOREIGN SCHEMA crm FROM SERVER crm INTO public;
ANALYZE contact; ANALYZE company; ANALYZE industry;
""",
    load="""
\\set c random(1, 3000)
SELECT k.id, k.name, c.name, i.name FROM contact k JOIN company c ON c.id = k.company_id JOIN industry i ON i.id = c.industry_id WHERE k.company_id = :c;
""",
    mend="ALTER SERVER crm OPTIONS (SET use_remote_estimate 'false');",
)

# ------------------------------------------------------------------- workload

_lock = """BEGIN;
SELECT id, credit FROM customer ORDER BY id %s;
SELECT pg_sleep(0.4);
UPDATE customer SET credit = credit + 1 WHERE id %% 50 = 0;
COMMIT;
SELECT pg_sleep(0.05);
"""
entry(
    id="for-update-stops-the-orders", area="workload", clients=8,
    cause="A job reads all customers with FOR UPDATE, computes their credit for a while and writes it in the same transaction. FOR UPDATE is the lock for deleting a row or changing its key: it "
          "conflicts with the check of foreign keys, so that no order (which refers to its customer) can be inserted meanwhile.",
    mends="SELECT … FOR NO KEY UPDATE in the job (it changes no key); shorter transactions, a part of the customers at a time.",
    spoil="""
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, credit int NOT NULL) WITH (fillfactor = 70);
INSERT INTO customer SELECT g, 'Customer ' || g, 0 FROM generate_series(1, 1000) g;
CREATE TABLE purchase (id bigserial PRIMARY KEY, customer_id int NOT NULL REFERENCES customer, cents int NOT NULL);
VACUUM ANALYZE customer;
""",
    load="""
\\set c random(1, 1000)
INSERT INTO purchase (customer_id, cents) VALUES (:c, 4900);
""",
    beside=_lock % "FOR UPDATE",
    mend_beside=_lock % "FOR NO KEY UPDATE",
)

_own_lock = """
CREATE OR REPLACE FUNCTION take_lock(p_key bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  %s
END $$;
"""
entry(
    id="try-lock-and-sleep", area="workload", clients=8,
    cause="The library for 'distributed locks' asks by pg_try_advisory_xact_lock() and, if the lock is taken, sleeps 100 ms and asks again: the lock is held for 2 ms at a time and is mostly "
          "free, but those who wait sleep on, and whoever comes in between takes it.",
    mends="Wait in the database: pg_advisory_xact_lock(key) (with lock_timeout as the limit), which wakes the next one at once; at least a much shorter sleep.",
    spoil=_own_lock % "WHILE NOT pg_try_advisory_xact_lock(p_key) LOOP PERFORM pg_sleep(0.1); END LOOP;" + """
CREATE TABLE stock (warehouse int PRIMARY KEY, moves int NOT NULL);
INSERT INTO stock SELECT g, 0 FROM generate_series(1, 3) g;
VACUUM ANALYZE stock;
""",
    load="""
\\set w random(1, 3)
SELECT pg_sleep(0.008);
BEGIN;
SELECT take_lock(:w);
SELECT pg_sleep(0.002);
UPDATE stock SET moves = moves + 1 WHERE warehouse = :w;
COMMIT;
""",
    mend=_own_lock % "PERFORM pg_advisory_xact_lock(p_key);",
)

_reads = "\\set i random(1, 19000)\nBEGIN;\n" + "".join(f"{{0}}SELECT name FROM article WHERE id = :i + {n};\n{{1}}" for n in range(25)) + "COMMIT;\n"
entry(
    id="savepoint-for-each-statement", area="workload", protocol="simple",
    cause="The driver is set to autosave=always (on error, go on from the last statement): it sends SAVEPOINT before and RELEASE SAVEPOINT after each statement of a transaction, so that of 75 "
          "statements, each with a round trip, 50 do nothing but begin and end subtransactions.",
    mends="autosave=never (or conservative) in the connection's settings, and savepoints only where an error is expected.",
    spoil="""
CREATE TABLE article (id int PRIMARY KEY, name text NOT NULL);
INSERT INTO article SELECT g, 'Article ' || g FROM generate_series(1, 20000) g;
VACUUM ANALYZE article;
""",
    load=_reads.format("SAVEPOINT pgjdbc_autosave;\n", "RELEASE SAVEPOINT pgjdbc_autosave;\n"),
    mend_load=_reads.format("", ""),
)

# ---------------------------------------------------------------- maintenance

entry(
    id="index-cleanup-off", area="maintenance", clients=4,
    cause="vacuum_index_cleanup was set to off for the queue's table (in a hurry, when a wraparound threatened) and never reset: vacuum frees the rows, but never takes their entries out of the "
          "indexes; to find the oldest job, the index is walked over hundreds of thousands of dead entries first.",
    mends="ALTER TABLE … RESET (vacuum_index_cleanup) and VACUUM (INDEX_CLEANUP ON) (or REINDEX INDEX CONCURRENTLY).",
    spoil="""
CREATE TABLE job (id bigserial PRIMARY KEY, state int NOT NULL, payload text NOT NULL) WITH (vacuum_index_cleanup = off);
INSERT INTO job (state, payload) SELECT 0, 'payload ' || g FROM generate_series(1, 300000) g;
DELETE FROM job WHERE id <= 299500;
VACUUM ANALYZE job;
""",
    load="""
SELECT id, payload FROM job ORDER BY id LIMIT 5;
""",
    mend="ALTER TABLE job RESET (vacuum_index_cleanup); VACUUM (INDEX_CLEANUP ON, ANALYZE) job;",
)

entry(
    id="reindex-by-cron", area="maintenance",
    cause="A job reindexes the table over and over with plain REINDEX TABLE 'to keep it fast': it holds ACCESS EXCLUSIVE locks on the indexes until each is built, and "
          "every statement on the table waits for these already when it is planned.",
    mends="Don't reindex without need (a B-tree keeps itself in order); where one is swollen REINDEX … CONCURRENTLY, and out of hours.",
    spoil="""
CREATE TABLE delivery (id int PRIMARY KEY, driver int NOT NULL, street text NOT NULL, state int NOT NULL);
INSERT INTO delivery SELECT g, g % 900, 'Street ' || (g * 7919::bigint) % 100003, g % 5 FROM generate_series(1, 150000) g;
CREATE INDEX ON delivery (driver);
CREATE INDEX ON delivery (street);
VACUUM ANALYZE delivery;
""",
    load="""
\\set i random(1, 150000)
SELECT id, street, state FROM delivery WHERE id = :i;
""",
    beside="REINDEX TABLE delivery;\nREINDEX TABLE delivery;\nREINDEX TABLE delivery;\nREINDEX TABLE delivery;\n",
    mend_beside="SELECT pg_sleep(1);\n",
)

# -------------------------------------------------------------------- machine

_data = """
SELECT current_setting('data_directory') AS data_directory \\gset
\\setenv DATA :data_directory
"""
entry(
    id="volume-out-of-credits", area="machine", clients=4,
    cause="The volume may write 25 times a second only (the burst credits of a small cloud volume are used up; here the limit is set by the cgroup's blkio.throttle.write_iops_device / io.max): each flush "
          "of the WAL at commit stands in line for its turn, while the CPUs have nothing to do.",
    mends="A volume with enough IOPS (provisioned, larger, another class), or raise the container's limit; fewer flushes (batches, group commit, synchronous_commit = off where it may be) help meanwhile.",
    spoil="""
CREATE TABLE ping (id bigserial PRIMARY KEY, device int NOT NULL, at timestamptz NOT NULL DEFAULT now());
""" + _data + """
\\! p=$(head -n 1 "$DATA/postmaster.pid"); d=$(lsblk -no MAJ:MIN $(df --output=source "$DATA" | tail -n 1) | head -n 1 | tr -d ' '); if [ -d /sys/fs/cgroup/blkio ]; then g=/sys/fs/cgroup/blkio/spoilt-volume; mkdir -p $g; echo "$d 25" > $g/blkio.throttle.write_iops_device; else g=/sys/fs/cgroup/spoilt-volume; mkdir -p $g; echo "$d wiops=25" > $g/io.max; fi; for q in $p $(pgrep -P $p); do echo $q > $g/cgroup.procs; done
""",
    load="""
\\set d random(1, 500)
INSERT INTO ping (device) VALUES (:d);
""",
    mend=_data + """
\\! g=/sys/fs/cgroup/blkio/spoilt-volume; [ -d $g ] || g=/sys/fs/cgroup/spoilt-volume; for n in 1 2 3; do for q in $(cat $g/cgroup.procs); do echo $q > $(dirname $g)/cgroup.procs; done; done 2> /dev/null; sleep 0.2; rmdir $g
""",
)

entry(
    id="small-cpu-request", area="machine", clients=4,
    cause="The server's container asks for little CPU (requests.cpu: 100m, as in the chart's example: cpu.shares 102, cpu.weight 4) and has no limit: as soon as others on the machine compute, here two batch "
          "jobs with the usual weight, the server gets but a tenth of what they get.",
    mends="Give the container a CPU request that fits (cpu.shares, cpu.weight, CPUWeight=; Guaranteed in the place of BestEffort), or keep the batch jobs off this machine.",
    spoil="""
CREATE TABLE tariff (id int PRIMARY KEY, grp int NOT NULL, points int NOT NULL);
INSERT INTO tariff SELECT g, g % 50, g % 97 FROM generate_series(1, 20000) g;
CREATE INDEX ON tariff (grp);
VACUUM ANALYZE tariff;
""" + _data + """
\\! p=$(head -n 1 "$DATA/postmaster.pid"); if [ -d /sys/fs/cgroup/cpu ]; then g=/sys/fs/cgroup/cpu/spoilt-shares; mkdir -p $g; echo 102 > $g/cpu.shares; else g=/sys/fs/cgroup/spoilt-shares; mkdir -p $g; echo 4 > $g/cpu.weight; fi; for q in $p $(pgrep -P $p); do echo $q > $g/cgroup.procs; done
""",
    load="""
\\set g random(0, 49)
SELECT avg(points), stddev(points) FROM tariff WHERE grp = :g;
""",
    beside="\\! for n in 1 2; do sh -c 'i=0; while [ $i -lt 4000000 ]; do i=$((i+1)); done' & done; wait\n",
    mend=_data + """
\\! g=/sys/fs/cgroup/cpu/spoilt-shares; [ -d $g ] || g=/sys/fs/cgroup/spoilt-shares; for n in 1 2 3; do for q in $(cat $g/cgroup.procs); do echo $q > $(dirname $g)/cgroup.procs; done; done 2> /dev/null; sleep 0.2; rmdir $g
""",
)

