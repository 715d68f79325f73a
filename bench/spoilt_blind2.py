"""Twenty more spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind2. The keys are those of spoilt_blind.py. None of the causes is one of
spoilt_entries.py or spoilt_blind.py.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# For a program beside the load: psql hands its connection on to the shell.
SHELL = "\\setenv PGHOST :HOST\n\\setenv PGUSER :USER\n\\setenv PGDATABASE :DBNAME\n"

# ---------------------------------------------------------------- statements

entry(
    id="newsletter-not-in", area="statements",
    cause="NOT IN (SELECT …) over a large table: the list does not fit into work_mem, so it is not hashed; the whole list "
          "is gone through again for every row outside (NOT IN can't become an anti join because of NULLs).",
    mends="Write NOT EXISTS (or LEFT JOIN … IS NULL), which becomes an anti join over the index on optout.customer_id. "
          "(More work_mem would only make the subplan hashed again.)",
    spoil="""
CREATE TABLE optout (customer_id int, at timestamptz NOT NULL DEFAULT now());
INSERT INTO optout (customer_id) SELECT g * 3 FROM generate_series(1, 300000) g;
CREATE INDEX ON optout (customer_id);
CREATE TABLE recipient (campaign_id int NOT NULL, customer_id int NOT NULL, PRIMARY KEY (campaign_id, customer_id));
INSERT INTO recipient SELECT 1 + g % 4000, g FROM generate_series(1, 20000) g;
VACUUM ANALYZE optout; VACUUM ANALYZE recipient;
""",
    load="""
\\set c random(1, 4000)
SELECT customer_id FROM recipient WHERE campaign_id = :c AND customer_id NOT IN (SELECT customer_id FROM optout);
""",
    mend_load="""
\\set c random(1, 4000)
SELECT customer_id FROM recipient r WHERE campaign_id = :c
   AND NOT EXISTS (SELECT FROM optout o WHERE o.customer_id = r.customer_id);
""",
)

entry(
    id="newest-of-each-sensor", area="statements",
    cause="The newest reading of each sensor is asked for with DISTINCT ON: PostgreSQL has no skip scan, so all readings "
          "are read (and sorted or walked in index order) to keep one of every 2,000.",
    mends="Go from the table of sensors and take the newest reading of each with LATERAL … ORDER BY at DESC LIMIT 1 (the "
          "index on (sensor_id, at) serves it), or a recursive CTE as a loose index scan, or a table of latest values.",
    spoil="""
CREATE TABLE sensor (id int PRIMARY KEY, name text NOT NULL);
INSERT INTO sensor SELECT g, 'Sensor ' || g FROM generate_series(1, 60) g;
CREATE TABLE reading (sensor_id int NOT NULL REFERENCES sensor, at timestamptz NOT NULL, value real NOT NULL);
INSERT INTO reading SELECT 1 + g % 60, timestamptz '2024-01-01' + g * interval '1 second', g % 331 FROM generate_series(1, 120000) g;
CREATE INDEX ON reading (sensor_id, at DESC);
VACUUM ANALYZE sensor; VACUUM ANALYZE reading;
""",
    load="""
SELECT DISTINCT ON (r.sensor_id) s.name, r.at, r.value FROM reading r JOIN sensor s ON s.id = r.sensor_id
 ORDER BY r.sensor_id, r.at DESC;
""",
    mend_load="""
SELECT s.name, r.at, r.value FROM sensor s CROSS JOIN LATERAL
  (SELECT at, value FROM reading WHERE sensor_id = s.id ORDER BY at DESC LIMIT 1) r;
""",
)

entry(
    id="similar-name", area="statements",
    cause="The fuzzy search filters by the function similarity(name, …) > 0.4; an index answers operators, not functions, "
          "so the trigram index on name lies idle and the similarity is computed for every row.",
    mends="Filter with the operator name % '…' (threshold by pg_trgm.similarity_threshold), which the trigram index serves.",
    spoil="""
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE TABLE supplier (id int PRIMARY KEY, name text NOT NULL);
INSERT INTO supplier SELECT g, substr(md5(g::text), 1, 7) || ' ' || substr(md5(g::text), 8, 6) FROM generate_series(1, 30000) g;
CREATE INDEX supplier_name_trgm ON supplier USING gin (name gin_trgm_ops);
ALTER DATABASE spoilt SET pg_trgm.similarity_threshold = 0.4;
VACUUM ANALYZE supplier;
""",
    load="""
\\set n random(1, 30000)
SELECT id, name FROM supplier WHERE similarity(name, substr(md5((:n)::text), 1, 7)) > 0.4
 ORDER BY similarity(name, substr(md5((:n)::text), 1, 7)) DESC LIMIT 10;
""",
    mend_load="""
\\set n random(1, 30000)
SELECT id, name FROM supplier WHERE name % substr(md5((:n)::text), 1, 7)
 ORDER BY similarity(name, substr(md5((:n)::text), 1, 7)) DESC LIMIT 10;
""",
)

entry(
    id="total-beside-page", area="statements",
    cause="The list of messages shows 25 of them and, for the pager, the total by count(*) OVER (): the window has to read "
          "all messages of the mailbox before the first 25 may be returned; LIMIT saves nothing.",
    mends="Leave the total out (ask for 26 rows to know whether there is a next page), take an estimate, or keep a counter; "
          "then the index on (mailbox_id, id) gives the 25 rows at once.",
    spoil="""
CREATE TABLE message (id bigint PRIMARY KEY, mailbox_id int NOT NULL, sender text NOT NULL, subject text NOT NULL);
INSERT INTO message SELECT g, g % 12, 'user' || g % 700, 'Subject ' || g FROM generate_series(1, 120000) g;
CREATE INDEX message_mailbox ON message (mailbox_id, id);
VACUUM ANALYZE message;
""",
    load="""
\\set m random(0, 11)
SELECT id, sender, subject, count(*) OVER () AS total FROM message WHERE mailbox_id = :m ORDER BY id DESC LIMIT 25;
""",
    mend_load="""
\\set m random(0, 11)
SELECT id, sender, subject FROM message WHERE mailbox_id = :m ORDER BY id DESC LIMIT 26;
""",
)

entry(
    id="groups-union-all", area="statements",
    cause="The recursive query collects the groups that a user is in, with UNION ALL; groups are nested in several parents, "
          "so each group is reached over many paths and walked again for each: the rows double with every level.",
    mends="UNION instead of UNION ALL in the recursive CTE, so that a group already seen is not followed again (or keep the "
          "closure in a table).",
    spoil="""
CREATE TABLE group_in (child int NOT NULL, parent int NOT NULL, PRIMARY KEY (child, parent));
INSERT INTO group_in SELECT d * 100 + l * 2 + a, d * 100 + (l + 1) * 2 + b
  FROM generate_series(1, 300) d, generate_series(0, 10) l, generate_series(0, 1) a, generate_series(0, 1) b;
CREATE TABLE right_of (group_id int NOT NULL, page int NOT NULL, PRIMARY KEY (group_id, page));
INSERT INTO right_of SELECT d * 100 + l, (d * 7 + l) % 500 FROM generate_series(1, 300) d, generate_series(0, 23) l;
VACUUM ANALYZE group_in; VACUUM ANALYZE right_of;
""",
    load="""
\\set d random(1, 300)
WITH RECURSIVE g AS (
  SELECT parent FROM group_in WHERE child = (:d)::int * 100
  UNION ALL
  SELECT i.parent FROM g JOIN group_in i ON i.child = g.parent)
SELECT count(*) FROM right_of WHERE group_id IN (SELECT parent FROM g);
""",
    mend_load="""
\\set d random(1, 300)
WITH RECURSIVE g AS (
  SELECT parent FROM group_in WHERE child = (:d)::int * 100
  UNION
  SELECT i.parent FROM g JOIN group_in i ON i.child = g.parent)
SELECT count(*) FROM right_of WHERE group_id IN (SELECT parent FROM g);
""",
)

# -------------------------------------------------------------------- schema

entry(
    id="prefix-and-collation", area="schema",
    cause="The search as one types is name LIKE 'abc%'; the column has a natural-language collation (ICU), and a B-tree in "
          "such a collation can't serve LIKE, so the index on name is passed over and the whole table is read.",
    mends="An index with text_pattern_ops (CREATE INDEX … (name text_pattern_ops)) or in the collation \"C\".",
    spoil="""
CREATE TABLE place (id int PRIMARY KEY, name text COLLATE "en-x-icu" NOT NULL, people int NOT NULL);
INSERT INTO place SELECT g, initcap(translate(md5(g::text), '0123456789', 'ghijklmnop')), g % 90000 FROM generate_series(1, 90000) g;
CREATE INDEX place_name ON place (name);
VACUUM ANALYZE place;
""",
    load="""
\\set n random(1, 90000)
SELECT id, name, people FROM place WHERE name LIKE initcap(translate(left(md5((:n)::text), 5), '0123456789', 'ghijklmnop')) || '%';
""",
    mend="CREATE INDEX place_name_pattern ON place (name text_pattern_ops); ANALYZE place;",
)

_wanted = [("colour", 12), ("size", 8), ("brand", 30), ("material", 10)]
_shown = ["title", "price", "weight", "warranty"]
entry(
    id="attributes-as-rows", area="schema",
    cause="Products are kept as entity, attribute, value: each property is a row of its own, so a search by three properties "
          "that shows four others joins the attribute table seven times.",
    mends="Make columns of the properties that are searched and shown (or one jsonb column with an index), instead of a row "
          "for each.",
    spoil="""
CREATE TABLE product (id int PRIMARY KEY);
INSERT INTO product SELECT generate_series(1, 12000);
CREATE TABLE attribute (product_id int NOT NULL REFERENCES product, name text NOT NULL, value text NOT NULL,
  PRIMARY KEY (product_id, name));
""" + "".join("""
INSERT INTO attribute SELECT g, '%s', '%s ' || (hashint4(g * %d) & 65535) %% %d FROM generate_series(1, 12000) g;
""" % (name, name, 3 + at, many) for at, (name, many) in enumerate(_wanted)) + "".join("""
INSERT INTO attribute SELECT g, '%s', '%s of ' || g FROM generate_series(1, 12000) g;
""" % (name, name) for name in _shown) + """
CREATE INDEX attribute_value ON attribute (name, value);
VACUUM ANALYZE product; VACUUM ANALYZE attribute;
""",
    load="\n" + "".join("\\set %s random(0, %d)\n" % (name, many - 1) for name, many in _wanted[:3]) +
         "SELECT p.id, " + ", ".join("s%d.value AS %s" % (at, name) for at, name in enumerate(_shown)) + " FROM product p\n" +
         "".join("  JOIN attribute w%d ON w%d.product_id = p.id AND w%d.name = '%s' AND w%d.value = '%s ' || :%s\n"
                 % (at, at, at, name, at, name, name) for at, (name, _) in enumerate(_wanted[:3])) +
         "".join("  JOIN attribute s%d ON s%d.product_id = p.id AND s%d.name = '%s'\n" % (at, at, at, name)
                 for at, name in enumerate(_shown)) + ";\n",
    mend="CREATE TABLE product_wide AS SELECT product_id AS id, " +
         ", ".join("max(value) FILTER (WHERE name = '%s') AS %s" % (name, name) for name in [w for w, _ in _wanted] + _shown) +
         " FROM attribute GROUP BY product_id; CREATE INDEX ON product_wide (brand, colour, size); VACUUM ANALYZE product_wide;",
    mend_load="\n" + "".join("\\set %s random(0, %d)\n" % (name, many - 1) for name, many in _wanted[:3]) +
              "SELECT id, " + ", ".join(_shown) + " FROM product_wide WHERE " +
              " AND ".join("%s = '%s ' || :%s" % (name, name, name) for name, _ in _wanted[:3]) + ";\n",
)

entry(
    id="rls-and-text-search", area="schema",
    cause="The table has a row-level security policy; the operator @@ of full text search is not marked leakproof, so its "
          "condition must not be tried before the policy's, and the GIN index on the text can't be used for it: every "
          "search goes through all rows of the tenant.",
    mends="Search over a SECURITY DEFINER function (or a role with BYPASSRLS) that filters the tenant itself, or mark the "
          "operator's function leakproof (ALTER FUNCTION ts_match_vq LEAKPROOF) where that is acceptable.",
    role="app",
    spoil="""
CREATE TABLE note (id int PRIMARY KEY, tenant_id int NOT NULL, title text NOT NULL, tsv tsvector NOT NULL);
INSERT INTO note SELECT g, g % 2, 'Note ' || g,
    (SELECT string_agg('w' || (hashint4(g * 40 + w) & 2047), ' ') FROM generate_series(1, 12) w)::tsvector
  FROM generate_series(1, 24000) g;
CREATE INDEX note_tsv ON note USING gin (tsv);
CREATE INDEX note_tenant ON note (tenant_id);
ALTER TABLE note ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON note USING (tenant_id = current_setting('app.tenant')::int);
GRANT SELECT ON note TO app;
ALTER ROLE app SET app.tenant = '1';
VACUUM ANALYZE note;
""",
    load="""
\\set a random(0, 2047)
\\set b random(0, 2047)
SELECT id, title FROM note WHERE tsv @@ ('w' || :a || ' & w' || :b)::tsquery;
""",
    mend="ALTER FUNCTION ts_match_vq(tsvector, tsquery) LEAKPROOF;",
)

entry(
    id="swollen-registry", area="schema",
    cause="A table of 200 rows is as large as it was on the day when it held 500,000: the rows left lie at its end, so "
          "vacuum could not cut it; every look-up scans some 10,000 empty pages.",
    mends="Rewrite the table (VACUUM FULL, CLUSTER, pg_repack) so that it has the few pages it needs.",
    spoil="""
CREATE TABLE online (id bigint PRIMARY KEY, app_name text NOT NULL, who text NOT NULL, seen timestamptz NOT NULL);
INSERT INTO online SELECT g, 'app ' || g % 20, 'user ' || g || repeat('.', 80), now() FROM generate_series(1, 500000) g;
DELETE FROM online WHERE id <= 499800;
VACUUM ANALYZE online;
""",
    load="""
\\set a random(0, 19)
SELECT id, who, seen FROM online WHERE app_name = 'app ' || :a;
""",
    mend="VACUUM FULL ANALYZE online;",
)

# ------------------------------------------------------------------ settings

entry(
    id="joins-as-written", area="settings",
    cause="join_collapse_limit is 1 (once set to force the order of a single report): the tables are joined in the order in "
          "which the application writes them, so all order lines are joined with all orders before the one customer is "
          "looked for.",
    mends="Set join_collapse_limit back to 8 (its default), so that the planner may start from the customer; set 1 only for "
          "the one statement that needs it.",
    settings={"join_collapse_limit": "1"},
    spoil="""
CREATE TABLE buyer (id int PRIMARY KEY, email text NOT NULL UNIQUE);
CREATE TABLE purchase (id int PRIMARY KEY, buyer_id int NOT NULL REFERENCES buyer, day date NOT NULL);
CREATE TABLE purchase_line (purchase_id int NOT NULL REFERENCES purchase, line int NOT NULL, amount int NOT NULL,
  PRIMARY KEY (purchase_id, line));
INSERT INTO buyer SELECT g, 'b' || g || '@example.org' FROM generate_series(1, 5000) g;
INSERT INTO purchase SELECT g, 1 + (g * 17) % 5000, date '2024-01-01' + g % 300 FROM generate_series(1, 20000) g;
INSERT INTO purchase_line SELECT 1 + g % 20000, g / 20000, g % 90 FROM generate_series(0, 79999) g;
CREATE INDEX ON purchase (buyer_id);
VACUUM ANALYZE buyer; VACUUM ANALYZE purchase; VACUUM ANALYZE purchase_line;
""",
    load="""
\\set b random(1, 5000)
SELECT p.day, sum(l.amount) FROM purchase_line l JOIN purchase p ON p.id = l.purchase_id JOIN buyer b ON b.id = p.buyer_id
 WHERE b.email = 'b' || :b || '@example.org' GROUP BY p.day;
""",
    mend_settings={},
)

entry(
    id="wal-buffers-of-old", area="settings",
    cause="wal_buffers is 64kB, from a postgresql.conf carried along since 8.x: a transaction's WAL does not fit into the "
          "buffers, so backends write them out themselves while they insert, each waiting for the others' writes.",
    mends="Set wal_buffers to -1 (1/32 of shared_buffers, up to 16MB).",
    settings={"wal_buffers": "64kB"},
    spoil="""
CREATE TABLE trace (id bigserial, at timestamptz NOT NULL DEFAULT now(), line text NOT NULL);
""",
    load="""
INSERT INTO trace (line) SELECT repeat('x', 900) FROM generate_series(1, 300);
""",
    mend_settings={},
    mend="TRUNCATE trace;",
)

entry(
    id="lossy-bitmap", area="settings",
    cause="work_mem is 64kB (to be safe with 2,000 connections): the bitmaps of index scans become lossy, so that of each "
          "page all rows must be read and the search condition computed anew for them.",
    mends="Raise work_mem (4MB and more), so that the bitmap stays exact; use a pooler instead of thousands of connections.",
    settings={"work_mem": "64kB"},
    spoil="""
CREATE TABLE clause (id int PRIMARY KEY, contract int NOT NULL, pad text NOT NULL, tsv tsvector NOT NULL);
INSERT INTO clause SELECT g, g % 5000, repeat('p', 150),
    (SELECT string_agg('w' || (hashint4(g * 50 + w) & 511), ' ') FROM generate_series(1, 30) w)::tsvector
  FROM generate_series(1, 40000) g;
CREATE INDEX clause_tsv ON clause USING gin (tsv) WITH (fastupdate = off);
VACUUM ANALYZE clause;
""",
    load="""
\\set a random(0, 511)
SELECT count(*), max(contract) FROM clause WHERE tsv @@ ('w' || :a)::tsquery;
""",
    mend_settings={},
)

# ------------------------------------------------------------------ workload

entry(
    id="select-star-of-articles", area="workload",
    cause="The list of articles is read with SELECT * by the object mapper, though it shows titles only: the body of each "
          "article, some 50 kB in TOAST, is fetched, unpacked and sent for each of the 20 rows.",
    mends="Name the columns that are shown (defer or lazy-load the body); TOAST is then never touched.",
    spoil="""
CREATE TABLE article (id int PRIMARY KEY, section int NOT NULL, title text NOT NULL, published date NOT NULL, body text NOT NULL);
INSERT INTO article SELECT g, g % 40, 'Article ' || g, date '2024-01-01' + g % 300,
    (SELECT string_agg(md5(g || '.' || p), ' the ') FROM generate_series(1, 1300) p) FROM generate_series(1, 800) g;
CREATE INDEX ON article (section, id);
VACUUM ANALYZE article;
""",
    load="""
\\set s random(0, 39)
SELECT * FROM article WHERE section = :s ORDER BY id LIMIT 20;
""",
    mend_load="""
\\set s random(0, 39)
SELECT id, title, published FROM article WHERE section = :s ORDER BY id LIMIT 20;
""",
)

_rows = "".join("INSERT INTO import_row (file_id, line, body) VALUES (:f, %d, 'line of the file');\n" % n for n in range(1, 21))
entry(
    id="commit-per-line", area="workload",
    cause="The import sends each line of a file as an INSERT with autocommit on: every line is a transaction and waits for "
          "its own flush of the WAL.",
    mends="One transaction for many lines (BEGIN … COMMIT around a batch; better still COPY or INSERT with many VALUES); "
          "synchronous_commit = off for the import where it can be repeated.",
    spoil="CREATE TABLE import_row (id bigserial PRIMARY KEY, file_id int NOT NULL, line int NOT NULL, body text NOT NULL);",
    load="\n\\set f random(1, 100000)\n" + _rows,
    mend_load="\n\\set f random(1, 100000)\nBEGIN;\n" + _rows + "COMMIT;\n",
)

_take = """
\\set k random(1, 1000)
BEGIN;
UPDATE task SET state = 'taken' WHERE id = (SELECT id FROM task WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE%s);
\\sleep 5 ms
INSERT INTO task (state, kind) VALUES ('new', :k);
COMMIT;
"""
entry(
    id="workers-in-a-row", area="workload",
    cause="Each worker takes the first open task with SELECT … FOR UPDATE and works on it in the same transaction; the "
          "others want the same first row and wait until the first has committed: four workers do the work of one.",
    mends="FOR UPDATE SKIP LOCKED, so that each worker takes the next free task (or mark and commit first, work "
          "afterwards).",
    spoil="""
CREATE TABLE task (id bigserial PRIMARY KEY, state text NOT NULL, kind int NOT NULL);
INSERT INTO task (state, kind) SELECT 'new', g FROM generate_series(1, 1000) g;
CREATE INDEX ON task (id) WHERE state = 'new';
VACUUM ANALYZE task;
""",
    load=_take % "",
    mend_load=_take % " SKIP LOCKED",
)

entry(
    id="pool-checks-out", area="workload",
    cause="The connection pool surrounds each statement with its own: a test query, SETs on check-out, BEGIN and COMMIT "
          "around one SELECT, and DISCARD ALL on return; the one useful statement is one of seven, and DISCARD ALL throws "
          "away what the session had cached.",
    mends="Switch off test-on-borrow and reset-on-return (server_reset_query_always of the pooler), set the parameters for "
          "the role (ALTER ROLE … SET), and read in autocommit.",
    args=["-M", "extended"],
    spoil="""
CREATE TABLE profile (id int PRIMARY KEY, name text NOT NULL, plan int NOT NULL);
INSERT INTO profile SELECT g, 'Name ' || g, g % 5 FROM generate_series(1, 50000) g;
VACUUM ANALYZE profile;
""",
    load="""
\\set i random(1, 50000)
SELECT 1;
SET extra_float_digits = 3;
SET search_path = public;
BEGIN;
SELECT name, plan FROM profile WHERE id = :i;
COMMIT;
DISCARD ALL;
""",
    mend_load="""
\\set i random(1, 50000)
SELECT name, plan FROM profile WHERE id = :i;
""",
)

# --------------------------------------------------------------- replication

entry(
    id="identity-full", area="replication",
    cause="The table has REPLICA IDENTITY FULL (set for change data capture, though there is a primary key), and wal_level "
          "is logical: each update of the score writes the whole old row into the WAL, with its 60 kB of inventory fetched "
          "from TOAST.",
    mends="ALTER TABLE player REPLICA IDENTITY DEFAULT (the primary key identifies the row), or keep the large column in "
          "another table.",
    settings={"wal_level": "logical"},
    spoil="""
CREATE TABLE player (id int PRIMARY KEY, nick text NOT NULL, score int NOT NULL, inventory text NOT NULL);
INSERT INTO player SELECT g, 'nick' || g, 0,
    (SELECT string_agg(md5(g || '.' || p), '') FROM generate_series(1, 1900) p) FROM generate_series(1, 500) g;
CREATE PUBLICATION cdc FOR TABLE player;
ALTER TABLE player REPLICA IDENTITY FULL;
VACUUM ANALYZE player;
""",
    load="""
\\set i random(1, 500)
UPDATE player SET score = score + 1 WHERE id = :i;
""",
    mend="ALTER TABLE player REPLICA IDENTITY DEFAULT;",
)

_receive = SHELL + ("\\setenv PGAPPNAME archive\n\\! mkdir -p $PGHOST/../received\n"
                    "\\! pg_receivewal --no-loop --synchronous -D $PGHOST/../received\n")
entry(
    id="archive-is-synchronous", area="replication",
    cause="A pg_receivewal that archives the WAL is named in synchronous_standby_names: every commit waits until the "
          "receiver, too, has written and flushed it, which on its disk takes longer than the server's own flush.",
    mends="Take the archive out of synchronous_standby_names, or commit what may be lost with synchronous_commit = local; "
          "else a faster disk (network) for the synchronous standby, and fewer, larger transactions.",
    spoil="""
CREATE TABLE deposit (id bigserial PRIMARY KEY, account int NOT NULL, cents int NOT NULL);
ALTER SYSTEM SET synchronous_standby_names = 'archive';
SELECT pg_reload_conf();
""",
    load="""
\\set a random(1, 10000)
INSERT INTO deposit (account, cents) VALUES (:a, 100);
""",
    beside=_receive,
    mend="SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf();",
)

# ------------------------------------------------------------------- machine

entry(
    id="pinned-to-one-cpu", area="machine",
    cause="The server's processes are bound to one CPU (CPU affinity, as by CPUAffinity= of a service unit or a container's "
          "cpuset), while the other CPUs of the machine have nothing to do.",
    mends="Take the affinity away (taskset, CPUAffinity=, cpuset), so that the server may use all CPUs.",
    spoil="""
CREATE TABLE scoring (id int PRIMARY KEY, grp int NOT NULL, points int NOT NULL);
INSERT INTO scoring SELECT g, g % 20, g % 97 FROM generate_series(1, 100000) g;
CREATE INDEX ON scoring (grp);
VACUUM ANALYZE scoring;
COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; taskset -cp 0 $(head -n 1 postmaster.pid) >/dev/null';
""",
    load="""
\\set g random(0, 19)
SELECT avg(points), stddev(points) FROM scoring WHERE grp = :g;
""",
    mend="""
COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; taskset -cp 0-$(($(nproc --all) - 1)) $(head -n 1 postmaster.pid) >/dev/null';
""",
)

entry(
    id="strace-left-attached", area="machine",
    cause="strace -f, started to look into a fault, is still attached to the postmaster; it follows every new backend, each of "
          "which stops twice at every system call and waits until the tracer lets it go on.",
    mends="End the strace (or gdb, or agent that traces by ptrace; TracerPid in /proc/PID/status names it); look with perf or "
          "eBPF instead, for a short time.",
    spoil="""
CREATE TABLE phone (id int PRIMARY KEY, number text NOT NULL);
INSERT INTO phone SELECT g, '+41 ' || g FROM generate_series(1, 50000) g;
VACUUM ANALYZE phone;
""",
    load="""
\\set i random(1, 50000)
SELECT number FROM phone WHERE id = :i;
""",
    # Where strace is not installed there is no effect.
    beside=SHELL + "\\! strace -f -o /dev/null -p $(head -n 1 $PGHOST/../data/postmaster.pid)\n",
    mend_beside="SELECT pg_sleep(1);\n",
)
