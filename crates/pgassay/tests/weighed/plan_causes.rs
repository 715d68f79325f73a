//! Further causes that plans, the catalogues and the counters tell together, on a real server: statements that go
//! through more than their result is worth, each with a mended form that has no such finding.

use crate::pg_support::Server;
use crate::recorded::{Case, GENERAL, HBA, finding, general, holds, windows};

fn server(tables: &str) -> Server {
    server_with(tables, "4")
}

/// One whose planner takes a page anywhere for so many times as dear as the next one.
fn server_with(tables: &str, random_page_cost: &str) -> Server {
    let settings = [
        ("shared_preload_libraries", "pg_stat_statements"),
        ("max_parallel_workers_per_gather", "0"),
        ("jit", "off"),
        ("wal_level", "logical"),
        ("random_page_cost", random_page_cost),
    ];
    let server = Server::start(HBA, &settings, |_| {});
    server.run("CREATE EXTENSION pg_stat_statements");
    server.run(tables);
    server.run("VACUUM ANALYZE");
    server
}

const READ: &str = "
CREATE TABLE net AS SELECT g * 100 AS low, g * 100 + 99 AS high, repeat('n', 200) AS name FROM generate_series(1, 30000) g;
ALTER TABLE net ADD PRIMARY KEY (low, high);
CREATE TABLE post AS SELECT g AS id, g / 3 AS at, 'p' || g AS title FROM generate_series(1, 30000) g;
CREATE INDEX ON post (at, id);
CREATE TABLE event AS SELECT g AS id, g % 20 AS kind, g % 1000 AS day, repeat('e', 200) AS remark FROM generate_series(1, 60000) g;
CREATE INDEX ON event (kind, day, id);
CREATE TABLE manual AS SELECT g AS id,
  (SELECT string_agg('w' || (hashint4(g * 200 + w) & 2047), ' ') FROM generate_series(1, 100) w)::tsvector AS tsv
  FROM generate_series(1, 2000) g;
CREATE INDEX ON manual USING gist (tsv);
CREATE TABLE handbook AS SELECT * FROM manual;
CREATE INDEX ON handbook USING gin (tsv);
CREATE TABLE item AS SELECT g AS id, g % 90 AS price FROM generate_series(1, 20000) g;
ALTER TABLE item ADD PRIMARY KEY (id);
CREATE TABLE contract AS SELECT g AS id, g * 7 % 4000 AS customer, g % 11 AS state, g % 3000 AS since FROM generate_series(1, 20000) g;
CREATE INDEX ON contract (customer);";

const READING: &[Case] = &[
    (
        GENERAL,
        "plan-node/Index-Scan-on-public.net",
        "SELECT name FROM net WHERE #::bigint * 7919 % 3000000 BETWEEN low AND high",
        "SELECT name FROM (SELECT * FROM net WHERE low <= #::bigint * 7919 % 3000000 ORDER BY low DESC LIMIT 1) r \
         WHERE high >= #::bigint * 7919 % 3000000",
    ),
    (
        GENERAL,
        "rows-discarded",
        "SELECT id, title FROM post WHERE at < # % 9000 OR at = # % 9000 AND id < 3 * (# % 9000) + 1 ORDER BY at DESC, id DESC LIMIT 10",
        "SELECT id, title FROM post WHERE (at, id) < (# % 9000, 3 * (# % 9000) + 1) ORDER BY at DESC, id DESC LIMIT 10",
    ),
    (
        GENERAL,
        "plan-node/Index-Only-Scan-on-public.event",
        "SELECT count(*) FROM event WHERE day = # % 1000",
        "SELECT count(*) FROM event WHERE kind = # % 20 AND day = # % 1000",
    ),
    (
        GENERAL,
        "plan-node/Index-Scan-on-public.manual",
        "SELECT id FROM manual WHERE tsv @@ ('w' || # % 2048 || ' & w' || # % 777)::tsquery",
        "SELECT id FROM handbook WHERE tsv @@ ('w' || # % 2048 || ' & w' || # % 777)::tsquery",
    ),
    (
        GENERAL,
        "plan-node/Sort",
        "SELECT id, price, # FROM item ORDER BY random() LIMIT 4",
        "SELECT id, price, # FROM item WHERE id = ANY (ARRAY(SELECT 1 + floor(random() * 20000)::int FROM generate_series(1, 12))) LIMIT 4",
    ),
    (
        &["cte-materialized"],
        "AS NOT MATERIALIZED",
        "WITH valid AS (SELECT id, customer, since FROM contract WHERE state <> 7) SELECT id, (SELECT min(f.since) FROM valid f \
         WHERE f.customer = v.customer) FROM valid v WHERE customer = # % 4000",
        "WITH valid AS NOT MATERIALIZED (SELECT id, customer, since FROM contract WHERE state <> 7) SELECT id, (SELECT min(f.since) \
         FROM valid f WHERE f.customer = v.customer) FROM valid v WHERE customer = # % 4000",
    ),
];

#[test]
fn what_goes_through_more_than_it_gives_is_told_by_its_form() {
    // Between an index that is walked and the whole table the planner chose by the sample that ANALYZE took.
    holds("plan-causes-read", READING, || server_with(READ, "1.1"));
}

#[test]
fn locks_on_rows_that_nobody_changes_are_told() {
    let [seen, changed] = windows("rows-locked-unchanged", |record| {
        let server = server(
            "CREATE TABLE item AS SELECT g AS id, g AS price FROM generate_series(1, 2000) g; ALTER TABLE item ADD PRIMARY KEY (id)",
        );
        let locking = "SELECT price FROM item WHERE id = 1 + # % 2000 FOR UPDATE";
        record.window(&server, &[locking]);
        let changing = "UPDATE item SET price = price + 1 WHERE id = 1 + # % 2000";
        record.window(&server, &[locking, changing]);
    });
    general(&seen, "plan-node/Index-Scan-on-public.item");
    general(&changed, "plan-node/Index-Scan-on-public.item");
}

const JOINED: &str = "
CREATE TABLE project AS SELECT g AS id FROM generate_series(1, 200) g;
ALTER TABLE project ADD PRIMARY KEY (id);
CREATE TABLE task AS SELECT g AS id, 1 + g % 200 AS project FROM generate_series(1, 12000) g;
CREATE TABLE file AS SELECT g AS id, 1 + g % 200 AS project FROM generate_series(1, 10000) g;
CREATE INDEX ON task (project);
CREATE INDEX ON file (project);
CREATE TABLE offer AS SELECT g % 200 / 40 AS category, g % 200 / 8 AS kind, g % 4 AS season, g % 200 AS grp, g / 200 % 17 AS size
  FROM generate_series(1, 8000) g;
CREATE TABLE demand AS SELECT * FROM offer;
CREATE INDEX ON offer (grp);
CREATE INDEX ON demand (grp);
CREATE TABLE sale AS SELECT g % 500 AS shop, g % 900 AS amount FROM generate_series(1, 30000) g;
CREATE INDEX ON sale (shop);
CREATE FUNCTION shops(p int) RETURNS SETOF int LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN QUERY SELECT (p + n) % 500 FROM (VALUES (1), (2)) v(n); END $$;
CREATE FUNCTION two_shops(p int) RETURNS SETOF int LANGUAGE plpgsql STABLE ROWS 2 AS $$
BEGIN RETURN QUERY SELECT (p + n) % 500 FROM (VALUES (1), (2)) v(n); END $$;
CREATE FUNCTION feed(p int) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE r record; made text := '';
BEGIN
  FOR r IN SELECT g FROM generate_series(1, 400) g LOOP made := made || '<item>' || r.g || '</item>'; END LOOP;
  RETURN made;
END $$;
CREATE FUNCTION feed_at_once(p int) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN (SELECT string_agg('<item>' || g || '</item>', '') FROM generate_series(1, 400) g); END $$;
CREATE TABLE word (word int PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 50);
INSERT INTO word SELECT g, 0 FROM generate_series(1, 2000) g;
CREATE FUNCTION counted(p int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w int;
BEGIN
  FOR w IN SELECT p % 1900 + g FROM generate_series(1, 20) g LOOP
    BEGIN
      INSERT INTO word VALUES (w, 1);
    EXCEPTION WHEN unique_violation THEN
      UPDATE word SET n = n + 1 WHERE word = w;
    END;
  END LOOP;
END $$;
CREATE FUNCTION counted_at_once(p int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO word SELECT p % 1900 + g, 1 FROM generate_series(1, 20) g ON CONFLICT (word) DO UPDATE SET n = word.n + 1;
END $$;
CREATE TABLE parcel AS SELECT g AS id, g % 20 AS carrier, json_build_object('state', g % 3, 'weight', g % 300, 'zone', g % 9,
  'text', repeat('t', 400)) AS doc FROM generate_series(1, 4000) g;
CREATE INDEX ON parcel (carrier);
CREATE TABLE parcel_b AS SELECT id, carrier, doc::jsonb AS doc FROM parcel;
CREATE INDEX ON parcel_b (carrier);";

const JOINING: &[Case] = &[
    (
        GENERAL,
        "plan-node/Bitmap-Heap-Scan-on-public.task",
        "SELECT p.id, count(DISTINCT t.id), count(DISTINCT f.id) FROM project p LEFT JOIN task t ON t.project = p.id \
         LEFT JOIN file f ON f.project = p.id WHERE p.id = 1 + # % 200 GROUP BY p.id",
        "SELECT p.id, (SELECT count(*) FROM task t WHERE t.project = p.id), (SELECT count(*) FROM file f WHERE f.project = p.id) \
         FROM project p WHERE p.id = 1 + # % 200",
    ),
    (
        &["loop-misestimated"],
        "CREATE STATISTICS",
        "SELECT count(*) FROM offer o JOIN demand d ON d.size >= o.size WHERE o.category = # % 200 / 40 AND o.kind = # % 200 / 8 \
         AND o.season = # % 4 AND o.grp = # % 200 AND d.category = # % 200 / 40 AND d.kind = # % 200 / 8 AND d.season = # % 4 \
         AND d.grp = # % 200",
        "SELECT count(*) FROM offer o JOIN demand d ON d.size = o.size WHERE o.grp = # % 200 AND d.grp = # % 200",
    ),
    (
        GENERAL,
        "plan-node/Hash-Join",
        "SELECT s.shop, sum(s.amount) FROM shops(#) AS m(shop) JOIN sale s ON s.shop = m.shop GROUP BY s.shop",
        "SELECT s.shop, sum(s.amount) FROM two_shops(#) AS m(shop) JOIN sale s ON s.shop = m.shop GROUP BY s.shop",
    ),
    (
        GENERAL,
        "which calls feed",
        "SELECT feed(#)",
        "SELECT feed_at_once(#)",
    ),
    (
        GENERAL,
        "which calls counted",
        "SELECT counted(#)",
        "SELECT counted_at_once(#)",
    ),
    (
        GENERAL,
        "plan-node/Bitmap-Heap-Scan-on-public.parcel",
        "SELECT doc ->> 'zone', sum((doc ->> 'weight')::int) FROM parcel WHERE carrier = # % 20 AND doc ->> 'state' = '1' GROUP BY 1",
        "SELECT doc ->> 'zone', sum((doc ->> 'weight')::int) FROM parcel_b WHERE carrier = # % 20 AND doc ->> 'state' = '1' GROUP BY 1",
    ),
];

#[test]
fn what_is_multiplied_or_repeated_is_told_by_its_cause() {
    holds("plan-causes-joined", JOINING, || server(JOINED));
}

const WRITTEN: &str = "
CREATE TABLE feed AS SELECT s AS supplier, g AS sku, 'Article ' || g AS name, g * 7 % 400 AS amount
  FROM generate_series(0, 7) s, generate_series(1, 200) g;
CREATE TABLE price (supplier int, sku int, name text, amount int, PRIMARY KEY (supplier, sku)) WITH (fillfactor = 30);
INSERT INTO price SELECT * FROM feed;
CREATE INDEX ON price (name);
CREATE TABLE measured (day int NOT NULL, value int NOT NULL);
DO $$ BEGIN FOR w IN 0..11 LOOP
  EXECUTE format('CREATE TABLE measured_%s (CHECK (day >= %s AND day < %s)) INHERITS (measured)', w, 30 * w, 30 * w + 30);
  EXECUTE format('CREATE RULE to_%s AS ON INSERT TO measured WHERE NEW.day >= %s AND NEW.day < %s DO INSTEAD '
                 'INSERT INTO measured_%s VALUES (NEW.day, NEW.value)', w, 30 * w, 30 * w + 30, w);
END LOOP; END $$;
CREATE TABLE ticket AS SELECT g AS id, g % 4 AS kind FROM generate_series(1, 20000) g;
CREATE INDEX ON ticket (kind, id);
CREATE TABLE outbox (id serial, body text);";

const WRITING: &[Case] = &[
    (
        GENERAL,
        "plan-node/Seq-Scan-on-public.feed",
        "INSERT INTO price SELECT supplier, sku, name, amount FROM feed WHERE supplier = # % 8 ORDER BY sku \
         ON CONFLICT (supplier, sku) DO UPDATE SET name = EXCLUDED.name, amount = EXCLUDED.amount",
        "INSERT INTO price SELECT supplier, sku, name, amount FROM feed WHERE supplier = # % 8 ORDER BY sku \
         ON CONFLICT (supplier, sku) DO UPDATE SET name = EXCLUDED.name, amount = EXCLUDED.amount \
         WHERE (price.name, price.amount) IS DISTINCT FROM (EXCLUDED.name, EXCLUDED.amount)",
    ),
    (
        GENERAL,
        "plan-node/whole-statement",
        "INSERT INTO measured (day, value) SELECT # % 360, g FROM generate_series(1, 20) g",
        "INSERT INTO measured_3 (day, value) SELECT 90 + # % 30, g FROM generate_series(1, 20) g",
    ),
    (
        GENERAL,
        "plan-node/whole-statement",
        "BEGIN; DECLARE page CURSOR WITH HOLD FOR SELECT id, # FROM ticket WHERE kind = 1 ORDER BY id; FETCH 40 FROM page; COMMIT; \
         CLOSE page",
        "BEGIN; DECLARE page CURSOR FOR SELECT id, # FROM ticket WHERE kind = 1 ORDER BY id; FETCH 40 FROM page; CLOSE page; COMMIT",
    ),
    (
        &["slot-peeked", "statement-logging"],
        "pg_logical_slot_get_changes",
        "SELECT count(*), # FROM pg_logical_slot_peek_changes('reader', NULL, NULL)",
        "SELECT count(*), # FROM pg_logical_slot_get_changes('reader', NULL, NULL)",
    ),
];

#[test]
fn what_is_written_or_computed_for_nothing_is_told() {
    holds("plan-causes-written", WRITING, || {
        let server = server(WRITTEN);
        server.run("SELECT pg_create_logical_replication_slot('reader', 'test_decoding')");
        server.run("INSERT INTO outbox (body) SELECT 'placed' FROM generate_series(1, 5000)");
        server
    });
}

#[test]
fn a_vacuum_that_sleeps_is_told_the_setting_and_its_remedy_ends_it() {
    let remedy = "ALTER SYSTEM SET vacuum_cost_delay = 0; SELECT pg_reload_conf();";
    let [seen, fixed] = windows("vacuum-cost-delay", |record| {
        let tables = "CREATE TABLE a AS SELECT g FROM generate_series(1, 100000) g; CREATE TABLE b AS SELECT * FROM a; \
                      CREATE TABLE c AS SELECT * FROM a; CREATE TABLE d AS SELECT * FROM a";
        let server = server(tables);
        server.run("ALTER SYSTEM SET vacuum_cost_delay = '20ms'");
        server.run("SELECT pg_reload_conf()");
        let commands = [
            "VACUUM (DISABLE_PAGE_SKIPPING) a",
            "VACUUM (DISABLE_PAGE_SKIPPING) b",
            "VACUUM (DISABLE_PAGE_SKIPPING) c",
            "ANALYZE d",
        ];
        record.window(&server, &commands);
        for statement in remedy.split_terminator(';') {
            server.run(statement);
        }
        record.window(&server, &commands);
    });
    let findings = seen["diagnosis"]["findings"].as_array().unwrap();
    let named = |id: &str| findings.iter().take(3).any(|found| found["id"] == id);
    assert!(named("relation-lock-queue") && named("wait-event/Timeout:VacuumDelay"));
    assert!(finding(&fixed, "wait-event/Timeout:VacuumDelay").is_none());
}

const KEPT_APART: &str = "
CREATE TABLE article AS SELECT g AS id, g % 40 AS shop, 1 + g % 9000 AS kind, 1 + g % 8000 AS tax, 'a' || g AS name FROM generate_series(1, 20000) g;
CREATE INDEX ON article (shop);
CREATE TABLE kind AS SELECT g AS id, 'k' || g AS label FROM generate_series(1, 15000) g;
CREATE TABLE tax AS SELECT g AS id, 't' || g AS label FROM generate_series(1, 15000) g;
CREATE VIEW article_full AS SELECT a.*, k.label AS kind_label, t.label AS tax_label
  FROM article a LEFT JOIN kind k ON k.id = a.kind LEFT JOIN tax t ON t.id = a.tax;
CREATE TABLE document AS SELECT g AS id, g % 900 AS owner, g % 8 <> 0 AS live FROM generate_series(1, 40000) g;
CREATE INDEX ON document (owner);
CREATE FUNCTION live_documents() RETURNS SETOF document LANGUAGE sql STABLE SET search_path = ''
  AS 'SELECT * FROM public.document WHERE live';
CREATE TABLE basket AS SELECT g AS id FROM generate_series(1, 5) g;
CREATE TABLE score AS SELECT g AS id, g % 2 AS league, g % 500 AS points FROM generate_series(1, 40000) g;
CREATE INDEX ON score (league, points);";

const KEEPING_APART: &[Case] = &[
    (
        GENERAL,
        "plan-node/Seq-Scan-on-public.tax",
        "SELECT id, name, # FROM article_full WHERE shop = # % 40",
        "SELECT id, name, # FROM article WHERE shop = # % 40",
    ),
    (
        GENERAL,
        "plan-node/Function-Scan-on-live_documents",
        "SELECT id, # FROM live_documents() WHERE owner = # % 900",
        "SELECT id, # FROM document WHERE live AND owner = # % 900",
    ),
    (
        GENERAL,
        "plan-node/whole-statement",
        "/* # */ TRUNCATE basket",
        "/* # */ DELETE FROM basket",
    ),
    (
        &["sort-below-limit"],
        "NULLS LAST",
        "SELECT id, # FROM score WHERE league = # % 2 ORDER BY points DESC NULLS LAST LIMIT 5",
        "SELECT id, # FROM score WHERE league = # % 2 ORDER BY points DESC LIMIT 5",
    ),
];

#[test]
fn what_keeps_the_planner_from_the_short_way_is_told() {
    holds("plan-causes-kept-apart", KEEPING_APART, || {
        server(KEPT_APART)
    });
}
