"""Twenty more spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind7. The keys are those of spoilt_blind.py. None of the causes is one of
spoilt_entries.py or of spoilt_blind.py to spoilt_blind6.py. memory-limit needs root and a cgroup of version 1 or 2 with the
controller memory (only version 1 was tried); report-on-the-standby starts a standby beside the server.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# ------------------------------------------------------------------- settings

entry(
    id="bitmapscan-forbidden", area="settings",
    cause="enable_bitmapscan is off on the whole server (somebody had seen 'lossy' bitmaps in a plan): a GIN index can be read by a bitmap scan only, so that the "
          "full text search reads and compares the whole table, though its index is there and sound.",
    mends="Set enable_bitmapscan back to on.",
    settings={"enable_bitmapscan": "off"},
    spoil="""
CREATE TABLE advert (id int PRIMARY KEY, title text NOT NULL, words tsvector NOT NULL);
INSERT INTO advert SELECT g, 'Advert ' || g, to_tsvector('simple', 'w' || g % 900 || ' x' || g % 701 || ' y' || g % 83 || ' for sale as good as new') FROM generate_series(1, 30000) g;
CREATE INDEX advert_words ON advert USING gin (words);
VACUUM ANALYZE advert;
""",
    load="""
\\set w random(0, 899)
SELECT id, title FROM advert WHERE words @@ to_tsquery('simple', 'w' || :w || ' & sale') ORDER BY id DESC LIMIT 20;
""",
    mend_settings={},
)

entry(
    id="constraint-exclusion-off", area="settings", protocol="simple",
    cause="constraint_exclusion is off on the server ('not needed any more since partitions are declared'); the measurements, though, still are split by inheritance with a CHECK on each of the 80 "
          "children, which only constraint exclusion looks at: a day's values are searched for in all children.",
    mends="Set constraint_exclusion back to partition (its default); in the long run declarative partitioning, whose pruning does not hang on it.",
    settings={"constraint_exclusion": "off"},
    spoil="""
CREATE TABLE measure (at date NOT NULL, station int NOT NULL, value int NOT NULL);
DO $$ BEGIN
  FOR m IN 0..79 LOOP
    EXECUTE format('CREATE TABLE measure_%s (CHECK (at >= %L AND at < %L)) INHERITS (measure)', m, date '2019-01-01' + m * 30, date '2019-01-01' + m * 30 + 30);
    EXECUTE format('INSERT INTO measure_%s SELECT %L::date + g %% 30, g %% 40, g FROM generate_series(1, 1200) g', m, date '2019-01-01' + m * 30);
    EXECUTE format('CREATE INDEX ON measure_%s (station)', m);
    EXECUTE format('ANALYZE measure_%s', m);
  END LOOP;
END $$;
ANALYZE measure;
""",
    load="""
\\set d random(0, 2399)
\\set s random(0, 39)
SELECT at, value FROM measure WHERE at = date '2019-01-01' + :d AND station = :s;
""",
    mend_settings={},
)

entry(
    id="hash-aggregate-forbidden", area="settings",
    cause="enable_hashagg is off on the server (since an upgrade after which a report's hash table went to disk): to group calls by caller and callee they all are sorted by two texts first.",
    mends="Set enable_hashagg back to on (and raise hash_mem_multiplier or work_mem for the report).",
    settings={"enable_hashagg": "off", "work_mem": "32MB"},
    spoil="""
CREATE TABLE call (id int NOT NULL, caller text NOT NULL, callee text NOT NULL, seconds int NOT NULL);
INSERT INTO call SELECT g, 'subscriber-of-the-network-' || (g * 7919::bigint) % 97, 'subscriber-of-the-network-' || (g * 104729::bigint) % 13, g % 900 FROM generate_series(1, 60000) g;
VACUUM ANALYZE call;
""",
    load="""
SELECT caller, callee, count(*), sum(seconds) FROM call GROUP BY caller, callee ORDER BY 4 DESC LIMIT 20;
""",
    mend_settings={"work_mem": "32MB"},
)

entry(
    id="clean-up-deferred", area="settings",
    cause="vacuum_defer_cleanup_age is 1,000,000 on the primary (against cancelled queries on the standby): nothing that was deleted or replaced in the last 1,000,000 transactions may be cleaned "
          "up, so that the table of 300 seats drags 300 dead versions of each along.",
    mends="Set vacuum_defer_cleanup_age back to 0 (hot_standby_feedback on the standby in its place), then VACUUM (FULL) what is swollen.",
    settings={"vacuum_defer_cleanup_age": "1000000"},
    spoil="""
CREATE TABLE seat (id int PRIMARY KEY, hall int NOT NULL, state int NOT NULL);
INSERT INTO seat SELECT g, g % 10, 0 FROM generate_series(1, 300) g;
DO $$ BEGIN FOR n IN 1..300 LOOP UPDATE seat SET state = n % 3; COMMIT; END LOOP; END $$;
VACUUM ANALYZE seat;
""",
    load="""
\\set h random(0, 9)
SELECT id, state FROM seat WHERE hall = :h AND state < 3 ORDER BY id;
""",
    mend_settings={},
    mend="VACUUM FULL ANALYZE seat;",
)

# ----------------------------------------------------------------- statements

_visitors = """
\\set d random(0, 4)
SELECT %s
"""
entry(
    id="count-distinct", area="statements",
    cause="The statistics count visitors by count(DISTINCT visitor): the aggregate sorts all values of the day (as PostgreSQL knows no hashing for it), 40,000 texts, of which only "
          "some hundred differ.",
    mends="Count over a subquery: SELECT count(*) FROM (SELECT DISTINCT visitor …), which is done by a hash table; or a table of visitors per day.",
    spoil="""
CREATE TABLE visit (day int NOT NULL, visitor text COLLATE "en-x-icu" NOT NULL, page int NOT NULL);
INSERT INTO visit SELECT g % 5, 'visitor-' || (g * 7919::bigint) % 503 || '@example.org', g % 90 FROM generate_series(1, 200000) g;
CREATE INDEX ON visit (day);
VACUUM ANALYZE visit;
""",
    load=_visitors % "count(DISTINCT visitor) FROM visit WHERE day = :d;",
    mend_load=_visitors % "count(*) FROM (SELECT DISTINCT visitor FROM visit WHERE day = :d) v;",
)

entry(
    id="mail-of-a-domain", area="statements",
    cause="Members of a company are searched by the end of their mail address, mail LIKE '%@company': a B-tree on mail bounds beginnings only, so that the whole table is read for some ten hits.",
    mends="An index on reverse(mail) (text_pattern_ops) and reverse(mail) LIKE reverse('@company') || '%'; or an index on the domain, split_part(mail, '@', 2); or a trigram index.",
    spoil="""
CREATE TABLE member (id int PRIMARY KEY, mail text NOT NULL UNIQUE, name text NOT NULL);
INSERT INTO member SELECT g, 'person' || g || '@company' || g % 4000 || '.example', 'Person ' || g FROM generate_series(1, 60000) g;
VACUUM ANALYZE member;
""",
    load="""
\\set c random(0, 3999)
SELECT id, name, mail FROM member WHERE mail LIKE '%@company' || :c || '.example' ORDER BY name LIMIT 50;
""",
    mend="CREATE INDEX member_domain ON member (reverse(mail) text_pattern_ops); ANALYZE member;",
    mend_load="""
\\set c random(0, 3999)
SELECT id, name, mail FROM member WHERE reverse(mail) LIKE reverse('@company' || :c || '.example') || '%' ORDER BY name LIMIT 50;
""",
)

_match = """
\\set b random(0, 19)
%s
"""
entry(
    id="payments-matched-by-or", area="statements",
    cause="Payments are matched with open invoices by one join whose condition is an OR: same number, or same account and amount. By such a condition neither a hash nor a merge join "
          "can be done, so that each payment is compared with each invoice.",
    mends="Two joins, one for each way to match, put together by UNION: each is a hash join.",
    spoil="""
CREATE TABLE invoice (id int PRIMARY KEY, number text NOT NULL, iban text NOT NULL, cents int NOT NULL);
INSERT INTO invoice SELECT g, 'R' || g, 'CH' || 1000000 + g % 1900, 1000 + (g * 7919::bigint) % 9001 FROM generate_series(1, 4000) g;
CREATE TABLE payment (id int PRIMARY KEY, batch int NOT NULL, reference text NOT NULL, iban text NOT NULL, cents int NOT NULL);
INSERT INTO payment SELECT g, g % 20, CASE WHEN g % 3 > 0 THEN 'R' || g ELSE '' END, 'CH' || 1000000 + g % 1900, 1000 + (g * 7919::bigint) % 9001 FROM generate_series(1, 4000) g;
CREATE INDEX ON payment (batch);
VACUUM ANALYZE invoice; VACUUM ANALYZE payment;
""",
    load=_match % "SELECT p.id, i.id FROM payment p JOIN invoice i ON i.number = p.reference OR (i.iban = p.iban AND i.cents = p.cents) WHERE p.batch = :b;",
    mend_load=_match % ("SELECT p.id, i.id FROM payment p JOIN invoice i ON i.number = p.reference WHERE p.batch = :b\n"
                        "UNION SELECT p.id, i.id FROM payment p JOIN invoice i ON i.iban = p.iban AND i.cents = p.cents WHERE p.batch = :b;"),
)

entry(
    id="timezone-names", area="statements",
    cause="Whether a user's time zone is a valid one is looked up in pg_timezone_names: this view reads all files of the time zone database, some 600 or more, from the disk each time.",
    mends="Keep the names in a table of one's own (CREATE TABLE time_zone AS SELECT … FROM pg_timezone_names, with a key) or in the application.",
    spoil="""
CREATE TABLE account (id int PRIMARY KEY, zone text NOT NULL);
INSERT INTO account SELECT g, (ARRAY['Europe/Zurich', 'Europe/Berlin', 'Asia/Tokyo', 'America/New_York'])[1 + g % 4] FROM generate_series(1, 5000) g;
VACUUM ANALYZE account;
""",
    load="""
\\set a random(1, 5000)
SELECT a.id, z.name, z.utc_offset FROM account a JOIN pg_timezone_names z ON z.name = a.zone WHERE a.id = :a;
""",
    mend="CREATE TABLE time_zone AS SELECT name, utc_offset FROM pg_timezone_names; ALTER TABLE time_zone ADD PRIMARY KEY (name); ANALYZE time_zone;",
    mend_load="""
\\set a random(1, 5000)
SELECT a.id, z.name, z.utc_offset FROM account a JOIN time_zone z ON z.name = a.zone WHERE a.id = :a;
""",
)

_value = """
\\set b random(0, 39)
SELECT sum(cents * power(%s)) FROM loan WHERE branch = :b;
"""
entry(
    id="interest-in-numeric", area="statements",
    cause="The present value of the loans is computed with power() on numeric: with a broken exponent numeric computes a logarithm and an exponential digit by digit, "
          "hundreds of times slower than the processor does with double precision.",
    mends="Compute the factor in double precision, power((1 + rate)::float8, -months / 12.0::float8), and round the result.",
    spoil="""
CREATE TABLE loan (id int PRIMARY KEY, branch int NOT NULL, cents numeric NOT NULL, rate numeric NOT NULL, months numeric NOT NULL);
INSERT INTO loan SELECT g, g % 40, 1000000 + g % 900000, 0.01 + (g % 500) / 10000.0, 1 + g % 359 FROM generate_series(1, 20000) g;
CREATE INDEX ON loan (branch);
VACUUM ANALYZE loan;
""",
    load=_value % "1 + rate, -months / 12",
    mend_load=_value % "(1 + rate)::float8, -months::float8 / 12",
)

_bought = """
\\set n random(0, 39)
%s
"""
entry(
    id="distinct-hides-the-join", area="statements",
    cause="The customers of a region who have ever ordered are found by a join with their orders, and DISTINCT takes away that each comes as often as he has orders, 150 times on average: all "
          "their orders are read, joined and thrown away again.",
    mends="WHERE EXISTS (SELECT FROM orders …): one order of each customer is enough, and there is nothing to be made distinct.",
    spoil="""
CREATE TABLE customer (id int PRIMARY KEY, region int NOT NULL, name text NOT NULL, street text NOT NULL, city text NOT NULL);
INSERT INTO customer SELECT g, g % 40, 'Customer number ' || g, 'Long Street ' || g, 'City ' || g % 50 FROM generate_series(1, 2000) g;
CREATE TABLE orders (id int NOT NULL, customer_id int NOT NULL, cents int NOT NULL);
INSERT INTO orders SELECT g, 1 + (g * 7919::bigint) % 1900, g % 9000 FROM generate_series(1, 300000) g;
CREATE INDEX ON orders (customer_id);
VACUUM ANALYZE customer; VACUUM ANALYZE orders;
""",
    load=_bought % "SELECT DISTINCT c.id, c.name, c.street, c.city FROM customer c JOIN orders o ON o.customer_id = c.id WHERE c.region = :n ORDER BY c.name;",
    mend_load=_bought % "SELECT c.id, c.name, c.street, c.city FROM customer c WHERE c.region = :n AND EXISTS (SELECT FROM orders o WHERE o.customer_id = c.id) ORDER BY c.name;",
)

# --------------------------------------------------------------------- schema

entry(
    id="union-of-two-types", area="schema",
    cause="The view orders_all puts current and archived orders together by UNION ALL; the current table's id was made bigint when int ran out, the archive's is still int. As the types differ, "
          "the condition on id is not pushed into the two halves: both tables are read as a whole for one order.",
    mends="Give both the same type (ALTER TABLE … ALTER id TYPE bigint, or a cast in the view's select list together with an index on this expression).",
    spoil="""
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, cents int NOT NULL);
INSERT INTO orders SELECT g, g % 900, g % 7000 FROM generate_series(100001, 130000) g;
CREATE TABLE orders_archive (id int PRIMARY KEY, customer int NOT NULL, cents int NOT NULL);
INSERT INTO orders_archive SELECT g, g % 900, g % 7000 FROM generate_series(1, 100000) g;
CREATE VIEW orders_all AS SELECT id, customer, cents FROM orders UNION ALL SELECT id, customer, cents FROM orders_archive;
VACUUM ANALYZE orders; VACUUM ANALYZE orders_archive;
""",
    load="""
\\set i random(1, 130000)
SELECT customer, cents FROM orders_all WHERE id = :i;
""",
    mend="""
DROP VIEW orders_all;
ALTER TABLE orders_archive ALTER id TYPE bigint;
CREATE VIEW orders_all AS SELECT id, customer, cents FROM orders UNION ALL SELECT id, customer, cents FROM orders_archive;
VACUUM ANALYZE orders_archive;
""",
)

entry(
    id="distinct-by-hand", area="schema",
    cause="The number of different values of price.list_id was set by hand once (ALTER COLUMN … SET (n_distinct = -1), 'each list has one price', as in the first import): the planner expects one row of a "
          "list, there are 300, and so two lists are compared by a nested loop that reads the second list anew for each row of the first.",
    mends="ALTER TABLE … ALTER COLUMN … RESET (n_distinct) and ANALYZE.",
    spoil="""
CREATE TABLE price (list_id int NOT NULL, article int NOT NULL, cents int NOT NULL);
ALTER TABLE price ALTER list_id SET (n_distinct = -1);
INSERT INTO price SELECT l, a * 3 + l % 2, (a * 7919 + l) % 5000 FROM generate_series(1, 400) l, generate_series(1, 300) a;
CREATE INDEX price_list ON price (list_id);
VACUUM ANALYZE price;
""",
    load="""
\\set l random(1, 398)
SELECT count(*), sum(abs(a.cents - b.cents)) FROM price a JOIN price b ON b.article = a.article WHERE a.list_id = :l AND b.list_id = :l + 2;
""",
    mend="ALTER TABLE price ALTER list_id RESET (n_distinct); ANALYZE price;",
)

entry(
    id="gin-on-the-whole-document", area="schema", clients=2,
    cause="The table of events has a GIN index on the whole jsonb document of 60 keys, though only the key `device` is ever searched: each new event adds 120 entries to the index.",
    mends="Drop it; a B-tree on the one key, ((doc ->> 'device')) (or jsonb_path_ops on that part of the document).",
    spoil="""
CREATE TABLE event (id bigserial PRIMARY KEY, doc jsonb NOT NULL);
CREATE FUNCTION make_doc(n int) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_object_agg(k, v) FROM (SELECT 'device' AS k, n AS v UNION ALL SELECT 'sensor_' || g, (n * 7919::bigint + g * 104729) % 1000003 FROM generate_series(1, 60) g) d;
$$;
CREATE TABLE inbox (n int PRIMARY KEY, doc jsonb NOT NULL);
INSERT INTO inbox SELECT g, make_doc(g) FROM generate_series(1, 4000) g;
CREATE INDEX event_doc ON event USING gin (doc);
INSERT INTO event (doc) SELECT doc FROM inbox;
VACUUM ANALYZE event; VACUUM ANALYZE inbox;
""",
    load="""
\\set n random(1, 3800)
INSERT INTO event (doc) SELECT doc FROM inbox WHERE n BETWEEN :n AND :n + 100;
""",
    mend="DROP INDEX event_doc; CREATE INDEX event_device ON event ((doc ->> 'device')); ANALYZE event;",
)

entry(
    id="refresh-by-trigger", area="schema",
    cause="A trigger refreshes the materialized view of the totals after each statement on the table of sales, so that it is 'always up to date': each sale computes all totals anew, and the "
          "others wait, as the refresh holds an exclusive lock until the commit.",
    mends="Drop the trigger; refresh by a job (CONCURRENTLY) every few minutes, or keep a table of totals to which the trigger adds the new sale only.",
    spoil="""
CREATE TABLE sale (id bigserial PRIMARY KEY, shop int NOT NULL, day int NOT NULL, cents int NOT NULL);
INSERT INTO sale (shop, day, cents) SELECT g % 30, g % 365, g % 5000 FROM generate_series(1, 60000) g;
CREATE MATERIALIZED VIEW sale_total AS SELECT shop, day, count(*), sum(cents) FROM sale GROUP BY shop, day;
CREATE FUNCTION refresh_totals() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN REFRESH MATERIALIZED VIEW sale_total; RETURN NULL; END $$;
CREATE TRIGGER sale_totals AFTER INSERT OR UPDATE OR DELETE ON sale FOR EACH STATEMENT EXECUTE FUNCTION refresh_totals();
VACUUM ANALYZE sale;
""",
    load="""
\\set s random(0, 29)
INSERT INTO sale (shop, day, cents) VALUES (:s, 364, 1990);
""",
    mend="DROP TRIGGER sale_totals ON sale;",
)

# ------------------------------------------------------------------- workload

entry(
    id="filtered-in-the-application", area="workload",
    cause="The application loads all vouchers (the repository's findAll()) and looks for the one with the given code in its own memory: 15,000 rows are sent for one that is needed.",
    mends="Ask for the one: WHERE code = …; the index on code is there.",
    spoil="""
CREATE TABLE voucher (id int PRIMARY KEY, code text NOT NULL UNIQUE, cents int NOT NULL, valid_until date NOT NULL);
INSERT INTO voucher SELECT g, 'V' || g, g % 5000, date '2026-12-31' + g % 300 FROM generate_series(1, 15000) g;
VACUUM ANALYZE voucher;
""",
    load="""
SELECT id, code, cents, valid_until FROM voucher;
""",
    mend_load="""
\\set v random(1, 15000)
SELECT id, code, cents, valid_until FROM voucher WHERE code = 'V' || :v;
""",
)

_import = """
\\set s random(1, 500)
INSERT INTO reading (sensor, value, remark) SELECT :s, g, 'ok' FROM generate_series(1, 20) g;
"""
entry(
    id="analyze-after-each-batch", area="workload",
    cause="The import runs ANALYZE on the table after each batch of 20 rows, 'so that the planner knows': each time 30,000 rows are sampled and sorted, column by column, and as only one "
          "session at a time may analyze a table, the importers stand in line for it.",
    mends="Leave it to autovacuum, which analyzes after a tenth of the table has changed, or ANALYZE once after a large import.",
    spoil="""
CREATE TABLE reading (id bigserial PRIMARY KEY, sensor int NOT NULL, value float8 NOT NULL, remark text NOT NULL);
INSERT INTO reading (sensor, value, remark) SELECT g % 500, g / 7.0, 'remark ' || g % 1000 FROM generate_series(1, 100000) g;
VACUUM ANALYZE reading;
""",
    load=_import + "ANALYZE reading;\n",
    mend_load=_import,
)

_entity = """
\\set i random(1, 20000)
%sSELECT id, name, price FROM product WHERE id = :i;
"""
entry(
    id="metadata-for-each-request", area="workload",
    cause="The data layer asks information_schema for the columns and the primary key of the table before each statement (it is stateless and keeps no mapping): two views that join half of the "
          "catalog, for a row that is found by its key.",
    mends="Read the metadata once at the start and keep them (switch the cache of the mapper on).",
    spoil="""
CREATE TABLE product (id int PRIMARY KEY, name text NOT NULL, price int NOT NULL);
INSERT INTO product SELECT g, 'Product ' || g, g % 900 FROM generate_series(1, 20000) g;
DO $$ BEGIN FOR n IN 1..60 LOOP EXECUTE format('CREATE TABLE entity_%s (id int PRIMARY KEY, product_id int REFERENCES product, name text, state int)', n); END LOOP; END $$;
VACUUM ANALYZE product;
""",
    load=_entity % """SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'product' ORDER BY ordinal_position;
SELECT k.column_name FROM information_schema.table_constraints c JOIN information_schema.key_column_usage k USING (constraint_schema, constraint_name)
 WHERE c.table_schema = 'public' AND c.table_name = 'product' AND c.constraint_type = 'PRIMARY KEY';
""",
    mend_load=_entity % "",
)

# ---------------------------------------------------------------- replication

# A standby beside the server, in its directory; it ends with the server that it follows. $$ would be the shell's.
_standby = """
COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; primary=$(head -n 1 postmaster.pid); bin=$(dirname $(readlink -f /proc/$primary/exe)); sockets=$(sed -n 5p postmaster.pid);
  rm -rf ../standby; $bin/pg_basebackup -h $sockets -U postgres -D ../standby -X stream -c fast -R 2> ../standby.log || exit 1;
  printf "port = 5499\\nshared_buffers = 32MB\\nhot_standby_feedback = on\\nwal_receiver_status_interval = 1s\\n" >> ../standby/conf.d.conf;
  $bin/pg_ctl -D ../standby -l ../standby.log -w start > /dev/null;
  setsid sh -c "while kill -0 $primary; do sleep 0.3; done; $bin/pg_ctl -D ../standby -m immediate stop; rm -rf ../standby" > /dev/null 2>&1 &
  setsid $bin/psql -X -q -h $sockets -p 5499 -U postgres -d spoilt -c "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT pg_sleep(600)" > /dev/null 2>&1 &';
"""
entry(
    id="report-on-the-standby", area="replication",
    cause="A report runs for hours on the standby, which has hot_standby_feedback = on: the standby's oldest snapshot holds back the clean-up on the primary, so that each "
          "of the 200 rows of the presence table drags hundreds of dead versions along; no session on the primary shows why (only backend_xmin in pg_stat_replication does).",
    mends="End the report on the standby (or limit it there), or hot_standby_feedback = off with max_standby_streaming_delay; then VACUUM (FULL) the swollen table.",
    spoil="""
CREATE TABLE presence (id int PRIMARY KEY, room int NOT NULL, seen timestamp NOT NULL);
INSERT INTO presence SELECT g, g % 10, now() FROM generate_series(1, 200) g;
VACUUM ANALYZE presence;
""" + _standby + """
DO $$ BEGIN
  FOR n IN 1..100 LOOP
    PERFORM pg_stat_clear_snapshot();
    EXIT WHEN EXISTS (SELECT FROM pg_stat_replication WHERE backend_xmin IS NOT NULL);
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$;
DO $$ BEGIN FOR n IN 1..400 LOOP UPDATE presence SET seen = clock_timestamp(); END LOOP; END $$;
VACUUM ANALYZE presence;
""",
    load="""
\\set r random(0, 9)
SELECT id, seen FROM presence WHERE room = :r ORDER BY seen DESC;
""",
    mend="""
\\set home :PORT
\\c - - - 5499
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid();
\\c - - - :home
DO $$ BEGIN
  FOR n IN 1..100 LOOP
    PERFORM pg_stat_clear_snapshot();
    EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_replication WHERE age(backend_xmin) > 1);
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$;
VACUUM FULL ANALYZE presence;
""",
)

# -------------------------------------------------------------------- machine

_data = """
SELECT current_setting('data_directory') AS data_directory \\gset
\\setenv DATA :data_directory
"""
entry(
    id="memory-limit", area="machine", settings={"shared_buffers": "8MB"},
    cause="The server runs in a container with a memory limit of 48 MB (here set by the cgroup), page cache included: the data of 90 MB don't fit in, so that pages are thrown out of the cache "
          "and read from the disk again and again, though the machine has gigabytes that are free.",
    mends="Raise the container's memory limit (limits.memory, MemoryMax=, memory.max).",
    spoil="""
CREATE TABLE track (id int PRIMARY KEY, body text NOT NULL) WITH (fillfactor = 60);
INSERT INTO track SELECT g, repeat('t', 500) FROM generate_series(1, 100000) g;
VACUUM ANALYZE track;
CHECKPOINT;
""" + _data + """
\\! sync; for f in $(find "$DATA/base" -size +1M -type f); do dd if=$f iflag=nocache count=0 2> /dev/null; done; p=$(head -n 1 "$DATA/postmaster.pid"); if [ -d /sys/fs/cgroup/memory ]; then g=/sys/fs/cgroup/memory/spoilt-memory; mkdir -p $g; echo 48M > $g/memory.limit_in_bytes; else g=/sys/fs/cgroup/spoilt-memory; mkdir -p $g; echo 48M > $g/memory.max; fi; for q in $p $(pgrep -P $p); do echo $q > $g/cgroup.procs; done
""",
    load="""
\\set i random(1, 99900)
SELECT count(body) FROM track WHERE id = ANY (ARRAY(SELECT (:i + g * 997) % 100000 + 1 FROM generate_series(1, 50) g));
""",
    mend=_data + """
\\! g=/sys/fs/cgroup/memory/spoilt-memory; [ -d $g ] || g=/sys/fs/cgroup/spoilt-memory; for n in 1 2 3; do for q in $(cat $g/cgroup.procs); do echo $q > $(dirname $g)/cgroup.procs; done; done 2> /dev/null; sleep 0.2; rmdir $g; cat $(find "$DATA/base" -size +1M -type f) > /dev/null
""",
)

entry(
    id="logs-packed-beside", area="machine",
    cause="The log rotation packs the logs of all services with xz, twelve at a time, on the machine of the database: the packers take most of the CPUs' time.",
    mends="Pack elsewhere or out of hours, one at a time and at low priority (nice, CPUWeight=), or with a faster program (zstd).",
    spoil="""
CREATE TABLE rating (id int PRIMARY KEY, grp int NOT NULL, points int NOT NULL);
INSERT INTO rating SELECT g, g % 50, g % 97 FROM generate_series(1, 20000) g;
CREATE INDEX ON rating (grp);
VACUUM ANALYZE rating;
""",
    load="""
\\set g random(0, 49)
SELECT avg(points), stddev(points) FROM rating WHERE grp = :g;
""",
    # Each packer in a session of its own, as services are: a scheduler with autogroups counts by session. The trap ends them.
    beside="\\! p=; trap 'kill $p; exit' TERM; for n in 1 2 3 4 5 6 7 8 9 10 11 12; do setsid xz -5 < /dev/urandom > /dev/null & p=\"$p $!\"; done; wait\n",
    mend_beside="SELECT pg_sleep(1);\n",
)
