"""Twenty more spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind8. The keys are those of spoilt_blind.py. None of the causes is one of
spoilt_entries.py or of spoilt_blind.py to spoilt_blind7.py. The comment `factor` in each entry is what mending gained in one
trial (2 CPUs, shared with others; PostgreSQL 15): with the harness's own client, but for week-of-the-calendar,
capture-nobody-reads and index-full-of-holes, which were tried with pgbench.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"

# ----------------------------------------------------------------- statements

entry(
    id="whole-tree-for-one", area="statements",
    # factor 256.9
    cause="The breadcrumb of a category is looked up with a recursive CTE that begins at the roots and builds the path of every one of the 12,000 categories; only the "
          "statement outside picks out the one that is shown. The condition on id is not pushed into a recursive CTE.",
    mends="Begin the recursion at the category asked for and go up by parent_id (WHERE id = … in the non-recursive term), a handful of steps over the primary key; "
          "or keep the path (ltree, materialized path).",
    spoil="""
CREATE TABLE category (id int PRIMARY KEY, parent_id int REFERENCES category, name text NOT NULL);
INSERT INTO category SELECT g, CASE WHEN g > 8 THEN g / 5 + 1 END, 'Category ' || g FROM generate_series(1, 12000) g;
CREATE INDEX ON category (parent_id);
VACUUM ANALYZE category;
""",
    load="""
\\set id random(9, 12000)
WITH RECURSIVE tree AS (
  SELECT id, parent_id, name, name AS path FROM category WHERE parent_id IS NULL
  UNION ALL
  SELECT c.id, c.parent_id, c.name, t.path || ' > ' || c.name FROM category c JOIN tree t ON c.parent_id = t.id
)
SELECT id, path FROM tree WHERE id = :id;
""",
    mend_load="""
\\set id random(9, 12000)
WITH RECURSIVE up AS (
  SELECT id, parent_id, name AS path FROM category WHERE id = :id
  UNION ALL
  SELECT c.id, c.parent_id, c.name || ' > ' || u.path FROM up u JOIN category c ON c.id = u.parent_id
)
SELECT path FROM up WHERE parent_id IS NULL;
""",
)

entry(
    id="grouped-before-limit", area="statements",
    # factor 63.4
    cause="The forum's front page shows the 20 newest topics with their number of posts: topics LEFT JOIN posts, GROUP BY topic, ORDER BY created DESC LIMIT 20. All 60,000 posts of "
          "all 3,000 topics are joined and counted before the 20 are taken.",
    mends="Take the 20 topics first (a subquery with ORDER BY … LIMIT 20 over the index on created) and count the posts of these only (LATERAL or scalar subquery over the "
          "index on post.topic_id).",
    spoil="""
CREATE TABLE topic (id int PRIMARY KEY, title text NOT NULL, created timestamptz NOT NULL);
CREATE TABLE post (id int PRIMARY KEY, topic_id int NOT NULL REFERENCES topic, author int NOT NULL, written timestamptz NOT NULL);
INSERT INTO topic SELECT g, 'Topic ' || g, timestamptz '2024-01-01' + g * interval '1 hour' FROM generate_series(1, 3000) g;
INSERT INTO post SELECT g, 1 + (g * 7919) % 3000, g % 500, timestamptz '2024-01-01' + g * interval '3 minutes' FROM generate_series(1, 60000) g;
CREATE INDEX ON topic (created);
CREATE INDEX ON post (topic_id);
VACUUM ANALYZE topic; VACUUM ANALYZE post;
""",
    load="""
SELECT t.id, t.title, t.created, count(p.id) AS posts, max(p.written) AS last
  FROM topic t LEFT JOIN post p ON p.topic_id = t.id
 GROUP BY t.id, t.title, t.created ORDER BY t.created DESC LIMIT 20;
""",
    mend_load="""
SELECT t.id, t.title, t.created, p.posts, p.last
  FROM (SELECT id, title, created FROM topic ORDER BY created DESC LIMIT 20) t
  CROSS JOIN LATERAL (SELECT count(*) AS posts, max(written) AS last FROM post WHERE topic_id = t.id) p ORDER BY t.created DESC;
""",
)

entry(
    id="count-around-the-list", area="statements", clients=2,
    # factor 28.5
    cause="The framework's pager counts by wrapping the list's statement as it is: SELECT count(*) FROM (SELECT … ORDER BY name, city …) x. PostgreSQL does not leave out the ORDER BY of a "
          "subquery, so 30,000 members are sorted by text for each count.",
    mends="Count without the ORDER BY (the pager's own count statement: count(*) with the list's conditions only).",
    spoil="""
CREATE TABLE member (id int PRIMARY KEY, club int NOT NULL, name text NOT NULL, city text NOT NULL, born date NOT NULL);
INSERT INTO member SELECT g, g % 3, 'Family name ' || md5(g::text), 'City of ' || md5((g % 300)::text), date '1950-01-01' + g % 18000 FROM generate_series(1, 90000) g;
CREATE INDEX ON member (club);
VACUUM ANALYZE member;
""",
    load="""
\\set c random(0, 2)
SELECT count(*) FROM (SELECT id, name, city, born FROM member WHERE club = :c ORDER BY city, name, born) AS list;
""",
    mend_load="""
\\set c random(0, 2)
SELECT count(*) FROM member WHERE club = :c;
""",
)

entry(
    id="arrow-past-the-gin", area="statements",
    # factor 40.1
    cause="Events are looked up by doc ->> 'order' = '…'; there is a GIN index on doc, but it answers the containment operators (@>, @?, @@, ?) only, never an "
          "extraction compared with =: the whole table is read and each document taken apart.",
    mends="Write the condition as containment, doc @> '{\"order\": \"…\"}', which the GIN index serves; or a B-tree index on ((doc ->> 'order')).",
    spoil="""
CREATE TABLE webhook (id int PRIMARY KEY, doc jsonb NOT NULL);
INSERT INTO webhook SELECT g, jsonb_build_object('order', 'O' || g / 3, 'kind', (ARRAY['paid','sent','back'])[1 + g % 3], 'shop', g % 20, 'amount', g % 997)
  FROM generate_series(1, 40000) g;
CREATE INDEX webhook_doc ON webhook USING gin (doc);
VACUUM ANALYZE webhook;
""",
    load="""
\\set o random(1, 13000)
SELECT id, doc ->> 'kind' AS kind FROM webhook WHERE doc ->> 'order' = 'O' || :o;
""",
    mend_load="""
\\set o random(1, 13000)
SELECT id, doc ->> 'kind' AS kind FROM webhook WHERE doc @> jsonb_build_object('order', 'O' || :o);
""",
)

entry(
    id="two-letters-typed", area="statements",
    # factor 256.1
    cause="The search box asks after the second letter already: name ILIKE '%ab%'. A pattern of two letters between wildcards has no trigram, so the trigram index can't narrow "
          "anything down: all names are read and matched.",
    mends="Search from three letters on (in the application), where the trigram index serves; for one or two letters a search by prefix with its own index (lower(name) text_pattern_ops).",
    spoil="""
CREATE EXTENSION pg_trgm;
CREATE TABLE contact (id int PRIMARY KEY, name text NOT NULL, phone text NOT NULL);
INSERT INTO contact SELECT g, substr(translate(md5(g::text), '0123456789', 'ghijklmnop'), 1, 7) || ' ' || substr(translate(md5((-g)::text), '0123456789', 'qrstuvwxyz'), 1, 10), '+49 ' || g
  FROM generate_series(1, 60000) g;
CREATE INDEX contact_name ON contact USING gin (name gin_trgm_ops);
VACUUM ANALYZE contact;
""",
    load="""
\\set a random(1, 16)
\\set b random(1, 16)
SELECT id, name, phone FROM contact WHERE name ILIKE '%' || substr('abcdefghijklmnop', :a, 1) || substr('abcdefghijklmnop', :b, 1) || '%' ORDER BY name LIMIT 10;
""",
    mend_load="""
\\set a random(1, 16)
\\set b random(1, 16)
\\set c random(1, 16)
SELECT id, name, phone FROM contact WHERE name ILIKE '%' || substr('abcdefghijklmnop', :a, 1) || substr('abcdefghijklmnop', :b, 1) || substr('abcdefghijklmnop', :c, 1) || '%' ORDER BY name LIMIT 10;
""",
)

entry(
    id="all-but-the-closed", area="statements",
    # factor 42.4
    cause="The open claims are asked for as state <> 'closed'. There is an index on state, but a B-tree has no search for 'unequal': all 80,000 claims are read for some 60 "
          "that are not closed.",
    mends="Name the states that are wanted: state IN ('new', 'assigned', 'waiting'), which the index serves; or a partial index … WHERE state <> 'closed'.",
    spoil="""
CREATE TABLE claim (id int PRIMARY KEY, state text NOT NULL, customer int NOT NULL, subject text NOT NULL);
INSERT INTO claim SELECT g, CASE WHEN g % 1300 = 0 THEN (ARRAY['new','assigned','waiting'])[1 + g / 1300 % 3] ELSE 'closed' END, g % 7000, 'Claim ' || g || ' about a delivery'
  FROM generate_series(1, 80000) g;
CREATE INDEX claim_state ON claim (state);
VACUUM ANALYZE claim;
""",
    load="""
SELECT id, state, customer, subject FROM claim WHERE state <> 'closed' ORDER BY id;
""",
    mend_load="""
SELECT id, state, customer, subject FROM claim WHERE state IN ('new', 'assigned', 'waiting') ORDER BY id;
""",
)

# --------------------------------------------------------------------- schema

entry(
    id="char-meets-text", area="schema",
    # factor 134.2
    cause="item.sku is char(12), order_line.sku is text: in the join the char column is converted to text (item.sku::text), so the primary key's index, which is in the order of char, can't be "
          "used, and all 50,000 items are read to show the lines of one order.",
    mends="Give both columns the same type: ALTER TABLE item ALTER COLUMN sku TYPE text (or varchar). A cast of l.sku to char(12) in the statement or an index on (sku::text) would be a crutch.",
    spoil="""
CREATE TABLE item (sku char(12) PRIMARY KEY, name text NOT NULL, price int NOT NULL);
CREATE TABLE order_line (order_id int NOT NULL, pos int NOT NULL, sku text NOT NULL, n int NOT NULL, PRIMARY KEY (order_id, pos));
INSERT INTO item SELECT 'SKU' || lpad(g::text, 9, '0'), 'Item ' || g, g % 900 FROM generate_series(1, 50000) g;
INSERT INTO order_line SELECT g / 4, g % 4, 'SKU' || lpad((1 + (g * 7919) % 50000)::text, 9, '0'), 1 + g % 3 FROM generate_series(1, 60000) g;
VACUUM ANALYZE item; VACUUM ANALYZE order_line;
""",
    load="""
\\set o random(1, 14000)
SELECT l.pos, l.n, i.name, i.price FROM order_line l JOIN item i ON i.sku = l.sku WHERE l.order_id = :o ORDER BY l.pos;
""",
    mend="ALTER TABLE item ALTER COLUMN sku TYPE text; VACUUM ANALYZE item;",
)

entry(
    id="networks-by-btree", area="schema",
    # factor 10.8
    cause="The network that an address belongs to is searched by network >>= address; the only index is the primary key's B-tree, which knows the order of networks but not "
          "'contains': all 60,000 networks are read for each address.",
    mends="An index that knows containment: CREATE INDEX … USING gist (network inet_ops) (or spgist).",
    spoil="""
CREATE TABLE allotment (network cidr PRIMARY KEY, customer int NOT NULL, vlan int NOT NULL);
INSERT INTO allotment SELECT set_masklen('10.0.0.0'::cidr + g * 256::bigint, 24), g % 3000, g % 4000 FROM generate_series(0, 59999) g;
VACUUM ANALYZE allotment;
""",
    load="""
\\set a random(0, 15359999)
SELECT network, customer, vlan FROM allotment WHERE network >>= '10.0.0.0'::inet + :a::bigint ORDER BY masklen(network) DESC LIMIT 1;
""",
    mend="CREATE INDEX allotment_network ON allotment USING gist (network inet_ops); ANALYZE allotment;",
)

entry(
    id="no-statistics-within-json", area="schema", clients=2,
    # factor 43.0
    cause="The answers of a survey are kept in one jsonb column. PostgreSQL has no statistics of what is within: each condition doc ->> '…' = … counts as 0.5 % of the rows, two of them as none; the "
          "planner expects one row on either side, where there are hundreds, and reads the table anew for each row of the other side in a nested loop.",
    mends="Make columns of the keys that are filtered and joined by (wave, lang, person), or statistics on the expressions (CREATE STATISTICS … ON (doc ->> 'wave'), (doc ->> 'lang') …; ANALYZE).",
    spoil="""
CREATE TABLE answer (id int PRIMARY KEY, doc jsonb NOT NULL);
INSERT INTO answer SELECT g, jsonb_build_object('person', 'P' || g / 4, 'wave', (g % 4)::text, 'lang', (ARRAY['de','en','fr','it','es','pl'])[1 + g / 4 % 6], 'score', g % 11)
  FROM generate_series(1, 3000) g;
VACUUM ANALYZE answer;
""",
    load="""
\\set w random(0, 2)
SELECT count(*), avg((b.doc ->> 'score')::int - (a.doc ->> 'score')::int)
  FROM answer a JOIN answer b ON b.doc ->> 'person' = a.doc ->> 'person'
 WHERE a.doc ->> 'wave' = (:w)::text AND a.doc ->> 'lang' = 'de' AND b.doc ->> 'wave' = (:w + 1)::text AND b.doc ->> 'lang' = 'de';
""",
    mend="CREATE STATISTICS answer_keys ON (doc ->> 'wave'), (doc ->> 'lang'), (doc ->> 'person') FROM answer; ANALYZE answer;",
)

entry(
    id="index-full-of-holes", area="schema",
    # factor 4.9
    cause="The index on reminder.due is bloated: nearly all reminders were removed, but a few of each day remain, so that each page of the index still holds one entry. Vacuum frees only pages that "
          "are quite empty and never merges pages, so the scan of the entries that are due reads a page for each.",
    mends="REINDEX INDEX CONCURRENTLY reminder_due (which packs the entries into a few pages).",
    spoil="""
CREATE TABLE reminder (id int NOT NULL, due timestamptz NOT NULL, text text);
CREATE INDEX reminder_due ON reminder (due);
INSERT INTO reminder SELECT g, timestamptz '2024-01-01' + g * interval '1 minute' FROM generate_series(1, 800000) g;
DELETE FROM reminder WHERE id % 366 <> 0;
VACUUM ANALYZE reminder;
""",
    load="""
SELECT count(*), max(due) FROM reminder WHERE due < '2025-07-01';
""",
    mend="REINDEX INDEX CONCURRENTLY reminder_due;",
)

entry(
    id="week-of-the-calendar", area="schema", clients=2,
    # factor 9.6
    cause="The sales are partitioned by day, but the report bounds the day only through the join with the calendar table (c.year = … AND c.week = …), as in a star schema: which days these are is known only when the "
          "statement runs, so no partition is pruned for the hash join and all 120 are read for seven days.",
    mends="Bound the partition key itself: look up the week's first and last day and add s.day BETWEEN … AND … (as values, or the days as an array), so that 113 of the 120 partitions are pruned.",
    spoil="""
CREATE TABLE calendar (day date PRIMARY KEY, year int NOT NULL, week int NOT NULL, holiday boolean NOT NULL);
INSERT INTO calendar SELECT d, 2024, g / 7, g % 90 = 0 FROM generate_series(0, 119) g, LATERAL (SELECT date '2024-01-01' + g AS d) x;
CREATE TABLE sale (day date NOT NULL, shop int NOT NULL, total int NOT NULL) PARTITION BY RANGE (day);
DO $$ BEGIN
  FOR d IN 0..119 LOOP
    EXECUTE format('CREATE TABLE sale_%s PARTITION OF sale FOR VALUES FROM (%L) TO (%L)', d, date '2024-01-01' + d, date '2024-01-01' + d + 1);
  END LOOP;
END $$;
INSERT INTO sale SELECT date '2024-01-01' + g % 120, g % 50, g % 900 FROM generate_series(1, 180000) g;
VACUUM ANALYZE calendar; VACUUM ANALYZE sale;
""",
    load="""
\\set w random(0, 16)
SELECT s.shop, sum(s.total) FROM sale s JOIN calendar c ON c.day = s.day WHERE c.year = 2024 AND c.week = :w AND NOT c.holiday GROUP BY s.shop;
""",
    mend_load="""
\\set w random(0, 16)
SELECT s.shop, sum(s.total) FROM sale s JOIN calendar c ON c.day = s.day WHERE c.year = 2024 AND c.week = :w AND NOT c.holiday
   AND s.day BETWEEN date '2024-01-01' + 7 * :w::int AND date '2024-01-01' + 7 * :w::int + 6 GROUP BY s.shop;
""",
)

# ------------------------------------------------------------------- settings

entry(
    id="track-counts-off", area="settings",
    # factor 145.6
    cause="track_counts is off on the server ('to save overhead'): without these counters autovacuum can't know what has changed and never analyzes or vacuums anything, though it is on. The table of receipts "
          "has no statistics at all, and the planner takes the index on customer_id (the anonymous customer 0 has two thirds of all rows) in the place of that on `at`.",
    mends="Set track_counts back to on, so that autovacuum works; ANALYZE (VACUUM ANALYZE) the tables once by hand.",
    settings={"track_counts": "off"},
    spoil="""
CREATE TABLE receipt (id int PRIMARY KEY, at timestamptz NOT NULL, customer_id int NOT NULL, total int NOT NULL);
INSERT INTO receipt SELECT g, timestamptz '2024-01-01' + g * interval '1 minute', CASE WHEN g % 3 > 0 THEN 0 ELSE g % 5000 END, g % 777 FROM generate_series(1, 120000) g;
CREATE INDEX receipt_customer ON receipt (customer_id);
CREATE INDEX receipt_at ON receipt (at);
""",
    load="""
SELECT count(*), sum(total) FROM receipt WHERE customer_id = 0 AND at >= timestamptz '2024-01-01' + 119900 * interval '1 minute';
""",
    mend_settings={},
    mend="VACUUM ANALYZE receipt;",
)

entry(
    id="parallel-mode-forced", area="settings",
    # factor 112.4
    cause="The database has force_parallel_mode = on ('so that both CPUs are used'); it is a setting for tests: each statement that may run in parallel, also a look-up by key, is given to a worker process, which must be "
          "started for it and takes a hundred times as long as the look-up.",
    mends="ALTER DATABASE … RESET force_parallel_mode (off): the planner chooses parallel plans by itself where they pay.",
    spoil="""
CREATE TABLE guest (id int PRIMARY KEY, name text NOT NULL, room int NOT NULL, arrives date NOT NULL);
INSERT INTO guest SELECT g, 'Guest ' || g, g % 400, date '2024-01-01' + g % 700 FROM generate_series(1, 50000) g;
CREATE INDEX ON guest (room, arrives);
VACUUM ANALYZE guest;
ALTER DATABASE spoilt SET force_parallel_mode = on;
""",
    load="""
\\set r random(0, 399)
SELECT id, name, arrives FROM guest WHERE room = :r AND arrives >= date '2025-11-01' ORDER BY arrives LIMIT 10;
""",
    mend="ALTER DATABASE spoilt RESET force_parallel_mode;",
)

entry(
    id="incremental-sort-off", area="settings", role="app",
    # factor 187.0
    cause="The application's role has enable_incremental_sort = off (after the upgrade to 13 one report had got a bad plan with it): the feed is ordered by (day, id) and the index is on day alone, so that without "
          "incremental sort all 100,000 rows are read and sorted for the first 25.",
    mends="ALTER ROLE app RESET enable_incremental_sort (and mend the one report); or an index on (day, id).",
    spoil="""
CREATE TABLE bulletin (id int PRIMARY KEY, day date NOT NULL, title text NOT NULL);
INSERT INTO bulletin SELECT g, date '2020-01-01' + (g * 7919) % 2000, 'Bulletin ' || g FROM generate_series(1, 100000) g;
CREATE INDEX bulletin_day ON bulletin (day);
VACUUM ANALYZE bulletin;
GRANT SELECT ON bulletin TO app;
ALTER ROLE app SET enable_incremental_sort = off;
""",
    load="""
\\set d random(200, 1999)
SELECT id, day, title FROM bulletin WHERE day <= date '2020-01-01' + :d::int ORDER BY day DESC, id DESC LIMIT 25;
""",
    mend="ALTER ROLE app RESET enable_incremental_sort;",
)

entry(
    id="costly-function-at-cost-one", area="settings", clients=2,
    # factor 81.7
    cause="The PL/pgSQL function may_sell(), which looks into two tables, was declared with COST 1 (the default for PL/pgSQL is 100): the planner takes it to be as cheap as a comparison and leaves the conditions in the "
          "order in which they are written, so that it is called for each of the 10,000 offers before the comparison price < list_price leaves only a few of them.",
    mends="ALTER FUNCTION may_sell(int, text) COST 1000 (what it costs in truth), so that the cheap condition is tried first. (To write the conditions in another order, or as a join, would help "
          "this statement only.)",
    spoil="""
CREATE TABLE country_rule (goods int, country text, allowed boolean NOT NULL, PRIMARY KEY (goods, country));
INSERT INTO country_rule SELECT g, c, g % 7 > 0 FROM generate_series(0, 99) g, unnest(ARRAY['DE','FR','IT','ES','PL']) c;
CREATE TABLE recall (offer_id int PRIMARY KEY);
INSERT INTO recall SELECT g * 37 FROM generate_series(1, 200) g;
CREATE TABLE offer (id int PRIMARY KEY, goods int NOT NULL, price int NOT NULL, list_price int NOT NULL, name text NOT NULL);
INSERT INTO offer SELECT g, g % 100, 500 + g % 300 - CASE WHEN g % 211 = 0 THEN 50 ELSE 0 END, 500 + g % 300, 'Offer ' || g FROM generate_series(1, 10000) g;
CREATE FUNCTION may_sell(o int, c text) RETURNS boolean LANGUAGE plpgsql STABLE COST 1 AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM recall WHERE offer_id = o) THEN RETURN false; END IF;
  RETURN (SELECT r.allowed FROM country_rule r JOIN offer f ON f.goods = r.goods WHERE f.id = o AND r.country = c);
END $$;
VACUUM ANALYZE country_rule; VACUUM ANALYZE recall; VACUUM ANALYZE offer;
""",
    load="""
SELECT id, name, price, list_price FROM offer WHERE may_sell(id, 'FR') AND price < list_price ORDER BY id;
""",
    mend="ALTER FUNCTION may_sell(int, text) COST 1000;",
)

# ------------------------------------------------------------------- workload

entry(
    id="truncate-and-reload", area="workload",
    # factor 5.1
    cause="The loader takes over the supplier's list by BEGIN; TRUNCATE; INSERT …; COMMIT over and over. TRUNCATE takes an ACCESS EXCLUSIVE lock, which is held until the COMMIT, so that all who read the list "
          "wait as long as the loading takes.",
    mends="Load into a table of its own first and swap it in by renaming in a short transaction (or merge/DELETE only what has changed, which does not block readers); TRUNCATE not at the "
          "beginning of a long transaction.",
    spoil="""
CREATE TABLE supply (sku int PRIMARY KEY, name text NOT NULL, price int NOT NULL);
INSERT INTO supply SELECT g, 'Article ' || md5(g::text), g % 900 FROM generate_series(1, 60000) g;
VACUUM ANALYZE supply;
""",
    beside="""
BEGIN;
TRUNCATE supply;
INSERT INTO supply SELECT g, 'Article ' || md5(g::text), g % 900 FROM generate_series(1, 60000) g;
SELECT pg_sleep(0.3);
COMMIT;
SELECT pg_sleep(0.1);
""",
    load="""
\\set s random(1, 60000)
SELECT name, price FROM supply WHERE sku = :s;
""",
    mend_beside="""
SET client_min_messages = warning;
DROP TABLE IF EXISTS supply_new;
CREATE TABLE supply_new (LIKE supply INCLUDING ALL);
INSERT INTO supply_new SELECT g, 'Article ' || md5(g::text), g % 900 FROM generate_series(1, 60000) g;
SELECT pg_sleep(0.3);
BEGIN;
DROP TABLE supply;
ALTER TABLE supply_new RENAME TO supply;
COMMIT;
SELECT pg_sleep(0.1);
""",
)

entry(
    id="max-plus-one", area="workload", clients=8,
    # factor 4.1
    cause="The next number is taken as max(number) + 1: sessions at the same time come to the same number, each waits at the unique index until the one before has committed, gets a "
          "unique violation and tries again. Only one of all that write gets on with each commit.",
    mends="Take the number from a sequence or an identity column (DEFAULT nextval(…)), which gives each session its own without waiting.",
    spoil="""
CREATE TABLE complaint (number bigint PRIMARY KEY, customer int NOT NULL, at timestamptz NOT NULL DEFAULT now());
INSERT INTO complaint SELECT g, g % 900 FROM generate_series(1, 1000) g;
CREATE SEQUENCE complaint_number START 10000000;
CREATE FUNCTION complain(c int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
  LOOP
    BEGIN
      INSERT INTO complaint (number, customer) SELECT max(number) + 1, c FROM complaint RETURNING number INTO n;
      RETURN n;
    EXCEPTION WHEN unique_violation THEN
      NULL;  -- somebody was faster: once more
    END;
  END LOOP;
END $$;
VACUUM ANALYZE complaint;
""",
    load="""
\\set c random(1, 900)
SELECT complain(:c);
""",
    mend="""
CREATE OR REPLACE FUNCTION complain(c int) RETURNS bigint LANGUAGE sql AS
  'INSERT INTO complaint (number, customer) VALUES (nextval(''complaint_number''), c) RETURNING number';
""",
)

entry(
    id="all-prices-at-once", area="workload",
    # factor 28.3
    cause="A job recalculates the prices of all 20,000 articles, category by category, in one transaction and computes in between: the row locks of all articles done so far are held until "
          "its COMMIT, and the shop's updates of the stock of these articles wait for it.",
    mends="Commit in small batches (each category in a transaction of its own), so that a row is locked for milliseconds.",
    spoil="""
CREATE TABLE article (id int PRIMARY KEY, category int NOT NULL, price int NOT NULL, stock int NOT NULL) WITH (fillfactor = 50);
INSERT INTO article SELECT g, g / 1000, g % 900, 1000 FROM generate_series(0, 19999) g;
VACUUM ANALYZE article;
CREATE PROCEDURE reprice(at_once boolean) LANGUAGE plpgsql AS $$
BEGIN
  FOR c IN 0..19 LOOP
    UPDATE article SET price = price + 1 WHERE id BETWEEN c * 1000 AND c * 1000 + 999;
    IF NOT at_once THEN COMMIT; END IF;
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$;
""",
    beside="CALL reprice(true);",
    load="""
\\set id random(0, 19999)
UPDATE article SET stock = stock - 1 WHERE id = :id;
""",
    mend_beside="CALL reprice(false);",
)

# ---------------------------------------------------------------- replication

# Temporary slots: one that is left behind would keep the server of the next entry, which has no wal_level = logical, from starting.
CONSUMER = ("printf \"SELECT pg_create_logical_replication_slot('consumer_%s', 'test_decoding', true);\\n"
            "SELECT count(*) FROM pg_logical_slot_get_changes('consumer_%s', NULL, NULL, 'include-xids', '0');\\n\\\\\\\\watch 0.1\\n\" $i $i | psql -X -q > /dev/null 2>&1")

entry(
    id="a-slot-for-each-consumer", area="replication", clients=2,
    # factor 2.9
    cause="Each of eight services that follow the changes (search, cache, mail, statistics …) has a logical replication slot of its own: all of the WAL is read, decoded and written out as text eight times on the "
          "primary, which takes the CPUs from the statements of the depots.",
    mends="One slot for all (a change stream or broker that hands on to the services), with a publication of only the tables that are needed; drop the other slots.",
    settings={"wal_level": "logical", "max_replication_slots": "20"},
    spoil="""
CREATE TABLE scan (id bigserial PRIMARY KEY, parcel int NOT NULL, depot int NOT NULL, at timestamptz NOT NULL DEFAULT now(), state text NOT NULL);
INSERT INTO scan (parcel, depot, state) SELECT g, g % 40, 'on its way' FROM generate_series(1, 20000) g;
VACUUM ANALYZE scan;
""",
    beside=SHELL + "\\! for i in 1 2 3 4 5 6 7 8; do (" + CONSUMER + ") & done; wait",
    load="""
\\set d random(0, 39)
INSERT INTO scan (parcel, depot, state) SELECT g, :d, 'loaded onto the van' FROM generate_series(1, 300) g;
""",
    mend_beside=SHELL + "\\! for i in 1; do (" + CONSUMER + ") & done; wait",
)

entry(
    id="capture-nobody-reads", area="replication", clients=2,
    # factor 4.7
    cause="The triggers of a trigger-based replication (as of Slony, Londiste, Bucardo) that was given up two years ago are still on the table: each row changed is written once more, old and new as JSON, into "
          "the queue replica_log with its indexes, which nobody reads any more.",
    mends="Drop the trigger (and the function and the queue table) that the old replication has left behind.",
    spoil="""
CREATE TABLE seat (id int PRIMARY KEY, show int NOT NULL, state text NOT NULL, price int NOT NULL, remark text NOT NULL) WITH (fillfactor = 50);
INSERT INTO seat SELECT g, g / 100, 'free', g % 90, 'as printed on the ticket' FROM generate_series(1, 20000) g;
VACUUM ANALYZE seat;
CREATE TABLE replica_log (seq bigserial PRIMARY KEY, txid bigint NOT NULL, at timestamptz NOT NULL, tab text NOT NULL, op text NOT NULL, old_row jsonb, new_row jsonb);
CREATE INDEX ON replica_log (txid); CREATE INDEX ON replica_log (tab, at);
CREATE FUNCTION replica_capture() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO replica_log (txid, at, tab, op, old_row, new_row) VALUES (txid_current(), clock_timestamp(), TG_TABLE_NAME, TG_OP, to_jsonb(OLD), to_jsonb(NEW));
  RETURN NULL;
END $$;
CREATE TRIGGER replica_capture AFTER INSERT OR UPDATE OR DELETE ON seat FOR EACH ROW EXECUTE FUNCTION replica_capture();
""",
    load="""
\\set s random(1, 48)
UPDATE seat SET price = price + 1 WHERE id BETWEEN :s * 400 AND :s * 400 + 399;
""",
    mend="DROP TRIGGER replica_capture ON seat; DROP FUNCTION replica_capture(); DROP TABLE replica_log; VACUUM ANALYZE seat;",
)
