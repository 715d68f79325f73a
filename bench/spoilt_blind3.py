"""Twenty more spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind3. The keys are those of spoilt_blind.py. None of the causes is one of
spoilt_entries.py, spoilt_blind.py or spoilt_blind2.py.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"

# ---------------------------------------------------------------- statements

entry(
    id="geoip-between", area="statements",
    cause="The address is looked up by :ip BETWEEN ip_from AND ip_to; a B-tree bounds only one of the two columns, so that "
          "all ranges that begin below the address (half of the table on average) are gone through to find the one.",
    mends="Take the last range that begins at or below the address (WHERE ip_from <= :ip ORDER BY ip_from DESC LIMIT 1) and "
          "check ip_to of that one; or a range type with a GiST index (int8range(ip_from, ip_to, '[]') @> :ip).",
    spoil="""
CREATE TABLE ip_range (ip_from bigint NOT NULL, ip_to bigint NOT NULL, country text NOT NULL, city text NOT NULL,
  PRIMARY KEY (ip_from, ip_to));
INSERT INTO ip_range SELECT g * 25000, g * 25000 + 24999, 'Country ' || g % 200, 'City ' || g % 9000
  FROM generate_series(1::bigint, 150000) g;
VACUUM ANALYZE ip_range;
""",
    load="""
\\set ip random(25000, 3750000000)
SELECT country, city FROM ip_range WHERE :ip BETWEEN ip_from AND ip_to;
""",
    mend_load="""
\\set ip random(25000, 3750000000)
SELECT country, city FROM (SELECT * FROM ip_range WHERE ip_from <= :ip ORDER BY ip_from DESC LIMIT 1) r WHERE ip_to >= :ip;
""",
)

_valid = """
\\set c random(1, 6000)
WITH valid AS%s (
  SELECT c.id, c.customer_id, c.valid_from, t.name, t.price FROM contract c JOIN tariff t ON t.id = c.tariff_id
   WHERE c.state <> 'cancelled')
SELECT v.id, v.name, v.price, (SELECT min(f.valid_from) FROM valid f WHERE f.customer_id = v.customer_id) AS customer_since
  FROM valid v WHERE v.customer_id = :c;
"""
entry(
    id="cte-used-twice", area="statements",
    cause="The CTE `valid` is referred to twice, so PostgreSQL materializes it: all contracts are joined and kept before "
          "those of the one customer are picked out; the condition on customer_id does not reach the table.",
    mends="WITH valid AS NOT MATERIALIZED (…), or a view, or the condition on the customer within the CTE, so that the index "
          "on contract.customer_id is used.",
    spoil="""
CREATE TABLE tariff (id int PRIMARY KEY, name text NOT NULL, price int NOT NULL);
INSERT INTO tariff SELECT g, 'Tariff ' || g, g * 3 FROM generate_series(1, 40) g;
CREATE TABLE contract (id int PRIMARY KEY, customer_id int NOT NULL, tariff_id int NOT NULL REFERENCES tariff,
  valid_from date NOT NULL, state text NOT NULL);
INSERT INTO contract SELECT g, 1 + (g * 7) % 6000, 1 + g % 40, date '2015-01-01' + g % 3000,
    CASE WHEN g % 11 = 0 THEN 'cancelled' ELSE 'running' END FROM generate_series(1, 30000) g;
CREATE INDEX ON contract (customer_id);
VACUUM ANALYZE tariff; VACUUM ANALYZE contract;
""",
    load=_valid % "",
    mend_load=_valid % " NOT MATERIALIZED",
)

entry(
    id="teaser-at-random", area="statements",
    cause="The teaser takes four products by ORDER BY random() LIMIT 4: a random number is drawn for each of the products, and "
          "all are sorted by it, for four rows.",
    mends="Draw a few random keys and fetch those by the primary key, or TABLESAMPLE, or draw the selection once a minute and "
          "keep it.",
    spoil="""
CREATE TABLE product (id int PRIMARY KEY, title text NOT NULL, price int NOT NULL, on_sale boolean NOT NULL);
INSERT INTO product SELECT g, 'Product ' || g, g % 900, g % 10 <> 0 FROM generate_series(1, 60000) g;
VACUUM ANALYZE product;
""",
    load="""
SELECT id, title, price FROM product WHERE on_sale ORDER BY random() LIMIT 4;
""",
    mend_load="""
SELECT id, title, price FROM product
 WHERE id = ANY (ARRAY(SELECT 1 + floor(random() * 60000)::int FROM generate_series(1, 12))) AND on_sale LIMIT 4;
""",
)

entry(
    id="next-page-by-or", area="statements",
    cause="The next page is asked for by key, but with the comparison of two columns spelt out: created < x OR (created = x "
          "AND id < y). An OR can't bound an index scan, so the index is walked from the newest post on, and all posts of the "
          "pages before are read and thrown away.",
    mends="Compare rows: (created, id) < (x, y), which the index on (created, id) serves from the very place on.",
    spoil="""
CREATE TABLE post (id bigint PRIMARY KEY, created timestamptz NOT NULL, author int NOT NULL, title text NOT NULL);
INSERT INTO post SELECT g, to_timestamp(1700000000 + (g / 3) * 60), g % 700, 'Post number ' || g FROM generate_series(1, 150000) g;
CREATE INDEX post_created ON post (created, id);
VACUUM ANALYZE post;
""",
    load="""
\\set n random(1000, 149000)
\\set t 1700000000 + (:n / 3) * 60
SELECT id, created, author, title FROM post
 WHERE created < to_timestamp(:t) OR (created = to_timestamp(:t) AND id < :n)
 ORDER BY created DESC, id DESC LIMIT 30;
""",
    mend_load="""
\\set n random(1000, 149000)
\\set t 1700000000 + (:n / 3) * 60
SELECT id, created, author, title FROM post
 WHERE (created, id) < (to_timestamp(:t), :n)
 ORDER BY created DESC, id DESC LIMIT 30;
""",
)

entry(
    id="two-children-joined", area="statements",
    cause="Two child tables that have nothing to do with each other (tasks and files of a project) are joined in one "
          "statement: each task is paired with each file, 100 times 80 rows, and count(DISTINCT …) counts the copies away.",
    mends="Count each child table by itself, in a subquery (scalar, LATERAL or grouped before the join), so that the rows "
          "are not multiplied.",
    spoil="""
CREATE TABLE project (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE task (id int PRIMARY KEY, project_id int NOT NULL REFERENCES project, state int NOT NULL);
CREATE TABLE file (id int PRIMARY KEY, project_id int NOT NULL REFERENCES project, bytes int NOT NULL);
INSERT INTO project SELECT g, 'Project ' || g FROM generate_series(1, 300) g;
INSERT INTO task SELECT g, 1 + g % 300, g % 4 FROM generate_series(1, 30000) g;
INSERT INTO file SELECT g, 1 + g % 300, g % 5000 FROM generate_series(1, 24000) g;
CREATE INDEX ON task (project_id);
CREATE INDEX ON file (project_id);
VACUUM ANALYZE project; VACUUM ANALYZE task; VACUUM ANALYZE file;
""",
    load="""
\\set p random(1, 300)
SELECT p.name, count(DISTINCT t.id) AS tasks, count(DISTINCT f.id) AS files
  FROM project p LEFT JOIN task t ON t.project_id = p.id LEFT JOIN file f ON f.project_id = p.id
 WHERE p.id = :p GROUP BY p.id, p.name;
""",
    mend_load="""
\\set p random(1, 300)
SELECT p.name, (SELECT count(*) FROM task t WHERE t.project_id = p.id) AS tasks,
       (SELECT count(*) FROM file f WHERE f.project_id = p.id) AS files
  FROM project p WHERE p.id = :p;
""",
)

entry(
    id="a-thousand-rows-said", area="statements",
    cause="The set-returning function shops_of() gives two shops, but as it says nothing (ROWS) the planner takes it for "
          "1,000; for so many it hashes the whole table of sales instead of using the index on shop_id.",
    mends="ALTER FUNCTION shops_of(int) ROWS 2 (or an SQL function that is inlined, or the membership joined directly), so "
          "that the index on sale.shop_id is used.",
    spoil="""
CREATE TABLE staff_shop (staff_id int, shop_id int, PRIMARY KEY (staff_id, shop_id));
INSERT INTO staff_shop SELECT g, 1 + (g * 13 + n * 171) % 500 FROM generate_series(1, 1200) g, generate_series(0, 1) n;
CREATE TABLE sale (id int PRIMARY KEY, shop_id int NOT NULL, amount int NOT NULL);
INSERT INTO sale SELECT g, 1 + (g * 17) % 500, g % 900 FROM generate_series(1, 150000) g;
CREATE INDEX ON sale (shop_id);
CREATE FUNCTION shops_of(p_staff int) RETURNS SETOF int LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_staff IS NULL THEN RAISE EXCEPTION 'who?'; END IF;
  RETURN QUERY SELECT s.shop_id FROM staff_shop s WHERE s.staff_id = p_staff;
END $$;
VACUUM ANALYZE staff_shop; VACUUM ANALYZE sale;
""",
    load="""
\\set w random(1, 1200)
SELECT s.shop_id, count(*), sum(s.amount) FROM shops_of(:w) AS m(shop_id) JOIN sale s ON s.shop_id = m.shop_id GROUP BY s.shop_id;
""",
    mend="ALTER FUNCTION shops_of(int) ROWS 2;",
)

entry(
    id="feed-by-concatenation", area="statements",
    cause="The PL/pgSQL function glues the feed together line by line (feed := feed || line): each of the 2,000 steps copies "
          "all of the text so far, so the work grows with the square of the number of lines.",
    mends="Build the text by one string_agg() (or array_agg and array_to_string), without a loop.",
    spoil="""
CREATE TABLE article (id int PRIMARY KEY, shop int NOT NULL, title text NOT NULL, price int NOT NULL);
INSERT INTO article SELECT g, g % 20, 'Article with a title of some length, number ' || g, g % 800 FROM generate_series(1, 40000) g;
CREATE INDEX ON article (shop, id);
CREATE FUNCTION shop_feed(p_shop int) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  a record;
  feed text := '';
BEGIN
  FOR a IN SELECT id, title, price FROM article WHERE shop = p_shop ORDER BY id LOOP
    feed := feed || '<item><id>' || a.id || '</id><title>' || a.title || '</title><price>' || a.price || '</price></item>' || chr(10);
  END LOOP;
  RETURN feed;
END $$;
VACUUM ANALYZE article;
""",
    load="""
\\set s random(0, 19)
SELECT shop_feed(:s);
""",
    mend="""
CREATE OR REPLACE FUNCTION shop_feed(p_shop int) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT string_agg('<item><id>' || id || '</id><title>' || title || '</title><price>' || price || '</price></item>' || chr(10),
                            '' ORDER BY id) FROM article WHERE shop = p_shop);
END $$;
""",
)

entry(
    id="upsert-by-exception", area="statements",
    cause="The function inserts each word and catches unique_violation to update it instead; nearly all words are there "
          "already, so that for each a row is written that is dead at once, an error raised, and a subtransaction rolled back.",
    mends="INSERT … ON CONFLICT (word) DO UPDATE, for all words in one statement (or at least UPDATE first, INSERT only if "
          "nothing was found).",
    spoil="""
CREATE TABLE word_count (word text PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 70);
INSERT INTO word_count SELECT 'word' || lpad(g::text, 6, '0'), 0 FROM generate_series(1, 20000) g;
CREATE FUNCTION count_words(p_from int, p_many int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w text;
BEGIN
  FOR w IN SELECT 'word' || lpad(g::text, 6, '0') FROM generate_series(p_from, p_from + p_many - 1) g LOOP
    BEGIN
      INSERT INTO word_count (word, n) VALUES (w, 1);
    EXCEPTION WHEN unique_violation THEN
      UPDATE word_count SET n = n + 1 WHERE word = w;
    END;
  END LOOP;
END $$;
VACUUM ANALYZE word_count;
""",
    load="""
\\set f random(1, 19700)
SELECT count_words(:f, 300);
""",
    mend="""
CREATE OR REPLACE FUNCTION count_words(p_from int, p_many int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO word_count (word, n)
    SELECT 'word' || lpad(g::text, 6, '0'), 1 FROM generate_series(p_from, p_from + p_many - 1) g ORDER BY g
  ON CONFLICT (word) DO UPDATE SET n = word_count.n + 1;
END $$;
VACUUM FULL word_count;
""",
)

# -------------------------------------------------------------------- schema

entry(
    id="partitions-by-rules", area="schema",
    cause="The table is split by inheritance, as twenty years ago, and 52 rules (ON INSERT … DO INSTEAD) send the rows into "
          "their week's table: each INSERT is rewritten into 53, and each of those goes through all the rows.",
    mends="Declarative partitioning (PARTITION BY RANGE), or one BEFORE INSERT trigger instead of the rules, or insert into "
          "the week's table directly.",
    spoil="""
CREATE TABLE measurement (day date NOT NULL, station int NOT NULL, value int NOT NULL);
DO $$
DECLARE a date; b date;
BEGIN
  FOR w IN 0..51 LOOP
    a := date '2024-01-01' + 7 * w;
    b := a + 7;
    EXECUTE format('CREATE TABLE measurement_%s (CHECK (day >= %L AND day < %L)) INHERITS (measurement)', w, a, b);
    EXECUTE format('CREATE RULE to_%s AS ON INSERT TO measurement WHERE NEW.day >= %L AND NEW.day < %L '
                   'DO INSTEAD INSERT INTO measurement_%s VALUES (NEW.day, NEW.station, NEW.value)', w, a, b, w);
  END LOOP;
END $$;
""",
    load="""
\\set d random(0, 360)
\\set v random(1, 10000)
INSERT INTO measurement (day, station, value) SELECT date '2024-01-01' + (:d + g % 3)::int, g, :v + g FROM generate_series(1, 40) g;
""",
    mend="""
DROP TABLE measurement CASCADE;
CREATE TABLE measurement (day date NOT NULL, station int NOT NULL, value int NOT NULL) PARTITION BY RANGE (day);
DO $$
BEGIN
  FOR w IN 0..51 LOOP
    EXECUTE format('CREATE TABLE measurement_%s PARTITION OF measurement FOR VALUES FROM (%L) TO (%L)', w,
                   date '2024-01-01' + 7 * w, date '2024-01-01' + 7 * w + 7);
  END LOOP;
END $$;
""",
)

entry(
    id="json-as-text", area="schema",
    cause="The column is of type json, not jsonb: json is text, and each ->> parses the document of 1.2 kB anew from its "
          "beginning, five times for each row.",
    mends="ALTER TABLE delivery ALTER doc TYPE jsonb (or the fields that are asked for as columns).",
    spoil="""
CREATE TABLE delivery (id int PRIMARY KEY, carrier int NOT NULL, doc json NOT NULL);
INSERT INTO delivery SELECT g, g % 40,
    ('{' || (SELECT string_agg(format('"field_%s":"value %s"', n, (g * n) % 977), ',') FROM generate_series(1, 40) n) ||
     format(',"state":"%s","weight":%s,"price":%s,"zone":%s,"express":%s}', CASE WHEN g % 3 = 0 THEN 'open' ELSE 'done' END,
            g % 300, g % 90, g % 9, CASE WHEN g % 2 = 0 THEN 'true' ELSE 'false' END))::json
  FROM generate_series(1, 16000) g;
CREATE INDEX ON delivery (carrier);
VACUUM ANALYZE delivery;
""",
    load="""
\\set c random(0, 39)
SELECT doc ->> 'zone' AS zone, count(*), sum((doc ->> 'weight')::int), sum((doc ->> 'price')::int) FROM delivery
 WHERE carrier = :c AND doc ->> 'state' = 'open' AND NOT (doc ->> 'express')::boolean GROUP BY 1;
""",
    mend="ALTER TABLE delivery ALTER doc TYPE jsonb USING doc::jsonb; VACUUM ANALYZE delivery;",
)

entry(
    id="one-row-expected", area="schema",
    cause="Category, subcategory, season and group say the same (the group decides the others), but the planner multiplies "
          "their selectivities as if they were independent: it expects one row on either side, where there are 200, and reads "
          "one side anew for each row of the other in a nested loop.",
    mends="CREATE STATISTICS (dependencies) ON category, subcategory, season, grp for both tables and ANALYZE; or ask for the "
          "group alone.",
    spoil="""
CREATE TABLE offer (id int PRIMARY KEY, category int NOT NULL, subcategory int NOT NULL, season int NOT NULL, grp int NOT NULL,
  size int NOT NULL, price int NOT NULL);
CREATE TABLE demand (id int PRIMARY KEY, category int NOT NULL, subcategory int NOT NULL, season int NOT NULL, grp int NOT NULL,
  size int NOT NULL, price int NOT NULL);
INSERT INTO offer SELECT g, g % 200 / 40, g % 200 / 8, g % 200 % 4, g % 200, (g / 200) % 97, g % 899 FROM generate_series(1, 40000) g;
INSERT INTO demand SELECT g, g % 200 / 40, g % 200 / 8, g % 200 % 4, g % 200, (g / 200) % 89, g % 691 FROM generate_series(1, 40000) g;
CREATE INDEX ON offer (grp);
CREATE INDEX ON demand (grp);
VACUUM ANALYZE offer; VACUUM ANALYZE demand;
""",
    load="""
\\set g random(0, 199)
\\set s :g / 8
\\set c :g / 40
\\set q :g % 4
SELECT count(*), min(d.price - o.price) FROM offer o JOIN demand d ON d.size = o.size AND d.price >= o.price
 WHERE o.category = :c AND o.subcategory = :s AND o.season = :q AND o.grp = :g
   AND d.category = :c AND d.subcategory = :s AND d.season = :q AND d.grp = :g;
""",
    mend="""
CREATE STATISTICS offer_groups (dependencies) ON category, subcategory, season, grp FROM offer;
CREATE STATISTICS demand_groups (dependencies) ON category, subcategory, season, grp FROM demand;
ANALYZE offer; ANALYZE demand;
""",
)

entry(
    id="text-search-by-gist", area="schema",
    cause="The index for full text search is a GiST index: it keeps a signature of each document, not its words; the "
          "signatures of the upper levels are nearly full, so a search goes through nearly the whole index and must look at "
          "many documents that do not match.",
    mends="A GIN index on tsv instead of the GiST index.",
    spoil="""
CREATE TABLE manual (id int PRIMARY KEY, title text NOT NULL, tsv tsvector NOT NULL);
INSERT INTO manual SELECT g, 'Manual ' || g,
    (SELECT string_agg('w' || (hashint4(g * 200 + w) & 4095), ' ') FROM generate_series(1, 140) w)::tsvector
  FROM generate_series(1, 6000) g;
CREATE INDEX manual_tsv ON manual USING gist (tsv);
VACUUM ANALYZE manual;
""",
    load="""
\\set a random(0, 4095)
\\set b random(0, 4095)
SELECT id, title FROM manual WHERE tsv @@ ('w' || :a || ' & w' || :b)::tsquery;
""",
    mend="CREATE INDEX manual_tsv_gin ON manual USING gin (tsv); DROP INDEX manual_tsv; VACUUM ANALYZE manual;",
)

# ------------------------------------------------------------------ settings

entry(
    id="vacuum-cost-delay", area="settings", protocol="simple",
    cause="vacuum_cost_delay is 20ms for the whole server (meant was autovacuum_vacuum_cost_delay): the import job's own "
          "VACUUM, which it waits for, sleeps 20 ms after every 200 pages.",
    mends="Set vacuum_cost_delay back to 0 (for manual VACUUM), and slow down only autovacuum by its own setting; or SET it "
          "to 0 in the job.",
    settings={"vacuum_cost_delay": "20ms"},
    spoil="""
DO $$
BEGIN
  FOR i IN 0..3 LOOP
    EXECUTE format('CREATE TABLE tariff_%s (id int PRIMARY KEY, batch int NOT NULL, qty int NOT NULL, remark text NOT NULL) '
                   'WITH (fillfactor = 80)', i);
    EXECUTE format('INSERT INTO tariff_%s SELECT g, g %% 100, g %% 50, repeat(''r'', 80) FROM generate_series(1, 20000) g', i);
    EXECUTE format('CREATE INDEX ON tariff_%s (batch)', i);
  END LOOP;
END $$;
VACUUM ANALYZE tariff_0; VACUUM ANALYZE tariff_1; VACUUM ANALYZE tariff_2; VACUUM ANALYZE tariff_3;
""",
    load="""
\\set b random(0, 99)
UPDATE tariff_:client_id SET qty = qty + 1 WHERE batch = :b;
VACUUM tariff_:client_id;
SELECT sum(qty) FROM tariff_:client_id WHERE batch = :b;
""",
    mend_settings={},
)

entry(
    id="float-digits-of-old", area="settings",
    cause="extra_float_digits is 0 on the server (for the looks of an old report): floating point numbers are then rounded and "
          "written by sprintf, several times slower than the shortest exact form, which is taken from 1 (the default) on.",
    mends="Set extra_float_digits back to 1 (ALTER SYSTEM RESET), and round where it is shown (round(x::numeric, n)).",
    settings={"extra_float_digits": "0"},
    spoil="""
CREATE TABLE track_point (track int NOT NULL, n int NOT NULL, lon float8 NOT NULL, lat float8 NOT NULL, height float8 NOT NULL,
  PRIMARY KEY (track, n));
INSERT INTO track_point SELECT t, n, 7 + sin(t + n / 500.0), 46 + cos(t * 3 + n / 700.0), 500 * (1 + sin(n / 90.0))
  FROM generate_series(1, 40) t, generate_series(1, 2000) n;
VACUUM ANALYZE track_point;
""",
    load="""
\\set t random(1, 40)
SELECT 'LINESTRING Z (' || string_agg(lon || ' ' || lat || ' ' || height, ',') || ')'
  FROM (SELECT lon, lat, height FROM track_point WHERE track = :t ORDER BY n) p;
""",
    mend_settings={},
)

# ------------------------------------------------------------------ workload

entry(
    id="reads-that-lock", area="workload",
    cause="The object mapper reads each article with FOR UPDATE (lock mode set for the whole repository), also where it is "
          "only shown: each read takes a transaction id, marks the row, writes WAL and waits for its flush at commit.",
    mends="Read without FOR UPDATE where nothing is changed; lock only in the transactions that update.",
    spoil="""
CREATE TABLE shop_item (id int PRIMARY KEY, name text NOT NULL, price int NOT NULL, stock int NOT NULL);
INSERT INTO shop_item SELECT g, 'Item ' || g, g % 700, 50 FROM generate_series(1, 40000) g;
VACUUM ANALYZE shop_item;
""",
    load="""
\\set i random(1, 40000)
SELECT name, price, stock FROM shop_item WHERE id = :i FOR UPDATE;
""",
    mend_load="""
\\set i random(1, 40000)
SELECT name, price, stock FROM shop_item WHERE id = :i;
""",
)

_feed = """
\\set s random(0, 39)
\\set v random(0, 199)
INSERT INTO price_list (supplier, sku, name, amount)
SELECT f.supplier, f.sku, f.name, f.amount + CASE WHEN (f.sku + :v) %% 200 = 0 THEN 1 ELSE 0 END FROM feed f
 WHERE f.supplier = :s%s ORDER BY f.sku
ON CONFLICT (supplier, sku) DO UPDATE SET name = EXCLUDED.name, amount = EXCLUDED.amount;
"""
entry(
    id="sync-writes-all-again", area="workload",
    cause="The supplier's list is merged by INSERT … ON CONFLICT DO UPDATE as a whole each time; of 800 rows some 8 have "
          "changed, but all get a new row version, with WAL and index entries, and the same values as before.",
    mends="Write only what has changed: leave out of the feed what is in the table with the same values (NOT EXISTS, EXCEPT), "
          "or DO UPDATE … WHERE (…) IS DISTINCT FROM (EXCLUDED.…).",
    spoil="""
CREATE TABLE feed (supplier int NOT NULL, sku int NOT NULL, name text NOT NULL, amount int NOT NULL, PRIMARY KEY (supplier, sku));
INSERT INTO feed SELECT s, g, 'Article ' || g || ' of supplier ' || s, (g * 7) % 4000 FROM generate_series(0, 39) s, generate_series(1, 800) g;
CREATE TABLE price_list (supplier int NOT NULL, sku int NOT NULL, name text NOT NULL, amount int NOT NULL, PRIMARY KEY (supplier, sku))
  WITH (fillfactor = 50);
INSERT INTO price_list SELECT * FROM feed;
CREATE INDEX ON price_list (name);
VACUUM ANALYZE feed; VACUUM ANALYZE price_list;
""",
    load=_feed % "",
    # What the writing has left behind is cleaned away, so that it is not measured.
    mend="VACUUM FULL ANALYZE price_list;",
    mend_load=_feed % """
   AND NOT EXISTS (SELECT FROM price_list p WHERE p.supplier = f.supplier AND p.sku = f.sku AND p.name = f.name
                   AND p.amount = f.amount + CASE WHEN (f.sku + :v) % 200 = 0 THEN 1 ELSE 0 END)""",
)

_list = """
\\set k random(0, 3)
BEGIN;
DECLARE page CURSOR%s FOR SELECT id, opened, subject FROM ticket WHERE kind = :k ORDER BY id;
FETCH 40 FROM page;
%s
"""
entry(
    id="cursor-with-hold", area="workload", protocol="simple",
    cause="The driver opens its cursors WITH HOLD, so that they live on after the transaction: at COMMIT all 20,000 rows of "
          "the list are computed and stored away, though 40 have been fetched and the cursor is closed at once.",
    mends="Open the cursor without HOLD and fetch within the transaction (holdability of the driver: CLOSE_CURSORS_AT_COMMIT), "
          "or ask with LIMIT, page by page.",
    spoil="""
CREATE TABLE ticket (id int PRIMARY KEY, kind int NOT NULL, opened date NOT NULL, subject text NOT NULL);
INSERT INTO ticket SELECT g, g % 4, date '2024-01-01' + g % 300, 'Ticket number ' || g FROM generate_series(1, 80000) g;
CREATE INDEX ON ticket (kind, id);
VACUUM ANALYZE ticket;
""",
    load=_list % (" WITH HOLD", "COMMIT;\nCLOSE page;"),
    mend_load=_list % ("", "CLOSE page;\nCOMMIT;"),
)

_tile = ("SELECT region, count(*), avg(amount * 1.19), stddev(amount * qty) FROM fact_sale WHERE amount % 7 <> 3 GROUP BY region "
         "ORDER BY 2 DESC")
entry(
    id="dashboard-on-the-primary", area="workload", clients=2,
    cause="A dashboard with six tiles reloads itself all the time and computes each tile from the whole fact table, in "
          "parallel with workers: its sessions take the CPUs that the shop's statements need.",
    mends="Get the dashboard off this server's CPUs: reload less often, compute the tiles once into a summary table (materialized "
          "view), run it on a standby, or max_parallel_workers_per_gather = 0 for its role.",
    spoil="""
CREATE TABLE fact_sale (id int NOT NULL, region int NOT NULL, amount int NOT NULL, qty int NOT NULL, remark text NOT NULL);
INSERT INTO fact_sale SELECT g, g % 40, g % 5000, g % 9, repeat('r', 30) FROM generate_series(1, 400000) g;
CREATE TABLE basket_line (basket int NOT NULL, line int NOT NULL, sku int NOT NULL, cents int NOT NULL, PRIMARY KEY (basket, line));
INSERT INTO basket_line SELECT b, l, b * l % 5000, l * 7 FROM generate_series(1, 600) b, generate_series(1, 150) l;
VACUUM ANALYZE fact_sale; VACUUM ANALYZE basket_line;
""",
    load="""
\\set b random(1, 580)
SELECT basket, sum(cents), count(DISTINCT sku) FROM basket_line WHERE basket BETWEEN :b AND :b + 15 GROUP BY basket;
""",
    beside=SHELL + "\\! for tile in 1 2 3 4 5 6; do psql -X -q" + 8 * (" -c '" + _tile + "'") + " > /dev/null & done; wait\n",
    mend_beside="SELECT pg_sleep(1);\n",
)

# ------------------------------------------------------------------- machine

entry(
    id="backup-onto-the-same-disk", area="machine",
    cause="A backup is written in four streams onto the disk on which the database and its WAL lie, as fast as it goes, with a sync "
          "for each piece: the flush of the WAL at each commit has to stand in line behind the backup's writes.",
    mends="Write the backup to another disk (or machine), throttle it (ionice, rate limit), or put the WAL onto a disk of its own.",
    clients=2,
    spoil="""
CREATE TABLE payment (id bigserial PRIMARY KEY, account int NOT NULL, cents int NOT NULL);
VACUUM ANALYZE payment;
""",
    load="""
\\set a random(1, 10000)
INSERT INTO payment (account, cents) VALUES (:a, 100);
""",
    beside=SHELL + "\\! for part in 1 2 3 4; do dd if=/dev/zero of=$PGHOST/../backup.$part bs=8M count=40 oflag=direct,dsync conv=notrunc "
                   "2> /dev/null & done; wait\n",
    mend_beside="SELECT pg_sleep(1);\n",
)

# --------------------------------------------------------------- replication

_poll = """
\\set c random(1, 5000)
%sINSERT INTO outbox (body) VALUES ('order placed by ' || :c);
SELECT data FROM %s WHERE data LIKE 'table public.outbox:%%' ORDER BY lsn DESC LIMIT 20;
"""
entry(
    id="slot-never-confirmed", area="replication", clients=1, protocol="simple",
    cause="The consumer of the outbox looks at its logical slot with pg_logical_slot_peek_changes and never confirms what it has "
          "read: each poll decodes all of the WAL since the slot was made anew, among it an import of 40,000 rows.",
    mends="Confirm what has been read: pg_logical_slot_get_changes in the place of peek, or pg_replication_slot_advance after "
          "the changes have been handed on; then each poll decodes what is new only.",
    settings={"wal_level": "logical"},
    spoil="""
CREATE TABLE outbox (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), body text NOT NULL);
CREATE TABLE stock_import (sku int PRIMARY KEY, qty int NOT NULL, remark text NOT NULL);
SELECT pg_create_logical_replication_slot('outbox_reader', 'test_decoding');
INSERT INTO stock_import SELECT g, g % 90, 'imported' FROM generate_series(1, 40000) g;
VACUUM ANALYZE stock_import;
""",
    load=_poll % ("", "pg_logical_slot_peek_changes('outbox_reader', NULL, NULL, 'include-xids', '0')"),
    # A slot that is left behind would keep the server of the next entry, which has no wal_level = logical, from starting: here
    # each session makes a temporary one.
    mend="SELECT pg_drop_replication_slot('outbox_reader');",
    mend_load=_poll % ("""SELECT pg_create_logical_replication_slot('reader_' || pg_backend_pid(), 'test_decoding', true)
 WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = 'reader_' || pg_backend_pid());
""", "pg_logical_slot_get_changes(('reader_' || pg_backend_pid())::name, NULL, NULL, 'include-xids', '0')"),
)
