"""Twenty more spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind4. The keys are those of spoilt_blind.py. None of the causes is one of
spoilt_blind.py, spoilt_blind2.py or spoilt_blind3.py.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# ---------------------------------------------------------------- statements

entry(
    id="balance-so-far", area="statements",
    cause="The statement of account computes the balance after each booking by a correlated subquery (the sum of all bookings "
          "up to this one): with 400 bookings of an account, 80,000 rows are added up, and it grows with the square.",
    mends="A window function: sum(cents) OVER (ORDER BY id), which adds up each booking once.",
    spoil="""
CREATE TABLE booking (id int PRIMARY KEY, account int NOT NULL, at date NOT NULL, cents int NOT NULL);
INSERT INTO booking SELECT g, g % 150, date '2020-01-01' + g / 40, (g * 7919) % 20000 - 9000 FROM generate_series(1, 60000) g;
CREATE INDEX ON booking (account, id);
VACUUM ANALYZE booking;
""",
    load="""
\\set a random(0, 149)
SELECT b.id, b.at, b.cents, (SELECT sum(p.cents) FROM booking p WHERE p.account = b.account AND p.id <= b.id) AS balance
  FROM booking b WHERE b.account = :a ORDER BY b.id;
""",
    mend_load="""
\\set a random(0, 149)
SELECT b.id, b.at, b.cents, sum(b.cents) OVER (ORDER BY b.id) AS balance
  FROM booking b WHERE b.account = :a ORDER BY b.id;
""",
)

entry(
    id="nulls-last", area="statements",
    cause="The list of the best is ordered by score DESC NULLS LAST, as the framework writes it; the index on (league, score) gives, "
          "read backwards, the NULLs first, so it does not have this order: all players of the league are read and sorted for "
          "the first 20.",
    mends="An index in the order that is asked for: (league, score DESC NULLS LAST); or ORDER BY score DESC with WHERE score IS NOT "
          "NULL (or a NOT NULL column), which the index there is serves.",
    spoil="""
CREATE TABLE player (id int PRIMARY KEY, league int NOT NULL, nick text NOT NULL, score int);
INSERT INTO player SELECT g, g % 5, 'Player ' || g, CASE WHEN g % 9 <> 0 THEN (g * 7919) % 1000003 END FROM generate_series(1, 80000) g;
CREATE INDEX player_score ON player (league, score);
VACUUM ANALYZE player;
""",
    load="""
\\set l random(0, 4)
SELECT id, nick, score FROM player WHERE league = :l ORDER BY score DESC NULLS LAST LIMIT 20;
""",
    mend="CREATE INDEX player_best ON player (league, score DESC NULLS LAST); VACUUM ANALYZE player;",
)

_pairs = [(n * 7 % 50, n * 11) for n in range(160)]
entry(
    id="pairs-by-or", area="statements", protocol="simple",
    cause="The object mapper fetches the stock of a basket's 160 articles by (warehouse = … AND sku = …) OR (…) OR …: for each pair the "
          "planner weighs an index path by itself and combines them, which takes far longer than to fetch the rows.",
    mends="Hand over the pairs as a table: JOIN (VALUES (…), …) or unnest() of two arrays, or (warehouse, sku) IN (…) as a join with "
          "one index look-up for each pair; or fewer pairs in one statement.",
    spoil="""
CREATE TABLE stock (warehouse int NOT NULL, sku int NOT NULL, qty int NOT NULL, PRIMARY KEY (warehouse, sku));
INSERT INTO stock SELECT w, s, (w * s) % 300 FROM generate_series(0, 49) w, generate_series(1, 3000) s;
CREATE INDEX ON stock (sku);
VACUUM ANALYZE stock;
""",
    load="\n\\set b random(1, 1200)\nSELECT warehouse, sku, qty FROM stock WHERE "
         + " OR ".join(f"(warehouse = {w} AND sku = :b + {s})" for w, s in _pairs) + ";\n",
    mend_load="\n\\set b random(1, 1200)\nSELECT warehouse, sku, qty FROM (VALUES "
              + ", ".join(f"({w}, :b + {s})" for w, s in _pairs) + ") AS p(w, s) JOIN stock ON warehouse = w AND sku = s;\n",
)

_newest = """
\\set m random(1, 800)
SELECT id, ordered, customer, cents FROM (
  SELECT id, ordered, customer, cents FROM order_now%s
  UNION%s SELECT id, ordered, customer, cents FROM order_archive%s) o
 WHERE cents > :m ORDER BY ordered DESC, id DESC LIMIT 25;
"""
entry(
    id="union-and-newest", area="statements",
    cause="Current and archived orders are put together by UNION, where UNION ALL is meant (no order is in both): to find duplicates, "
          "all rows of both tables are read and hashed or sorted, before the newest 25 can be taken.",
    mends="UNION ALL: then the indexes on (ordered, id) of both tables are merged and read only as far as 25 rows take.",
    spoil="""
CREATE TABLE order_now (id int PRIMARY KEY, ordered timestamp NOT NULL, customer int NOT NULL, cents int NOT NULL);
CREATE TABLE order_archive (LIKE order_now INCLUDING ALL);
INSERT INTO order_archive SELECT g, timestamp '2021-01-01' + g * interval '7 minutes', g % 4000, (g * 17) % 9000 FROM generate_series(1, 60000) g;
INSERT INTO order_now SELECT g, timestamp '2021-01-01' + g * interval '7 minutes', g % 4000, (g * 17) % 9000 FROM generate_series(60001, 72000) g;
CREATE INDEX ON order_now (ordered, id);
CREATE INDEX ON order_archive (ordered, id);
VACUUM ANALYZE order_now; VACUUM ANALYZE order_archive;
""",
    load=_newest % ("", "", ""),
    mend_load=_newest % ("", " ALL", ""),
)

entry(
    id="record-star", area="statements",
    cause="The columns of the record that a function returns are taken by (terms_of(…)).*: this is expanded to one call for each "
          "of the record's nine columns, so that the function with its queries runs nine times for each row.",
    mends="Call it once: FROM article a CROSS JOIN LATERAL terms_of(a.id, 5) t, and t.* in the list.",
    spoil="""
CREATE TABLE article (id int PRIMARY KEY, grp int NOT NULL, name text NOT NULL, cents int NOT NULL);
INSERT INTO article SELECT g, g % 500, 'Article ' || g, (g * 13) % 7000 FROM generate_series(1, 20000) g;
CREATE INDEX ON article (grp);
CREATE TABLE scale_price (article int NOT NULL, from_qty int NOT NULL, percent int NOT NULL, PRIMARY KEY (article, from_qty));
INSERT INTO scale_price SELECT a, q * 3, q * 2 FROM generate_series(1, 20000) a, generate_series(1, 4) q;
CREATE TYPE terms AS (list int, percent int, net int, vat int, gross int, skonto int, days int, step int, remark text);
CREATE FUNCTION terms_of(p_article int, p_qty int) RETURNS terms LANGUAGE plpgsql STABLE AS $$
DECLARE t terms;
BEGIN
  SELECT cents INTO t.list FROM article WHERE id = p_article;
  SELECT percent, from_qty INTO t.percent, t.step FROM scale_price
   WHERE article = p_article AND from_qty <= p_qty ORDER BY from_qty DESC LIMIT 1;
  t.net := t.list * p_qty * (100 - coalesce(t.percent, 0)) / 100;
  t.vat := t.net * 19 / 100;
  t.gross := t.net + t.vat;
  t.skonto := t.gross * 2 / 100;
  t.days := CASE WHEN t.gross > 100000 THEN 30 ELSE 14 END;
  t.remark := 'from ' || coalesce(t.step, 1) || ' pieces on';
  RETURN t;
END $$;
VACUUM ANALYZE article; VACUUM ANALYZE scale_price;
""",
    load="""
\\set g random(0, 499)
SELECT a.id, a.name, (terms_of(a.id, 5)).* FROM article a WHERE a.grp = :g;
""",
    mend_load="""
\\set g random(0, 499)
SELECT a.id, a.name, t.* FROM article a CROSS JOIN LATERAL terms_of(a.id, 5) t WHERE a.grp = :g;
""",
)

entry(
    id="any-of-the-tags", area="statements",
    cause="Photos with a tag are searched by 'tag' = ANY (tags); the GIN index on tags does not know this form (it answers the operators "
          "@>, && and <@ only), so the whole table is read.",
    mends="tags @> ARRAY['tag'] in the place of 'tag' = ANY (tags), which the GIN index answers.",
    spoil="""
CREATE TABLE photo (id int PRIMARY KEY, title text NOT NULL, tags text[] NOT NULL);
INSERT INTO photo SELECT g, 'Photo ' || g, ARRAY['tag' || g % 3001, 'tag' || (g * 7) % 2003, 'tag' || (g * 31) % 2503, 'tag' || (g * 3) % 997]
  FROM generate_series(1, 40000) g;
CREATE INDEX photo_tags ON photo USING gin (tags);
VACUUM ANALYZE photo;
""",
    load="""
\\set t random(1, 3000)
SELECT id, title, tags FROM photo WHERE 'tag' || :t = ANY (tags) ORDER BY id DESC;
""",
    mend_load="""
\\set t random(1, 3000)
SELECT id, title, tags FROM photo WHERE tags @> ARRAY['tag' || :t] ORDER BY id DESC;
""",
)

_hour = "SELECT till, count(*), sum(cents) FROM receipt WHERE at >= %s AND till < 40 GROUP BY till ORDER BY till;\n"
entry(
    id="now-is-not-shipped", area="statements", clients=2,
    cause="The receipts are a foreign table (postgres_fdw); the condition at >= now() - interval '1 hour' is not sent along, as now() is "
          "not immutable: all 40,000 rows are fetched from the branch's server and filtered here.",
    mends="Make the bound a value before it is sent: at >= (SELECT now() - interval '1 hour'), or a parameter computed by the "
          "application; then it is part of the remote statement, and the remote index on `at` is used.",
    spoil="""
CREATE EXTENSION postgres_fdw;
CREATE SCHEMA branch;
CREATE TABLE branch.receipt (id int PRIMARY KEY, till int NOT NULL, at timestamptz NOT NULL, cents int NOT NULL);
INSERT INTO branch.receipt SELECT g, g % 40, now() + interval '10 minutes' - g * interval '20 seconds', g % 9000 FROM generate_series(1, 40000) g;
CREATE INDEX ON branch.receipt (at);
VACUUM ANALYZE branch.receipt;
DO $$ BEGIN
  EXECUTE format('CREATE SERVER branch FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER branch OPTIONS (user 'postgres');
IMPORT FOREIGN SCHEMA branch FROM SERVER branch INTO public;
ANALYZE receipt;
""",
    load="\n" + _hour % "now() - interval '1 hour'",
    mend_load="\n" + _hour % "(SELECT now() - interval '1 hour')",
)

# -------------------------------------------------------------------- schema

entry(
    id="view-with-row-number", area="schema",
    cause="The view has row_number() OVER () AS id, as the object mapper wants a key of each entity; a condition can't be moved below "
          "a window function, so the whole view is computed and numbered before the rows of one customer are picked out.",
    mends="Take row_number() out of the view, and use a key of the tables (order and line) as the id.",
    spoil="""
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE purchase (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customer, day date NOT NULL);
CREATE TABLE purchase_line (purchase_id int NOT NULL REFERENCES purchase, line int NOT NULL, sku int NOT NULL, qty int NOT NULL,
  PRIMARY KEY (purchase_id, line));
INSERT INTO customer SELECT g, 'Customer ' || g FROM generate_series(1, 3000) g;
INSERT INTO purchase SELECT g, 1 + g % 3000, date '2023-01-01' + g % 700 FROM generate_series(1, 15000) g;
INSERT INTO purchase_line SELECT p, l, (p * l) % 4000, l FROM generate_series(1, 15000) p, generate_series(1, 3) l;
CREATE INDEX ON purchase (customer_id);
CREATE VIEW purchase_entry AS
  SELECT row_number() OVER () AS id, c.id AS customer_id, c.name, p.id AS purchase_id, p.day, l.line, l.sku, l.qty
    FROM customer c JOIN purchase p ON p.customer_id = c.id JOIN purchase_line l ON l.purchase_id = p.id;
VACUUM ANALYZE customer; VACUUM ANALYZE purchase; VACUUM ANALYZE purchase_line;
""",
    load="""
\\set c random(1, 3000)
SELECT id, name, purchase_id, day, sku, qty FROM purchase_entry WHERE customer_id = :c;
""",
    mend="""
DROP VIEW purchase_entry;
CREATE VIEW purchase_entry AS
  SELECT p.id * 1000::bigint + l.line AS id, c.id AS customer_id, c.name, p.id AS purchase_id, p.day, l.line, l.sku, l.qty
    FROM customer c JOIN purchase p ON p.customer_id = c.id JOIN purchase_line l ON l.purchase_id = p.id;
""",
)

entry(
    id="search-path-on-function", area="schema",
    cause="The SQL function live_documents() got SET search_path = '' (a linter for security asked for it on all functions); a function with a "
          "SET clause is not inlined, so it gives all live documents, which are filtered by owner afterwards.",
    mends="ALTER FUNCTION live_documents() RESET search_path, with the names in it qualified by their schema (or a view in its place), so that "
          "it is inlined and the index on owner is used.",
    spoil="""
CREATE TABLE document (id int PRIMARY KEY, owner int NOT NULL, title text NOT NULL, deleted timestamptz);
INSERT INTO document SELECT g, g % 2500, 'Document ' || g, CASE WHEN g % 8 = 0 THEN now() END FROM generate_series(1, 50000) g;
CREATE INDEX ON document (owner);
CREATE FUNCTION live_documents() RETURNS SETOF public.document LANGUAGE sql STABLE AS $$
  SELECT * FROM public.document WHERE deleted IS NULL
$$;
ALTER FUNCTION live_documents() SET search_path = '';
VACUUM ANALYZE document;
""",
    load="""
\\set o random(0, 2499)
SELECT id, title FROM live_documents() WHERE owner = :o ORDER BY id;
""",
    mend="ALTER FUNCTION live_documents() RESET search_path;",
)

entry(
    id="tsvector-for-each-hit", area="schema",
    cause="The trigger that keeps the search column (tsvector_update_trigger) fires on each UPDATE, also when only the page's counter of hits "
          "is raised: the whole text is parsed and stemmed anew for each hit.",
    mends="Let the trigger fire only if the text changes: BEFORE INSERT OR UPDATE OF title, body (or WHEN (OLD.body IS DISTINCT FROM NEW.body)); "
          "or keep the counter in a table of its own.",
    spoil="""
CREATE TABLE wiki_page (id int PRIMARY KEY, hits int NOT NULL DEFAULT 0, title text NOT NULL, body text NOT NULL, tsv tsvector)
  WITH (fillfactor = 60);
CREATE TRIGGER wiki_page_tsv BEFORE INSERT OR UPDATE ON wiki_page FOR EACH ROW
  EXECUTE FUNCTION tsvector_update_trigger(tsv, 'pg_catalog.english', title, body);
INSERT INTO wiki_page (id, title, body) SELECT g, 'Page number ' || g,
    (SELECT string_agg((ARRAY['walking', 'libraries', 'quickly', 'tested', 'servers', 'running', 'houses', 'colourful'])[1 + abs(hashint4(g * 300 + w)) % 8]
                       || abs(hashint4(g * 900 + w)) % 400, ' ') FROM generate_series(1, 300) w)
  FROM generate_series(1, 1500) g;
CREATE INDEX ON wiki_page USING gin (tsv);
VACUUM ANALYZE wiki_page;
""",
    load="""
\\set p random(1, 1480)
UPDATE wiki_page SET hits = hits + 1 WHERE id BETWEEN :p AND :p + 19;
""",
    mend="""
DROP TRIGGER wiki_page_tsv ON wiki_page;
CREATE TRIGGER wiki_page_tsv BEFORE INSERT OR UPDATE OF title, body ON wiki_page FOR EACH ROW
  EXECUTE FUNCTION tsvector_update_trigger(tsv, 'pg_catalog.english', title, body);
VACUUM FULL ANALYZE wiki_page;
""",
)

entry(
    id="chunks-of-compressed", area="schema",
    cause="Files lie in a bytea column and are handed out in pieces of 16 kB by substring(); as the column is compressed (STORAGE "
          "EXTENDED), a piece in the middle can be had only by fetching and unpacking all that is before it.",
    mends="ALTER TABLE upload ALTER data SET STORAGE EXTERNAL and write the files anew: uncompressed, substring() fetches the TOAST chunks of the "
          "piece only. Or fetch the file at once, or keep it in pieces.",
    spoil="""
CREATE TABLE upload (id int PRIMARY KEY, name text NOT NULL, data bytea NOT NULL);
INSERT INTO upload SELECT f, 'export-' || f || '.csv',
    (SELECT convert_to(string_agg(g || ';' || (g * f) % 977 || ';customer ' || g % 400 || ';paid' || chr(10), ''), 'UTF8') FROM generate_series(1, 45000) g)
  FROM generate_series(1, 12) f;
VACUUM ANALYZE upload;
""",
    load="""
\\set f random(1, 12)
\\set o random(0, 70) * 16384 + 1
SELECT substring(data FROM :o FOR 16384) FROM upload WHERE id = :f;
""",
    mend="ALTER TABLE upload ALTER data SET STORAGE EXTERNAL; UPDATE upload SET data = data || ''::bytea; VACUUM FULL ANALYZE upload;",
)

entry(
    id="joins-not-removed", area="schema",
    cause="The view item_full joins six tables by LEFT JOIN; they were loaded by a tool without primary keys, so the planner can't know that "
          "a join adds no rows and must carry out all six, though the statement asks for columns of `item` only.",
    mends="Declare the keys (PRIMARY KEY or UNIQUE on the id of each of the joined tables), then joins that nobody needs are removed; or "
          "ask `item` instead of the view.",
    spoil="""
CREATE TABLE item (id int PRIMARY KEY, shop int NOT NULL, name text NOT NULL, a int, b int, c int, d int, e int, f int);
INSERT INTO item SELECT g, g % 200, 'Item ' || g, g % 4000, g % 3999, g % 3998, g % 3997, g % 3996, g % 3995 FROM generate_series(1, 40000) g;
CREATE INDEX ON item (shop);
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['maker', 'colour', 'season', 'vendor', 'customs', 'shelf'] LOOP
    EXECUTE format('CREATE TABLE %I (id int NOT NULL, label text NOT NULL)', t);
    EXECUTE format('INSERT INTO %I SELECT g, %L || g FROM generate_series(0, 4000) g', t, t);
    EXECUTE format('ANALYZE %I', t);
  END LOOP;
END $$;
CREATE VIEW item_full AS SELECT i.id, i.shop, i.name, maker.label AS maker, colour.label AS colour, season.label AS season,
    vendor.label AS vendor, customs.label AS customs, shelf.label AS shelf
  FROM item i LEFT JOIN maker ON maker.id = i.a LEFT JOIN colour ON colour.id = i.b LEFT JOIN season ON season.id = i.c
    LEFT JOIN vendor ON vendor.id = i.d LEFT JOIN customs ON customs.id = i.e LEFT JOIN shelf ON shelf.id = i.f;
VACUUM ANALYZE item;
""",
    load="""
\\set s random(0, 199)
SELECT id, name FROM item_full WHERE shop = :s ORDER BY name;
""",
    mend="""
ALTER TABLE maker ADD PRIMARY KEY (id); ALTER TABLE colour ADD PRIMARY KEY (id); ALTER TABLE season ADD PRIMARY KEY (id);
ALTER TABLE vendor ADD PRIMARY KEY (id); ALTER TABLE customs ADD PRIMARY KEY (id); ALTER TABLE shelf ADD PRIMARY KEY (id);
ANALYZE maker; ANALYZE colour; ANALYZE season; ANALYZE vendor; ANALYZE customs; ANALYZE shelf;
""",
)

_month = """
\\set n random(1, 47000)
SELECT id, created, customer, cents FROM invoice WHERE id = :n%s;
"""
entry(
    id="partition-key-left-out", area="schema", protocol="simple",
    cause="The invoices are partitioned by month, but are looked up by their number alone: without the date no partition can be ruled out, so "
          "each look-up is planned for, locks and searches the indexes of all 96 partitions.",
    mends="Give the date (or month) of the invoice along, so that one partition is left; or partition by the number; or, for a table of this size, no "
          "partitions (or few) at all.",
    spoil="""
CREATE TABLE invoice (id int NOT NULL, created date NOT NULL, customer int NOT NULL, cents int NOT NULL, PRIMARY KEY (id, created))
  PARTITION BY RANGE (created);
DO $$ DECLARE m date; BEGIN
  FOR n IN 0..95 LOOP
    m := date '2017-01-01' + n * interval '1 month';
    EXECUTE format('CREATE TABLE invoice_%s PARTITION OF invoice FOR VALUES FROM (%L) TO (%L)', to_char(m, 'YYYY_MM'), m, m + interval '1 month');
  END LOOP;
END $$;
INSERT INTO invoice SELECT g, date '2017-01-01' + g / 20, g % 900, g % 7000 FROM generate_series(1, 48000) g;
VACUUM ANALYZE invoice;
""",
    load=_month % "",
    mend_load=_month % " AND created = date '2017-01-01' + :n / 20",
)

# ------------------------------------------------------------------ settings

_case = """
\\set c random(1, 5000)
SELECT c.id, c.opened, p.name, a.city, k.label AS kind, s.label AS state, u.name AS clerk, b.name AS branch, r.percent
  FROM claim c JOIN person p ON p.id = c.person_id JOIN address a ON a.person_id = p.id JOIN kind k ON k.id = c.kind
    JOIN state s ON s.id = c.state JOIN clerk u ON u.id = c.clerk JOIN branch b ON b.id = u.branch JOIN rate r ON r.kind = c.kind AND r.branch = b.id
 WHERE c.id = :c;
"""
entry(
    id="custom-plan-each-time", area="settings", protocol="prepared",
    cause="plan_cache_mode is force_custom_plan on the whole server (after a single statement had got a bad generic plan): the prepared "
          "statement that joins eight tables by their keys is planned anew at each execution, which takes far longer than to run it.",
    mends="Set plan_cache_mode back to auto, and force custom plans only where they are needed (SET in that statement's function or transaction).",
    settings={"plan_cache_mode": "force_custom_plan"},
    spoil="""
CREATE TABLE branch (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE clerk (id int PRIMARY KEY, branch int NOT NULL REFERENCES branch, name text NOT NULL);
CREATE TABLE kind (id int PRIMARY KEY, label text NOT NULL);
CREATE TABLE state (id int PRIMARY KEY, label text NOT NULL);
CREATE TABLE rate (kind int NOT NULL REFERENCES kind, branch int NOT NULL REFERENCES branch, percent int NOT NULL, PRIMARY KEY (kind, branch));
CREATE TABLE person (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE address (person_id int PRIMARY KEY REFERENCES person, city text NOT NULL);
CREATE TABLE claim (id int PRIMARY KEY, opened date NOT NULL, person_id int NOT NULL REFERENCES person, kind int NOT NULL REFERENCES kind,
  state int NOT NULL REFERENCES state, clerk int NOT NULL REFERENCES clerk);
INSERT INTO branch SELECT g, 'Branch ' || g FROM generate_series(1, 100) g;
INSERT INTO clerk SELECT g, 1 + g % 100, 'Clerk ' || g FROM generate_series(1, 900) g;
INSERT INTO kind SELECT g, 'Kind ' || g FROM generate_series(1, 40) g;
INSERT INTO state SELECT g, 'State ' || g FROM generate_series(1, 30) g;
INSERT INTO rate SELECT k, b, (k * b) % 20 FROM generate_series(1, 40) k, generate_series(1, 100) b;
INSERT INTO person SELECT g, 'Person ' || g FROM generate_series(1, 5000) g;
INSERT INTO address SELECT g, 'City ' || g % 90 FROM generate_series(1, 5000) g;
INSERT INTO claim SELECT g, date '2024-01-01' + g % 300, 1 + (g * 7) % 5000, 1 + g % 40, 1 + g % 30, 1 + g % 900 FROM generate_series(1, 5000) g;
VACUUM ANALYZE branch; VACUUM ANALYZE clerk; VACUUM ANALYZE kind; VACUUM ANALYZE state; VACUUM ANALYZE rate; VACUUM ANALYZE person;
VACUUM ANALYZE address; VACUUM ANALYZE claim;
""",
    load=_case,
    mend_settings={},
)

entry(
    id="parallel-for-everything", area="settings",
    cause="parallel_setup_cost and parallel_tuple_cost are 0 and min_parallel_table_scan_size is 0 (to have 'all cores used'): statements of a "
          "millisecond over small tables start parallel workers, which takes longer than the statement itself.",
    mends="Set parallel_setup_cost, parallel_tuple_cost and min_parallel_table_scan_size back to their defaults (1000, 0.1, 8MB).",
    settings={"parallel_setup_cost": "0", "parallel_tuple_cost": "0", "min_parallel_table_scan_size": "0",
              "min_parallel_index_scan_size": "0", "max_parallel_workers_per_gather": "4"},
    spoil="""
CREATE TABLE shelf_item (id int PRIMARY KEY, aisle int NOT NULL, name text NOT NULL, qty int NOT NULL);
INSERT INTO shelf_item SELECT g, g % 12, 'Thing ' || g, g % 90 FROM generate_series(1, 4000) g;
VACUUM ANALYZE shelf_item;
""",
    load="""
\\set q random(1, 80)
SELECT aisle, count(*), sum(qty) FROM shelf_item WHERE qty > :q GROUP BY aisle;
""",
    mend_settings={},
)

entry(
    id="commit-delay", area="settings",
    cause="commit_delay is 20000 (20 ms) and commit_siblings 1, from an article on group commit for rotating disks: each commit waits for 20 ms "
          "before it flushes the WAL, as soon as one other transaction is open.",
    mends="Set commit_delay back to 0 (and commit_siblings to 5).",
    settings={"commit_delay": "20000", "commit_siblings": "1"},
    spoil="""
CREATE TABLE wallet (id int PRIMARY KEY, cents int NOT NULL) WITH (fillfactor = 70);
INSERT INTO wallet SELECT g, 100 FROM generate_series(1, 20000) g;
VACUUM ANALYZE wallet;
""",
    load="""
\\set w random(1, 20000)
UPDATE wallet SET cents = cents + 1 WHERE id = :w;
""",
    mend_settings={},
)

# ------------------------------------------------------------------ workload

_rows = """
\\set d random(0, 199)
BEGIN;
DECLARE rows CURSOR FOR SELECT id, name, salary FROM employee WHERE dept = :d;
%s
CLOSE rows;
COMMIT;
"""
entry(
    id="fetch-size-one", area="workload", protocol="simple",
    cause="The driver's fetch size is 1: the 100 rows of a list are fetched from the cursor one by one, each by a statement and a round trip of its own.",
    mends="Raise the fetch size (to 100 or 1000: FETCH 100), or run the SELECT without a cursor.",
    spoil="""
CREATE TABLE employee (id int PRIMARY KEY, dept int NOT NULL, name text NOT NULL, salary int NOT NULL);
INSERT INTO employee SELECT g, g % 200, 'Employee ' || g, (g * 37) % 9000 FROM generate_series(1, 20000) g;
CREATE INDEX ON employee (dept);
VACUUM ANALYZE employee;
""",
    load=_rows % "\n".join(["FETCH 1 FROM rows;"] * 100),
    mend_load=_rows % "FETCH 100 FROM rows;",
)

_scratch = """
%s
INSERT INTO basket_:client_id SELECT g, g * 3, 'article ' || g FROM generate_series(1, 5) g;
INSERT INTO coupon_:client_id VALUES (1, 'SPRING'), (2, 'NEW');
SELECT count(*), sum(sku) FROM basket_:client_id;
"""
entry(
    id="truncate-of-five-rows", area="workload", protocol="simple",
    cause="The tables of a handful of rows are emptied by TRUNCATE for each run (as test suites and import jobs do): it makes new files for each "
          "table, its indexes and its TOAST table, and removes the old ones, for seven rows.",
    mends="DELETE FROM the small tables instead of TRUNCATE (or roll the transaction back), TRUNCATE only for large ones.",
    spoil="""
DO $$
BEGIN
  FOR i IN 0..3 LOOP
    EXECUTE format('CREATE TABLE basket_%s (id int PRIMARY KEY, sku int NOT NULL, name text NOT NULL)', i);
    EXECUTE format('CREATE INDEX ON basket_%s (sku)', i);
    EXECUTE format('CREATE TABLE coupon_%s (id int PRIMARY KEY, code text NOT NULL UNIQUE)', i);
  END LOOP;
END $$;
""",
    load=_scratch % "TRUNCATE basket_:client_id, coupon_:client_id;",
    mend="VACUUM;",
    mend_load=_scratch % "DELETE FROM basket_:client_id;\nDELETE FROM coupon_:client_id;",
)

entry(
    id="temp-table-per-request", area="workload",
    cause="The function creates a temporary table (with an index, dropped on commit) for its interim result at each call, as is usual in SQL Server: "
          "each request writes to and deletes from the system catalogs and makes and removes files.",
    mends="Do without the temporary table: one statement with a subquery or CTE (or an array); or create it once in a session and DELETE its rows.",
    spoil="""
CREATE TABLE trip (id int PRIMARY KEY, driver int NOT NULL, km int NOT NULL);
INSERT INTO trip SELECT g, g % 1000, g % 90 FROM generate_series(1, 30000) g;
CREATE INDEX ON trip (driver);
CREATE TABLE refuel (id int PRIMARY KEY, trip_id int NOT NULL, litres int NOT NULL);
INSERT INTO refuel SELECT g, g, g % 50 FROM generate_series(1, 30000) g;
CREATE INDEX ON refuel (trip_id);
CREATE FUNCTION litres_of(p_driver int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
  CREATE TEMP TABLE my_trips ON COMMIT DROP AS SELECT id, km FROM trip WHERE driver = p_driver;
  CREATE INDEX ON my_trips (id);
  SELECT sum(r.litres) INTO n FROM my_trips t JOIN refuel r ON r.trip_id = t.id WHERE t.km > 10;
  RETURN n;
END $$;
VACUUM ANALYZE trip; VACUUM ANALYZE refuel;
""",
    load="""
\\set d random(0, 999)
SELECT litres_of(:d);
""",
    mend="""
CREATE OR REPLACE FUNCTION litres_of(p_driver int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT sum(r.litres) FROM trip t JOIN refuel r ON r.trip_id = t.id WHERE t.driver = p_driver AND t.km > 10);
END $$;
VACUUM FULL pg_class; VACUUM FULL pg_attribute; VACUUM FULL pg_depend; VACUUM FULL pg_type;
""",
)

# --------------------------------------------------------------- maintenance

entry(
    id="index-left-invalid", area="maintenance",
    cause="CREATE UNIQUE INDEX CONCURRENTLY on the e-mail address failed on a duplicate and left an INVALID index behind, which no statement "
          "can use; so each log-in reads the whole table.",
    mends="Remove the duplicates and REINDEX INDEX CONCURRENTLY member_email (or drop the invalid index and create it anew).",
    spoil="""
CREATE TABLE member (id int PRIMARY KEY, email text NOT NULL, name text NOT NULL);
INSERT INTO member SELECT g, 'member' || g || '@example.org', 'Member ' || g FROM generate_series(1, 40000) g;
INSERT INTO member VALUES (40001, 'member77@example.org', 'Member 77 again');
\\set ON_ERROR_STOP off
CREATE UNIQUE INDEX CONCURRENTLY member_email ON member (email);
\\set ON_ERROR_STOP on
VACUUM ANALYZE member;
""",
    load="""
\\set m random(1, 40000)
SELECT id, name FROM member WHERE email = 'member' || :m || '@example.org';
""",
    mend="DELETE FROM member WHERE id = 40001; REINDEX INDEX member_email; VACUUM ANALYZE member;",
)
