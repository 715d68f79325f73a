"""Twenty more spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind5. The keys are those of spoilt_blind.py. None of the causes is one of
spoilt_entries.py or of spoilt_blind.py to spoilt_blind4.py. The entry cpu-quota needs root and a cgroup of version 1 or 2.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# ------------------------------------------------------------------ settings

entry(
    id="nested-loops-forbidden", area="settings",
    cause="enable_nestloop is off on the whole server (after one report had got a bad nested loop): to show the few orders of "
          "one customer, hash or merge joins go through the whole tables of lines, articles and suppliers.",
    mends="Set enable_nestloop back to on; forbid it, if at all, for that report only (SET LOCAL), or better mend its estimates.",
    settings={"enable_nestloop": "off"},
    spoil="""
CREATE TABLE supplier (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE article (id int PRIMARY KEY, supplier_id int NOT NULL REFERENCES supplier, name text NOT NULL);
CREATE TABLE sale (id int PRIMARY KEY, customer_id int NOT NULL, day date NOT NULL);
CREATE TABLE sale_line (sale_id int NOT NULL REFERENCES sale, line int NOT NULL, article_id int NOT NULL REFERENCES article, qty int NOT NULL,
  PRIMARY KEY (sale_id, line));
INSERT INTO supplier SELECT g, 'Supplier ' || g FROM generate_series(1, 5000) g;
INSERT INTO article SELECT g, 1 + (g * 7919) % 5000, 'Article ' || g FROM generate_series(1, 30000) g;
INSERT INTO sale SELECT g, g % 3000, date '2024-01-01' + g / 40 FROM generate_series(1, 10000) g;
CREATE INDEX ON sale (customer_id);
INSERT INTO sale_line SELECT s, l, 1 + (s * 31 + l * 7919) % 30000, 1 + l FROM generate_series(1, 10000) s, generate_series(1, 4) l;
VACUUM ANALYZE supplier; VACUUM ANALYZE article; VACUUM ANALYZE sale; VACUUM ANALYZE sale_line;
""",
    load="""
\\set c random(0, 2999)
SELECT s.id, s.day, l.line, l.qty, a.name, p.name AS supplier FROM sale s JOIN sale_line l ON l.sale_id = s.id
  JOIN article a ON a.id = l.article_id JOIN supplier p ON p.id = a.supplier_id WHERE s.customer_id = :c ORDER BY s.id, l.line;
""",
    mend_settings={},
)

entry(
    id="similar-enough", area="settings",
    cause="pg_trgm.similarity_threshold was lowered to 0.1 on the server ('find more'): the operator % of the fuzzy search then takes a "
          "large part of all names as similar; the trigram index gives thousands of candidates, each of which is fetched and compared.",
    mends="Raise pg_trgm.similarity_threshold again (0.3 is the default), so that the index leaves few rows; or take the ten nearest "
          "with ORDER BY name <-> … LIMIT 10 and a GiST index.",
    settings={"pg_trgm.similarity_threshold": "0.1"},
    spoil="""
CREATE EXTENSION pg_trgm;
CREATE TABLE company (id int PRIMARY KEY, name text NOT NULL);
INSERT INTO company SELECT g, initcap(
    (ARRAY['berg', 'stein', 'wald', 'feld', 'bach', 'thal', 'brunn', 'heim', 'dorf', 'hof', 'au'])[1 + g % 11]
    || (ARRAY['er', 'mann', 'ner', 'inger', 'ler', 'meier', 'huber'])[1 + g % 7]) || ' '
    || (ARRAY['Logistik', 'Optik', 'Technik', 'Textil', 'Handel', 'Immobilien', 'Druck', 'Papier', 'Metallbau', 'Holzbau', 'Reisen', 'Foto', 'Mode'])[1 + g % 13]
    || ' ' || (ARRAY['GmbH', 'AG', 'KG', 'OHG', 'Ltd', 'e.K.'])[1 + (g / 7) % 6] || ' ' || substr(md5(g::text), 1, 5)
  FROM generate_series(1, 40000) g;
CREATE INDEX ON company USING gin (name gin_trgm_ops);
VACUUM ANALYZE company;
""",
    load="""
\\set c random(1, 40000)
SELECT id, name, similarity(name, (SELECT name FROM company WHERE id = :c)) AS s FROM company
 WHERE name % (SELECT name FROM company WHERE id = :c) ORDER BY s DESC LIMIT 10;
""",
    mend_settings={},
)

entry(
    id="plan-trees-logged", area="settings", protocol="simple",
    cause="debug_print_parse, debug_print_rewritten and debug_print_plan were left on after a developer had looked into a view: for each "
          "statement the parse tree, the rewritten tree and the plan tree are written as text to the server's log, tens of kB each time.",
    mends="Switch debug_print_parse, debug_print_rewritten and debug_print_plan off (reload).",
    settings={"debug_print_parse": "on", "debug_print_rewritten": "on", "debug_print_plan": "on"},
    spoil="""
CREATE TABLE author (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE book (id int PRIMARY KEY, author_id int NOT NULL REFERENCES author, title text NOT NULL, year int NOT NULL);
INSERT INTO author SELECT g, 'Author ' || g FROM generate_series(1, 2000) g;
INSERT INTO book SELECT g, 1 + g % 2000, 'Book ' || g, 1950 + g % 70 FROM generate_series(1, 20000) g;
CREATE INDEX ON book (author_id);
VACUUM ANALYZE author; VACUUM ANALYZE book;
""",
    load="""
\\set a random(1, 2000)
SELECT a.name, b.id, b.title, b.year FROM author a JOIN book b ON b.author_id = a.id WHERE a.id = :a;
""",
    mend_settings={},
)

entry(
    id="statistics-target-one", area="settings", protocol="simple",
    cause="default_statistics_target is 1 (so that ANALYZE is quick): of the queues only the most common one is known, all others count as "
          "equally frequent; for a queue of ten old tickets the planner expects thousands and walks backwards along the index on "
          "`opened` to find the first ten, through nearly the whole table.",
    mends="Set default_statistics_target back to 100 (or ALTER TABLE ticket ALTER queue SET STATISTICS 100) and ANALYZE; an index on "
          "(queue, opened) helps as well.",
    settings={"default_statistics_target": "1"},
    spoil="""
CREATE TABLE ticket (id int PRIMARY KEY, queue int NOT NULL, opened timestamp NOT NULL, subject text NOT NULL);
INSERT INTO ticket SELECT g, CASE WHEN g <= 600 THEN 100 + g % 60 ELSE g % 12 END, timestamp '2019-01-01' + g * interval '11 minutes',
    'Subject of the ticket ' || g FROM generate_series(1, 80000) g;
CREATE INDEX ON ticket (queue);
CREATE INDEX ON ticket (opened);
VACUUM ANALYZE ticket;
""",
    load="""
\\set q random(100, 159)
SELECT id, opened, subject FROM ticket WHERE queue = :q ORDER BY opened DESC LIMIT 10;
""",
    mend_settings={},
    mend="ANALYZE ticket;",
)

# ---------------------------------------------------------------- statements

_alarmed = """
\\set s random(0, 39)
SELECT d.id, d.name FROM device d WHERE d.site = :s AND %s ORDER BY d.name;
"""
entry(
    id="counted-to-see-if-any", area="statements",
    cause="The list shows the devices that have ever had an alarm; the condition is (SELECT count(*) FROM alarm …) > 0, so all alarms of each "
          "device, a thousand each, are read and counted to learn that there is one.",
    mends="EXISTS (SELECT … FROM alarm …) in the place of count(*) > 0: it stops at the first row (a semi join).",
    spoil="""
CREATE TABLE device (id int PRIMARY KEY, site int NOT NULL, name text NOT NULL);
INSERT INTO device SELECT g, g % 40, 'Device ' || g FROM generate_series(1, 400) g;
CREATE INDEX ON device (site);
CREATE TABLE alarm (id int PRIMARY KEY, device_id int NOT NULL REFERENCES device, at timestamp NOT NULL, code int NOT NULL);
INSERT INTO alarm SELECT g, 1 + g % 390, timestamp '2023-01-01' + g * interval '1 minute', g % 70 FROM generate_series(1, 390000) g;
CREATE INDEX ON alarm (device_id);
VACUUM ANALYZE device; VACUUM ANALYZE alarm;
""",
    load=_alarmed % "(SELECT count(*) FROM alarm a WHERE a.device_id = d.id) > 0",
    mend_load=_alarmed % "EXISTS (SELECT FROM alarm a WHERE a.device_id = d.id)",
)

_null_safe = """
\\set n random(1, 80000)
SELECT id, state, weight FROM shipment WHERE carrier %s :n %% 25 AND tracking_no %s 'T' || :n;
"""
entry(
    id="null-safe-comparison", area="statements",
    cause="The object mapper compares 'null-safely', with IS NOT DISTINCT FROM in the place of =; an index can't be used for this, so the unique "
          "index on (carrier, tracking_no) lies idle, and each look-up reads the whole table.",
    mends="Compare with = (and IS NULL where the value is null: the mapper's setting for null semantics), which the index serves.",
    spoil="""
CREATE TABLE shipment (id int PRIMARY KEY, carrier int NOT NULL, tracking_no text NOT NULL, state int NOT NULL, weight int NOT NULL,
  UNIQUE (carrier, tracking_no));
INSERT INTO shipment SELECT g, g % 25, 'T' || g, g % 7, g % 900 FROM generate_series(1, 80000) g;
VACUUM ANALYZE shipment;
""",
    load=_null_safe % ("IS NOT DISTINCT FROM", "IS NOT DISTINCT FROM"),
    mend_load=_null_safe % ("=", "="),
)

entry(
    id="nearest-by-formula", area="statements",
    cause="The five nearest shops are found by ORDER BY of the great-circle formula (sin, cos, asin) with LIMIT 5: the distance to each of the "
          "40,000 shops is computed and sorted; an index has no part in it.",
    mends="A GiST index on the position and ORDER BY position <-> point LIMIT n (nearest-neighbour search; also with earthdistance/cube or "
          "PostGIS), or at least a bounding box around the place as an indexable condition first.",
    spoil="""
CREATE TABLE shop (id int PRIMARY KEY, name text NOT NULL, lat float8 NOT NULL, lon float8 NOT NULL);
INSERT INTO shop SELECT g, 'Shop ' || g, 46 + ((g::bigint * 7919) % 80021) / 10000.0, 6 + ((g::bigint * 104729) % 90001) / 10000.0
  FROM generate_series(1, 40000) g;
VACUUM ANALYZE shop;
""",
    load="""
\\set y random(4600, 5400)
\\set x random(600, 1500)
SELECT id, name FROM shop
 ORDER BY 2 * 6371 * asin(sqrt(sin(radians(lat - :y / 100.0) / 2) ^ 2
   + cos(radians(:y / 100.0)) * cos(radians(lat)) * sin(radians(lon - :x / 100.0) / 2) ^ 2)) LIMIT 5;
""",
    mend="CREATE INDEX shop_position ON shop USING gist (point(lon, lat)); ANALYZE shop;",
    mend_load="""
\\set y random(4600, 5400)
\\set x random(600, 1500)
SELECT id, name FROM shop ORDER BY point(lon, lat) <-> point(:x / 100.0, :y / 100.0) LIMIT 5;
""",
)

entry(
    id="calendar-by-range", area="statements",
    cause="The report has a line for each day, also for those without calls: generate_series() of 90 days LEFT JOIN call ON at >= day AND "
          "at < day + 1 day. Without an equality there is no hash or merge join: each day is compared with each of the centre's calls.",
    mends="Group the calls by day first (date_trunc('day', at) or at::date) and LEFT JOIN the 90 days with the result by equality; or an index on (centre, at).",
    spoil="""
CREATE TABLE call (id int PRIMARY KEY, centre int NOT NULL, at timestamp NOT NULL, seconds int NOT NULL);
INSERT INTO call SELECT g, g % 20, timestamp '2024-01-01' + ((g::bigint * 7919) % 129600) * interval '1 minute', g % 600 FROM generate_series(1, 60000) g;
CREATE INDEX ON call (centre);
VACUUM ANALYZE call;
""",
    load="""
\\set c random(0, 19)
SELECT d.day, count(c.id) AS calls, coalesce(sum(c.seconds), 0) AS seconds
  FROM generate_series(timestamp '2024-01-01', timestamp '2024-03-30', interval '1 day') AS d(day)
  LEFT JOIN call c ON c.centre = :c AND c.at >= d.day AND c.at < d.day + interval '1 day'
 GROUP BY d.day ORDER BY d.day;
""",
    mend_load="""
\\set c random(0, 19)
SELECT d.day, coalesce(c.calls, 0) AS calls, coalesce(c.seconds, 0) AS seconds
  FROM generate_series(timestamp '2024-01-01', timestamp '2024-03-30', interval '1 day') AS d(day)
  LEFT JOIN (SELECT date_trunc('day', at) AS day, count(*) AS calls, sum(seconds) AS seconds FROM call WHERE centre = :c GROUP BY 1) c ON c.day = d.day
 ORDER BY d.day;
""",
)

entry(
    id="bcrypt-for-each-call", area="statements",
    cause="Each call of the interface checks its token by secret = crypt(token, secret) with a bcrypt hash (pgcrypto, 'bf'): bcrypt is made to be slow, "
          "which guards passwords that people choose, but here burns milliseconds of the server's CPU for each call.",
    mends="Tokens are long random strings: keep a plain digest of them (sha256(), digest(), hmac()), compare with that (indexed); or check the "
          "password once and hand out a session, or do it in the application.",
    spoil="""
CREATE EXTENSION pgcrypto;
CREATE TABLE api_client (key_id int PRIMARY KEY, name text NOT NULL, scopes text NOT NULL, secret text NOT NULL);
INSERT INTO api_client SELECT g, 'Client ' || g, 'read,write', crypt('token-' || g, gen_salt('bf', 7)) FROM generate_series(1, 100) g;
VACUUM ANALYZE api_client;
""",
    load="""
\\set k random(1, 100)
SELECT key_id, name, scopes FROM api_client WHERE key_id = :k AND secret = crypt('token-' || :k, secret);
""",
    mend="""
ALTER TABLE api_client ADD digest bytea;
UPDATE api_client SET digest = sha256(convert_to('token-' || key_id, 'UTF8'));
VACUUM ANALYZE api_client;
""",
    mend_load="""
\\set k random(1, 100)
SELECT key_id, name, scopes FROM api_client WHERE key_id = :k AND digest = sha256(convert_to('token-' || :k, 'UTF8'));
""",
)

# -------------------------------------------------------------------- schema

entry(
    id="ids-in-a-comma-list", area="schema",
    cause="The categories of an article are kept as a text '17,230,4011'; the articles of a category are found by "
          "',' || categories || ',' LIKE '%,230,%', for which no index is of use: the whole table is read and each list searched.",
    mends="A table of its own (category_id, article_id) with a key on both, or an array int[] with a GIN index and @>.",
    spoil="""
CREATE TABLE article (id int PRIMARY KEY, name text NOT NULL, categories text NOT NULL);
INSERT INTO article SELECT g, 'Article ' || g, g % 3001 || ',' || (g * 7) % 2003 || ',' || (g * 31) % 2503 || ',' || (g * 3) % 997
  FROM generate_series(1, 50000) g;
CREATE INDEX ON article (categories);
VACUUM ANALYZE article;
""",
    load="""
\\set c random(1000, 3000)
SELECT id, name FROM article WHERE ',' || categories || ',' LIKE '%,' || :c || ',%' ORDER BY id;
""",
    mend="""
CREATE TABLE article_category (category_id int NOT NULL, article_id int NOT NULL REFERENCES article, PRIMARY KEY (category_id, article_id));
INSERT INTO article_category SELECT DISTINCT c::int, id FROM article, unnest(string_to_array(categories, ',')) c;
ALTER TABLE article DROP categories;
VACUUM ANALYZE article_category; VACUUM ANALYZE article;
""",
    mend_load="""
\\set c random(1000, 3000)
SELECT a.id, a.name FROM article_category c JOIN article a ON a.id = c.article_id WHERE c.category_id = :c ORDER BY a.id;
""",
)

entry(
    id="brin-on-the-customer", area="schema",
    cause="The index on customer_id is a BRIN index (because it is so small); the rows lie in order of time, and each customer's are strewn over the whole "
          "table, so that the range of nearly every block group contains the customer: the whole table is read for each look-up.",
    mends="A B-tree index on customer_id; BRIN only for columns whose values follow the order of the rows (here ordered_at).",
    spoil="""
CREATE TABLE purchase (id int NOT NULL, customer_id int NOT NULL, ordered_at timestamp NOT NULL, cents int NOT NULL, remark text NOT NULL);
INSERT INTO purchase SELECT g, (g::bigint * 7919) % 10007, timestamp '2022-01-01' + g * interval '5 minutes', g % 9000, 'as ordered by phone'
  FROM generate_series(1, 100000) g;
CREATE INDEX purchase_customer ON purchase USING brin (customer_id);
CREATE INDEX purchase_time ON purchase USING brin (ordered_at);
VACUUM ANALYZE purchase;
""",
    load="""
\\set c random(0, 10006)
SELECT id, ordered_at, cents FROM purchase WHERE customer_id = :c ORDER BY ordered_at DESC;
""",
    mend="DROP INDEX purchase_customer; CREATE INDEX purchase_customer ON purchase (customer_id); ANALYZE purchase;",
)

entry(
    id="case-insensitive-codes", area="schema",
    cause="After the migration from SQL Server all text columns, article codes among them, have a case-insensitive (nondeterministic ICU) collation: "
          "to hash or compare a code ICU has to make a sort key of it each time; to group and join the movements by code costs many times more.",
    mends="Give the codes the collation \"C\" (ALTER COLUMN code TYPE text COLLATE \"C\", written in one case, or an integer key), and the "
          "case-insensitive one only to columns that are searched so.",
    clients=2,
    spoil="""
CREATE COLLATION latin1_general_ci_as (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE item (code text COLLATE latin1_general_ci_as PRIMARY KEY, name text NOT NULL);
INSERT INTO item SELECT 'ART-' || lpad(g::text, 7, '0') || '-XL', 'Item ' || g FROM generate_series(1, 5000) g;
CREATE TABLE movement (id int PRIMARY KEY, depot int NOT NULL, item_code text COLLATE latin1_general_ci_as NOT NULL REFERENCES item, qty int NOT NULL);
INSERT INTO movement SELECT g, g % 4, 'ART-' || lpad((1 + (g::bigint * 7919) % 5000)::text, 7, '0') || '-XL', g % 50 FROM generate_series(1, 60000) g;
CREATE INDEX ON movement (depot);
VACUUM ANALYZE item; VACUUM ANALYZE movement;
""",
    load="""
\\set d random(0, 3)
SELECT count(*), sum(qty), count(name) FROM (
  SELECT m.item_code, i.name, sum(m.qty) AS qty FROM movement m JOIN item i ON i.code = m.item_code WHERE m.depot = :d GROUP BY m.item_code, i.name) s;
""",
    mend="""
ALTER TABLE movement DROP CONSTRAINT movement_item_code_fkey;
ALTER TABLE item ALTER code TYPE text COLLATE "C";
ALTER TABLE movement ALTER item_code TYPE text COLLATE "C";
ALTER TABLE movement ADD FOREIGN KEY (item_code) REFERENCES item;
VACUUM ANALYZE item; VACUUM ANALYZE movement;
""",
)

entry(
    id="all-in-the-default-partition", area="schema",
    cause="The table is partitioned by month, but the job that creates the partitions died two years ago: all rows since have fallen into the DEFAULT "
          "partition; the report of a month can't prune anything there and reads the rows of 24 months.",
    mends="Create the missing monthly partitions and move the rows out of the default one into them (and watch the job; keep the default partition empty).",
    spoil="""
CREATE TABLE sale (id int NOT NULL, sold date NOT NULL, shop int NOT NULL, cents int NOT NULL) PARTITION BY RANGE (sold);
DO $$ DECLARE m date; BEGIN
  FOR n IN 0..11 LOOP
    m := date '2022-01-01' + n * interval '1 month';
    EXECUTE format('CREATE TABLE sale_%s PARTITION OF sale FOR VALUES FROM (%L) TO (%L)', to_char(m, 'YYYY_MM'), m, m + interval '1 month');
  END LOOP;
END $$;
CREATE TABLE sale_default PARTITION OF sale DEFAULT;
INSERT INTO sale SELECT g, date '2022-01-01' + (g / 137), g % 30, g % 9000 FROM generate_series(1, 150000) g;
VACUUM ANALYZE sale;
""",
    load="""
\\set m random(0, 23)
SELECT shop, count(*), sum(cents) FROM sale
 WHERE sold >= make_date(2023 + :m / 12, 1 + :m % 12, 1) AND sold < make_date(2023 + (:m + 1) / 12, 1 + (:m + 1) % 12, 1) GROUP BY shop;
""",
    mend="""
DO $$ DECLARE m date; BEGIN
  ALTER TABLE sale DETACH PARTITION sale_default;
  FOR n IN 0..23 LOOP
    m := date '2023-01-01' + n * interval '1 month';
    EXECUTE format('CREATE TABLE sale_%s PARTITION OF sale FOR VALUES FROM (%L) TO (%L)', to_char(m, 'YYYY_MM'), m, m + interval '1 month');
  END LOOP;
  INSERT INTO sale SELECT * FROM sale_default WHERE sold < date '2025-01-01';
  DELETE FROM sale_default WHERE sold < date '2025-01-01';
END $$;
VACUUM FULL sale_default;
ALTER TABLE sale ATTACH PARTITION sale_default DEFAULT;
VACUUM ANALYZE sale;
""",
)

entry(
    id="check-reads-the-document", area="schema",
    cause="A CHECK constraint validates the jsonb document by a PL/pgSQL function that goes through its 150 keys; a CHECK is evaluated for each row that is "
          "written, also by an UPDATE that only counts the views and leaves the document as it is.",
    mends="Validate only when the document is written: a trigger BEFORE INSERT OR UPDATE OF doc (WHEN it differs) in the place of the CHECK, a cheaper check, or "
          "move the counter into a table of its own.",
    spoil="""
CREATE FUNCTION is_valid(doc jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE k text; v jsonb;
BEGIN
  FOR k, v IN SELECT * FROM jsonb_each(doc) LOOP
    IF k !~ '^[a-z][a-z_0-9]{0,30}$' THEN RETURN false; END IF;
    IF jsonb_typeof(v) NOT IN ('string', 'number', 'boolean', 'null') THEN RETURN false; END IF;
    IF jsonb_typeof(v) = 'string' AND length(v #>> '{}') > 500 THEN RETURN false; END IF;
  END LOOP;
  RETURN true;
END $$;
CREATE TABLE profile (id int PRIMARY KEY, views int NOT NULL DEFAULT 0, doc jsonb NOT NULL, CONSTRAINT profile_doc CHECK (is_valid(doc))) WITH (fillfactor = 60);
INSERT INTO profile (id, doc) SELECT p, (SELECT jsonb_object_agg('property_' || n, 'value ' || n * p) FROM generate_series(1, 150) n) FROM generate_series(1, 2000) p;
VACUUM ANALYZE profile;
""",
    load="""
\\set p random(1, 1980)
UPDATE profile SET views = views + 1 WHERE id BETWEEN :p AND :p + 19;
""",
    clients=2,
    mend="""
ALTER TABLE profile DROP CONSTRAINT profile_doc;
CREATE FUNCTION validate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_valid(NEW.doc) THEN RAISE check_violation; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER profile_doc BEFORE INSERT OR UPDATE OF doc ON profile FOR EACH ROW EXECUTE FUNCTION validate();
""",
)

# ------------------------------------------------------------------ workload

_tables = ["customer", "contract", "product", "site", "meter", "tariff"]
_page = """SELECT c.name || ' ' || p.name || ' ' || s.city || ' ' || t.cents FROM {0}customer c JOIN {0}contract k ON k.customer_id = c.id
      JOIN {0}product p ON p.id = k.product_id JOIN {0}site s ON s.id = k.site_id JOIN {0}meter m ON m.site_id = s.id
      JOIN {0}tariff t ON t.product_id = p.id AND t.kind = m.kind WHERE c.id = p_customer LIMIT 1"""
_tenant = """
CREATE SCHEMA {0};
CREATE TABLE {0}.customer (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE {0}.product (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE {0}.site (id int PRIMARY KEY, city text NOT NULL);
CREATE TABLE {0}.contract (customer_id int PRIMARY KEY REFERENCES {0}.customer, product_id int NOT NULL REFERENCES {0}.product, site_id int NOT NULL REFERENCES {0}.site);
CREATE TABLE {0}.meter (site_id int PRIMARY KEY REFERENCES {0}.site, kind int NOT NULL);
CREATE TABLE {0}.tariff (product_id int NOT NULL REFERENCES {0}.product, kind int NOT NULL, cents int NOT NULL, PRIMARY KEY (product_id, kind));
INSERT INTO {0}.customer SELECT g, 'Customer ' || g FROM generate_series(1, 3000) g;
INSERT INTO {0}.product SELECT g, 'Product ' || g FROM generate_series(1, 300) g;
INSERT INTO {0}.site SELECT g, 'City ' || g FROM generate_series(1, 3000) g;
INSERT INTO {0}.contract SELECT g, 1 + g % 300, g FROM generate_series(1, 3000) g;
INSERT INTO {0}.meter SELECT g, 1 + g % 4 FROM generate_series(1, 3000) g;
INSERT INTO {0}.tariff SELECT p, k, p * k FROM generate_series(1, 300) p, generate_series(1, 4) k;
""" + "\n".join("VACUUM ANALYZE {0}." + t + ";" for t in _tables) + "\n"
_own = "CREATE FUNCTION {0}.customer_page(p_customer int) RETURNS text LANGUAGE plpgsql STABLE AS $$\nBEGIN\n  RETURN (" + _page.replace("{0}", "{0}.") + ");\nEND $$;\n"
entry(
    id="tenant-by-search-path", area="workload", protocol="simple",
    cause="The tenants have a schema each, and the pool's connections go from one to the other by SET search_path before each call: whenever the "
          "search_path has changed, the statements cached in the PL/pgSQL function (a join of six tables) are parsed and planned anew, so they are so at each call.",
    mends="Keep a connection with one tenant (a pool for each), or write the schema into the statements (a function for each tenant, with qualified names): then the "
          "cached plans stay valid. Or one set of tables with a tenant column.",
    spoil=_tenant.format("tenant_1") + _tenant.format("tenant_2")
    + "CREATE FUNCTION public.customer_page(p_customer int) RETURNS text LANGUAGE plpgsql STABLE AS $$\nBEGIN\n  RETURN (" + _page.format("") + ");\nEND $$;\n",
    load="""
\\set c random(1, 3000)
SET search_path = tenant_1, public;
SELECT customer_page(:c);
SET search_path = tenant_2, public;
SELECT customer_page(:c);
""",
    mend=_own.format("tenant_1") + _own.format("tenant_2"),
    mend_load="""
\\set c random(1, 3000)
SELECT tenant_1.customer_page(:c);
SELECT tenant_2.customer_page(:c);
""",
)

_book = """
\\set r random(1, 5000)
BEGIN;
SELECT r.id, r.seat, e.title, e.starts FROM reservation r JOIN event e ON e.id = r.event_id WHERE r.id = :r FOR UPDATE%s;
SELECT pg_sleep(0.01);
UPDATE reservation SET paid = paid + 1 WHERE id = :r;
COMMIT;
"""
entry(
    id="for-update-locks-the-event", area="workload", clients=8,
    cause="A reservation is read with its event by a join and FOR UPDATE (without OF): this locks the row of the event, too, though only the reservation is "
          "changed; all who pay for the same event wait for one another, each as long as the payment service takes.",
    mends="FOR UPDATE OF r (the reservation only); or lock the reservation by itself and read the event without a lock; and call the service outside of the transaction.",
    spoil="""
CREATE TABLE event (id int PRIMARY KEY, title text NOT NULL, starts timestamp NOT NULL);
INSERT INTO event SELECT g, 'Event ' || g, timestamp '2025-06-01' + g * interval '1 day' FROM generate_series(1, 50) g;
CREATE TABLE reservation (id int PRIMARY KEY, event_id int NOT NULL REFERENCES event, seat int NOT NULL, paid int NOT NULL DEFAULT 0) WITH (fillfactor = 70);
INSERT INTO reservation SELECT g, CASE WHEN g <= 5000 THEN 7 ELSE g % 50 + 1 END, g FROM generate_series(1, 9000) g;
VACUUM ANALYZE event; VACUUM ANALYZE reservation;
""",
    load=_book % "",
    mend_load=_book % " OF r",
)

# --------------------------------------------------------------- replication

# A standby beside the server, in its directory; it ends with the server that it follows. $$ would be the shell's.
_standby = """
COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; primary=$(head -n 1 postmaster.pid); bin=$(dirname $(readlink -f /proc/$primary/exe)); sockets=$(sed -n 5p postmaster.pid);
  rm -rf ../standby; $bin/pg_basebackup -h $sockets -U postgres -D ../standby -X stream -c fast -R 2> ../standby.log || exit 1;
  printf "port = 5499\\nshared_buffers = 32MB\\nhot_standby_feedback = off\\nmax_standby_streaming_delay = 30s\\n" >> ../standby/conf.d.conf;
  $bin/pg_ctl -D ../standby -l ../standby.log -w start > /dev/null;
  setsid sh -c "while kill -0 $primary; do sleep 0.3; done; $bin/pg_ctl -D ../standby -m immediate stop; rm -rf ../standby" > /dev/null 2>&1 &';
"""
entry(
    id="remote-apply-and-reports", area="replication", clients=4,
    cause="synchronous_commit is remote_apply, so each commit waits until the standby has replayed it; reports run on the standby, and the replay stops at "
          "each clean-up (pruning, vacuum) of rows that a report may still see, until the report has ended (max_standby_streaming_delay).",
    mends="synchronous_commit = on (or remote_write): waits for the standby's flush, not for its replay; or another standby for the reports than the synchronous "
          "one; hot_standby_feedback = on, or a small max_standby_streaming_delay.",
    settings={"synchronous_commit": "remote_apply"},
    spoil="""
CREATE TABLE account (id int PRIMARY KEY, cents int NOT NULL);
INSERT INTO account SELECT g, 100 FROM generate_series(1, 2000) g;
VACUUM ANALYZE account;
""" + _standby + """
DO $$ BEGIN
  FOR n IN 1..100 LOOP
    PERFORM pg_stat_clear_snapshot();
    EXIT WHEN EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming');
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$;
ALTER SYSTEM SET synchronous_standby_names = '*';
SELECT pg_reload_conf();
""",
    load="""
\\set a random(1, 2000)
UPDATE account SET cents = cents + 1 WHERE id = :a;
""",
    beside="\\c - - - 5499\nSELECT sum(cents), count(pg_sleep(0.001)) FROM (SELECT cents FROM account LIMIT 500) a;\n",
    mend="ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf();",
)

# ------------------------------------------------------------------- machine

_cgroup = """
SELECT current_setting('data_directory') AS data_directory \\gset
\\setenv DATA :data_directory
"""
entry(
    id="cpu-quota", area="machine",
    cause="The server runs in a container whose CPU limit is 0.2 CPUs (cgroup, cpu.max / cfs_quota): after 20 ms of each 100 ms all its processes are stopped, "
          "while the machine's CPUs have room.",
    mends="Raise or take away the container's CPU limit (limits.cpu, CPUQuota=, cpu.max).",
    spoil="""
CREATE TABLE score (id int PRIMARY KEY, grp int NOT NULL, points int NOT NULL);
INSERT INTO score SELECT g, g % 50, g % 97 FROM generate_series(1, 50000) g;
CREATE INDEX ON score (grp);
VACUUM ANALYZE score;
""" + _cgroup + """
\\! p=$(head -n 1 "$DATA/postmaster.pid"); if [ -d /sys/fs/cgroup/cpu ]; then g=/sys/fs/cgroup/cpu/spoilt-quota; mkdir -p $g; echo 100000 > $g/cpu.cfs_period_us; echo 20000 > $g/cpu.cfs_quota_us; else g=/sys/fs/cgroup/spoilt-quota; mkdir -p $g; echo "20000 100000" > $g/cpu.max; fi; for q in $p $(pgrep -P $p); do echo $q > $g/cgroup.procs; done
""",
    load="""
\\set g random(0, 49)
SELECT avg(points), stddev(points) FROM score WHERE grp = :g;
""",
    mend=_cgroup + """
\\! g=/sys/fs/cgroup/cpu/spoilt-quota; [ -d $g ] || g=/sys/fs/cgroup/spoilt-quota; for n in 1 2 3; do for q in $(cat $g/cgroup.procs); do echo $q > $(dirname $g)/cgroup.procs; done; done 2> /dev/null; sleep 0.2; rmdir $g
""",
)

entry(
    id="mounted-sync", area="machine", clients=2,
    cause="The database's files lie on a file system with synchronous writes (mount option sync, here the attribute S as set by chattr +S): each page by which a "
          "table or index grows is written through to the disk by itself, though PostgreSQL flushes what it must at commit and checkpoint.",
    mends="Remount the file system without sync (or chattr -R -S the data directory).",
    spoil="""
COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; chattr -R +S base';
CREATE TABLE measurement (id bigint NOT NULL, sensor int NOT NULL, value float8 NOT NULL, raw text NOT NULL);
""",
    load="""
\\set s random(1, 900)
INSERT INTO measurement SELECT g, :s, g / 7.0, repeat('x', 200) FROM generate_series(1, 400) g;
""",
    mend="COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; chattr -R -S base';",
)

# ----------------------------------------------------------------- operation

entry(
    id="prepared-and-forgotten", area="operation",
    cause="A transaction manager died between PREPARE TRANSACTION and COMMIT PREPARED: the prepared transaction belongs to no session, outlives restarts and holds back "
          "the horizon of vacuum; the presence table of 200 rows, each updated 400 times since, carries all its dead versions along, and no vacuum removes them.",
    mends="Look into pg_prepared_xacts, COMMIT PREPARED or ROLLBACK PREPARED what is orphaned there, then VACUUM (FULL) the swollen table.",
    settings={"max_prepared_transactions": "10"},
    spoil="""
CREATE TABLE presence (id int PRIMARY KEY, room int NOT NULL, seen timestamp NOT NULL);
INSERT INTO presence SELECT g, g % 10, now() FROM generate_series(1, 200) g;
CREATE TABLE transfer (id int PRIMARY KEY, cents int NOT NULL);
BEGIN;
INSERT INTO transfer VALUES (1, 5000);
PREPARE TRANSACTION 'tm-4711-branch-1';
DO $$ BEGIN FOR n IN 1..400 LOOP UPDATE presence SET seen = clock_timestamp(); END LOOP; END $$;
VACUUM ANALYZE presence;
""",
    load="""
\\set r random(0, 9)
SELECT id, seen FROM presence WHERE room = :r ORDER BY seen DESC;
""",
    # No other settings, a checkpoint, and the last entry: a server without prepared transactions does not start while there is
    # one, nor if one is in the WAL that is to be replayed.
    mend="ROLLBACK PREPARED 'tm-4711-branch-1';\nVACUUM FULL ANALYZE presence;\nCHECKPOINT;",
)
