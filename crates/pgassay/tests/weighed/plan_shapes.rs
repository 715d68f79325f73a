//! Causes that the shape of a plan or another setting tells, on a real server: each statement does more than
//! its result is worth, and its mended form has no such finding.

use crate::pg_support::Server;
use crate::recorded::{Case, GENERAL, HBA, holds};

const TABLES: &str = "
CREATE TABLE sensor AS SELECT g AS id FROM generate_series(1, 60) g;
CREATE TABLE reading AS SELECT 1 + g % 60 AS sensor, g AS at, g % 331 AS value FROM generate_series(1, 120000) g;
ALTER TABLE sensor ADD PRIMARY KEY (id);
CREATE INDEX ON reading (sensor, at DESC);
CREATE TABLE optout AS SELECT g * 3 AS id FROM generate_series(1, 50000) g;
CREATE INDEX ON optout (id);
CREATE TABLE recipient AS SELECT g AS id, g % 400 AS campaign FROM generate_series(1, 20000) g;
CREATE INDEX ON recipient (campaign);
CREATE TABLE buyer AS SELECT g AS id, 'b' || g AS mail FROM generate_series(1, 5000) g;
ALTER TABLE buyer ADD PRIMARY KEY (id), ADD UNIQUE (mail);
CREATE TABLE purchase AS SELECT g AS id, 1 + g % 5000 AS buyer FROM generate_series(1, 20000) g;
ALTER TABLE purchase ADD PRIMARY KEY (id);
CREATE INDEX ON purchase (buyer);
CREATE TABLE line AS SELECT 1 + g % 20000 AS purchase, g / 20000 AS no, g % 90 AS amount FROM generate_series(0, 79999) g;
ALTER TABLE line ADD PRIMARY KEY (purchase, no);
CREATE TABLE link AS SELECT d * 100 + l * 2 + a AS child, d * 100 + (l + 1) * 2 + b AS parent
  FROM generate_series(1, 300) d, generate_series(0, 10) l, generate_series(0, 1) a, generate_series(0, 1) b;
ALTER TABLE link ADD PRIMARY KEY (child, parent);";

const CASES: &[Case] = &[
    (
        GENERAL,
        "plan-node/Index-Scan-on-public.reading",
        "SELECT DISTINCT ON (r.sensor) r.sensor, r.at, r.value, # FROM reading r ORDER BY r.sensor, r.at DESC",
        "SELECT s.id, r.at, r.value, # FROM sensor s CROSS JOIN LATERAL (SELECT at, value FROM reading WHERE sensor = s.id \
         ORDER BY at DESC LIMIT 1) r",
    ),
    (
        GENERAL,
        "plan-node/WindowAgg",
        "SELECT at, value, count(*) OVER () FROM reading WHERE sensor > # % 30 ORDER BY sensor DESC, at LIMIT 25",
        "SELECT at, value FROM reading WHERE sensor = # % 30 ORDER BY at DESC LIMIT 26",
    ),
    (
        &["sort-below-limit"],
        "ON public.reading (value DESC)",
        "SELECT at, # FROM reading ORDER BY value DESC LIMIT 10",
        "SELECT at, # FROM reading ORDER BY sensor, at DESC LIMIT 10",
    ),
    (
        &["subplan-per-row"],
        "NOT EXISTS (SELECT FROM public.optout",
        "SELECT id FROM recipient WHERE campaign = # % 400 AND id NOT IN (SELECT id FROM optout)",
        "SELECT id FROM recipient r WHERE campaign = # % 400 AND NOT EXISTS (SELECT FROM optout o WHERE o.id = r.id)",
    ),
    (
        GENERAL,
        "plan-node/Seq-Scan-on-public.reading",
        "SELECT 'a', sum(value), # FROM reading WHERE value > 3 UNION ALL SELECT 'b', count(*), 0 FROM reading WHERE value < 300 \
         UNION ALL SELECT 'c', max(value), 0 FROM reading WHERE value > 20 UNION ALL SELECT 'd', count(*), 0 FROM reading",
        "SELECT count(*) FILTER (WHERE value < 300), sum(value) FILTER (WHERE value > 20), # FROM reading",
    ),
    (
        &["plan-by-settings"],
        "join_collapse_limit",
        "SELECT p.id, sum(l.amount) FROM line l JOIN purchase p ON p.id = l.purchase JOIN buyer b ON b.id = p.buyer \
         WHERE b.mail = 'b#' GROUP BY p.id",
        "SELECT p.id, sum(l.amount) FROM buyer b JOIN purchase p ON b.id = p.buyer JOIN line l ON p.id = l.purchase \
         WHERE b.mail = 'b#' GROUP BY p.id",
    ),
    (
        GENERAL,
        "plan-node/Recursive-Union",
        "WITH RECURSIVE g AS (SELECT parent FROM link WHERE child = 100 * (1 + # % 300) UNION ALL \
         SELECT i.parent FROM g JOIN link i ON i.child = g.parent) SELECT count(*) FROM g",
        "WITH RECURSIVE g AS (SELECT parent FROM link WHERE child = 100 * (1 + # % 300) UNION \
         SELECT i.parent FROM g JOIN link i ON i.child = g.parent) SELECT count(*) FROM g",
    ),
];

#[test]
fn a_plans_shape_tells_the_cause_and_what_mends_it_is_no_finding() {
    let settings = [
        ("join_collapse_limit", "1"),
        ("work_mem", "64kB"),
        ("max_parallel_workers_per_gather", "0"),
    ];
    holds("plan-shapes", CASES, || {
        let server = Server::start(HBA, &settings, |_| {});
        server.run(TABLES);
        server.run("VACUUM ANALYZE");
        server
    });
}
