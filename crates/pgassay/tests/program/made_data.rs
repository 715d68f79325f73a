//! Data made from a database's statistics: held against the database, on servers of their own.

use std::fs;
use std::path::Path;

use pgassay::held::statistics::Statistics;
use pgassay_pgwire::{Session, connect};
use pgassay_server::{Cluster, Installations, LaunchOptions};
use pgassay_sys::stop::Stop;

use crate::own_workload::{Folder, HBA, made as json, pgassay};
use crate::pg_support::{OWNER, Server};

/// Skewed values, ranges, NULL, texts, dates, rows in order and not, keys of one and of several columns.
const TABLES: [&str; 18] = [
    "SELECT setseed(0.5)",
    "CREATE SCHEMA app",
    "ALTER DATABASE shop SET search_path = app, public",
    "SET search_path = app, public",
    "CREATE TYPE kind AS ENUM ('book', 'game', 'tool')",
    "CREATE TABLE customer (id int PRIMARY KEY, mail text UNIQUE, city text, joined date, balance numeric(9,2), note text)",
    "CREATE TABLE product (sku char(8) PRIMARY KEY, price int CHECK (price > 0), kind kind, tags text[], doc jsonb)",
    "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int REFERENCES customer, \
     at timestamptz, status char(1), weight float8, token uuid)",
    "CREATE TABLE line (orders bigint REFERENCES orders, n int, product char(8) REFERENCES product, quantity int, \
     total int GENERATED ALWAYS AS (quantity * 2) STORED, PRIMARY KEY (orders, n))",
    "CREATE TABLE shipment (orders bigint, n int, part int, PRIMARY KEY (orders, n, part), \
     FOREIGN KEY (orders, n) REFERENCES line)",
    "INSERT INTO customer SELECT g * 3, md5(g::text) || '@example.org', 'city ' || (8 * random() ^ 3)::int, \
     date '2020-01-01' + (g / 4), (random() * 1000)::numeric(9,2), CASE WHEN random() < 0.7 THEN 'note ' || (random() * 500)::int END \
     FROM generate_series(1, 4000) g",
    "INSERT INTO product SELECT 'P' || lpad(g::text, 7, '0'), 1 + (1000 * random() ^ 2)::int, \
     (ARRAY['book', 'book', 'game', 'tool'])[1 + g % 4]::kind, ARRAY['a', 'b'], '{\"x\": 1}' FROM generate_series(1, 500) g",
    "INSERT INTO orders (customer, at, status, weight, token) SELECT 3 * (1 + (3999 * random() ^ 3)::int), \
     timestamptz '2024-01-01 00:00:00+00' + g * interval '7 minutes', (ARRAY['N', 'P', 'S', 'S', 'S', 'S'])[1 + (5 * random())::int], \
     random() * 100 - 50, gen_random_uuid() FROM generate_series(1, 8000) g",
    "INSERT INTO line (orders, n, product, quantity) SELECT o, n, 'P' || lpad((1 + (499 * random() ^ 2)::int)::text, 7, '0'), \
     1 + (9 * random() ^ 4)::int FROM generate_series(1, 8000) o, generate_series(1, 3 + o % 3) n WHERE o % 8 < 5",
    "INSERT INTO shipment SELECT orders, n, part FROM line, generate_series(1, 2) part WHERE quantity > 3",
    "CREATE INDEX orders_customer ON orders (customer)",
    "CREATE INDEX customer_city ON customer (city)",
    "VACUUM ANALYZE",
];

/// What statements find and how: the same plans on both.
const STATEMENTS: [&str; 8] = [
    "SELECT city FROM customer WHERE id = 300",
    "SELECT count(*) FROM customer WHERE city = 'city 0'",
    "SELECT count(*) FROM customer WHERE city = 'city 7'",
    "SELECT id FROM orders WHERE customer = 3000",
    "SELECT sum(quantity) FROM line WHERE orders = 77",
    "SELECT c.city, count(*) FROM orders o JOIN customer c ON c.id = o.customer WHERE o.status = 'N' GROUP BY c.city",
    "SELECT l.n FROM line l JOIN product p ON p.sku = l.product WHERE p.price > 900",
    "SELECT id FROM orders WHERE at BETWEEN '2024-01-10 00:00:00+00' AND '2024-01-10 03:00:00+00'",
];

/// Partitioned by a list, by a range, and in two levels; keys of one and of several columns refer to them, also from partitions,
/// and one to its own table.
const PARTITIONED: [&str; 15] = [
    "CREATE TABLE region (code text PRIMARY KEY, name text) PARTITION BY LIST (code)",
    "CREATE TABLE region_a PARTITION OF region FOR VALUES IN ('at', 'de', 'it')",
    "CREATE TABLE region_b PARTITION OF region FOR VALUES IN ('ch', 'fr')",
    "CREATE TABLE account (id int PRIMARY KEY, region text REFERENCES region, parent int REFERENCES account) PARTITION BY RANGE (id)",
    "CREATE TABLE account_1 PARTITION OF account FOR VALUES FROM (1) TO (3001)",
    "CREATE TABLE account_2 PARTITION OF account FOR VALUES FROM (3001) TO (5001)",
    "CREATE TABLE account_3 PARTITION OF account FOR VALUES FROM (5001) TO (9001)",
    "CREATE TABLE booking (id int, day date, account int REFERENCES account, PRIMARY KEY (day, id)) PARTITION BY RANGE (day)",
    "CREATE TABLE booking_1 PARTITION OF booking FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY LIST (day)",
    "CREATE TABLE booking_1_rest PARTITION OF booking_1 DEFAULT",
    "CREATE TABLE booking_2 PARTITION OF booking FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
    "CREATE TABLE note (booking int, day date, n int, PRIMARY KEY (day, booking, n), FOREIGN KEY (day, booking) REFERENCES booking)",
    "INSERT INTO region VALUES ('at', 'a'), ('ch', 'c'), ('de', 'd'), ('fr', 'f'), ('it', 'i'); \
     INSERT INTO account SELECT g, (ARRAY['at', 'ch', 'de', 'de', 'de', 'it'])[1 + g % 6], CASE WHEN g % 3 = 0 THEN 1 + g / 2 END \
     FROM generate_series(1, 8000) g",
    "INSERT INTO booking SELECT g, date '2026-01-01' + g % 58, 1 + (7999 * random() ^ 2)::int FROM generate_series(1, 9000) g; \
     INSERT INTO note SELECT id, day, n FROM booking, generate_series(1, 2) n WHERE id % 3 = 0",
    "VACUUM ANALYZE",
];

fn shop() -> Server {
    filled(&TABLES)
}

fn filled(tables: &[&str]) -> Server {
    let server = Server::start(
        HBA,
        &[
            ("autovacuum", "off"),
            ("shared_preload_libraries", "pg_stat_statements"),
        ],
        |_| {},
    );
    server.run("CREATE DATABASE shop");
    let mut session = connect(&server.owner().with_dbname("shop")).unwrap();
    session
        .execute("CREATE EXTENSION pg_stat_statements")
        .unwrap();
    for statement in tables {
        session
            .execute(statement)
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    server
}

fn target(server: &Server) -> String {
    format!(
        "host={} port={} user={OWNER} dbname=shop",
        server.socket_dir.display(),
        server.port
    )
}

fn take(server: &Server, dir: &Path, more: &[&str]) -> Statistics {
    let of = target(server);
    let words = [
        &[
            "workload",
            "statistics",
            &of,
            "--to",
            "shop.statistics",
            "--force",
        ][..],
        more,
    ]
    .concat();
    let output = pgassay(&words, dir);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no row is read"), "{said}");
    Statistics::read(&dir.join("shop.statistics")).unwrap()
}

/// A server that holds what is made, and what it could not be given.
fn laid(statistics: &Statistics, dir: &Path) -> (Cluster, Vec<String>) {
    let installation = Installations::search().newest().unwrap().clone();
    let scratch = dir.join("scratch");
    fs::create_dir_all(&scratch).unwrap();
    let options = LaunchOptions {
        scratch: Some(scratch),
        ..LaunchOptions::default()
    };
    let cluster = Cluster::launch(&installation, &options).unwrap();
    let restored = statistics.lay(&cluster, &Stop::new()).unwrap();
    assert_eq!(restored.database, "shop");
    (cluster, restored.differs)
}

fn of(cluster: &Cluster) -> Session {
    let socket = cluster.socket_dir().display().to_string();
    let conninfo = pgassay_pgwire::Conninfo::on_socket(&socket, cluster.port(), "postgres", "shop");
    connect(&conninfo).unwrap()
}

fn ask(session: &mut Session, question: &str) -> String {
    let value = session
        .value(question)
        .unwrap_or_else(|error| panic!("{question}: {error}"));
    value.unwrap_or_default()
}

fn number(session: &mut Session, question: &str) -> f64 {
    let text = ask(session, question);
    text.parse()
        .unwrap_or_else(|_| panic!("{question}: {text}"))
}

/// The tables' columns, without generated ones.
fn columns(session: &mut Session) -> Vec<(String, String, String)> {
    let rows = session
        .rows(
            "SELECT c.relname, a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
             WHERE c.relnamespace = 'app'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND a.attgenerated = '' ORDER BY 1, a.attnum",
        )
        .unwrap();
    rows.rows
        .into_iter()
        .map(|row| {
            let mut row = row.into_iter().map(Option::unwrap);
            (
                row.next().unwrap(),
                row.next().unwrap(),
                row.next().unwrap(),
            )
        })
        .collect()
}

/// The nodes of a plan, without figures.
fn plan(session: &mut Session, statement: &str) -> String {
    let rows = session
        .rows(&format!("EXPLAIN (COSTS OFF) {statement}"))
        .unwrap();
    rows.rows
        .into_iter()
        .flatten()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn what_is_made_has_the_originals_statistics_and_plans() {
    let server = shop();
    let folder = Folder::new("made");
    let statistics = take(&server, &folder.0, &[]);
    let (cluster, differs) = laid(&statistics, &folder.0);
    // product.price is positive in the histogram, so that the check holds; nothing else was refused.
    assert_eq!(differs, Vec::<String>::new());
    let (mut a, mut b) = (
        connect(&server.owner().with_dbname("shop")).unwrap(),
        of(&cluster),
    );
    let mut wrong = Vec::new();
    for (table, column, type_name) in columns(&mut a) {
        let name = format!("{table}.{column}");
        let mut both = |question: &str| (number(&mut a, question), number(&mut b, question));
        let mut hold = |what: &str, (a, b): (f64, f64), tolerance: f64| {
            if (a - b).abs() > tolerance {
                wrong.push(format!("{name}, {what}: {a} and {b}"));
            }
        };
        let rows = both(&format!("SELECT count(*) FROM {table}"));
        hold("rows", rows, 0.0);
        let share = |condition: &str| {
            format!("SELECT (count(*) FILTER (WHERE {condition}))::float8 / count(*) FROM {table}")
        };
        hold("NULL", both(&share(&format!("{column} IS NULL"))), 0.001);
        let distinct = both(&format!("SELECT count(DISTINCT {column}) FROM {table}"));
        hold("distinct", distinct, 0.05 * distinct.0 + 1.0);
        let stats = |what: &str| {
            format!(
                "SELECT coalesce({what}, 0) FROM pg_stats WHERE schemaname = 'app' AND tablename = '{table}' AND attname = '{column}'"
            )
        };
        hold("correlation", both(&stats("correlation")), 0.12);
        let width = both(&stats("avg_width"));
        hold("width", width, 0.15 * width.0 + 1.0);
        // Where a column's values lie, by where it is below the original's quartiles.
        let ordered = !matches!(type_name.as_str(), "text[]" | "jsonb" | "uuid" | "text");
        for quartile in [0.25, 0.5, 0.75].into_iter().filter(|_| ordered) {
            let at = ask(
                &mut a,
                &format!(
                    "SELECT percentile_disc({quartile}) WITHIN GROUP (ORDER BY {column}) FROM {table}"
                ),
            );
            let below = share(&format!("{column} <= '{at}'"));
            hold(
                "quartile",
                (number(&mut a, &below), number(&mut b, &below)),
                0.03,
            );
        }
        let common = a
            .rows(&format!(
                "SELECT v, f FROM pg_stats, unnest(most_common_vals::text::text[], most_common_freqs) AS u (v, f) \
                 WHERE schemaname = 'app' AND tablename = '{table}' AND attname = '{column}' AND f > 0.01"
            ))
            .unwrap();
        for row in common.rows {
            let (value, frequency) = (row[0].clone().unwrap(), row[1].clone().unwrap());
            let there = number(&mut b, &share(&format!("{column} = '{value}'")));
            hold(&value, (frequency.parse().unwrap(), there), 0.01);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // That they were made says that keys are unique and refer to what is there; all of them were.
    let constraints = "SELECT count(*) FROM pg_constraint WHERE connamespace = 'app'::regnamespace AND convalidated";
    assert_eq!(number(&mut a, constraints), number(&mut b, constraints));
    for statement in STATEMENTS {
        assert_eq!(
            plan(&mut a, statement),
            plan(&mut b, statement),
            "{statement}"
        );
    }
    // The next row gets a number of its own.
    b.execute("INSERT INTO orders (customer) VALUES (300)")
        .unwrap();
}

#[test]
fn a_share_without_texts_is_made_and_a_workload_finds_its_values() {
    let server = shop();
    let folder = Folder::new("share");
    let dir = folder.0.as_path();
    let mut session = connect(&server.owner().with_dbname("shop")).unwrap();
    let city = "SELECT round(max(n) * 100 / sum(n)) FROM (SELECT count(*) AS n FROM customer GROUP BY city) AS x";
    let usual = number(&mut session, city);
    session
        .execute("SELECT pg_stat_statements_reset()")
        .unwrap();
    for n in 0..20 {
        session
            .execute(&format!("SELECT id FROM customer WHERE mail = 'm{n}'"))
            .unwrap();
        session
            .execute(&format!(
                "SELECT count(*) FROM line WHERE orders = {n} AND n = 2"
            ))
            .unwrap();
    }
    drop(session);
    let statistics = take(&server, dir, &["--share", "0.5", "--anonymise"]);
    let text = fs::read_to_string(dir.join("shop.statistics/statistics.json")).unwrap();
    for hidden in ["example.org", "city 0", "note "] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    let (cluster, differs) = laid(&statistics, dir);
    assert_eq!(differs, Vec::<String>::new());
    let mut made = of(&cluster);
    let lines = number(&mut made, "SELECT count(*) FROM line");
    let original: f64 = statistics
        .described()
        .tables
        .iter()
        .find(|table| table.name == "line")
        .unwrap()
        .rows as f64;
    assert!(
        (lines - original / 2.0).abs() <= 1.0,
        "{lines} of {original}"
    );
    assert_eq!(number(&mut made, "SELECT count(*) FROM product"), 500.0);
    // The most common city has its share, whatever it is called now.
    assert!((number(&mut made, city) - usual).abs() <= 1.0);
    let of_shop = target(&server);
    let words = [
        "workload",
        "from-statements",
        &of_shop,
        "--statistics",
        "shop.statistics",
        "--to",
        "shop.sql",
        "--json",
    ];
    let drawn = json(&words, dir);
    assert_eq!(
        drawn["values"],
        "drawn from data that is made from statistics"
    );
    assert_eq!(drawn["scripts"].as_array().unwrap().len(), 2, "{drawn:#}");
    let script = fs::read_to_string(dir.join("shop.sql")).unwrap();
    let mails: Vec<&str> = script
        .split("SELECT")
        .next()
        .unwrap()
        .split('\'')
        .skip(1)
        .step_by(2)
        .collect();
    let mails = if mails.is_empty() {
        script.split('\'').skip(1).step_by(2).collect()
    } else {
        mails
    };
    assert!(mails.len() > 500, "{}", &script[..2000]);
    for mail in mails.iter().take(200) {
        let there = number(
            &mut made,
            &format!("SELECT count(*) FROM customer WHERE mail = '{mail}'"),
        );
        assert_eq!(there, 1.0, "{mail}");
    }
    // The command that a user would type.
    drop(cluster);
    let words = [
        "run",
        "shop.sql",
        "temp",
        "--from-database",
        "shop.statistics",
        "--clients",
        "1",
        "--time",
        "0.2",
        "--trials",
        "1",
        "--runs",
        "runs",
        "--json",
    ];
    let run = json(&words, dir);
    assert!(
        run.to_string().contains("data made from the statistics of"),
        "{run:#}"
    );
}

#[test]
fn foreign_keys_refer_to_partitioned_tables() {
    let server = filled(&PARTITIONED);
    let folder = Folder::new("partitioned");
    let dir = folder.0.as_path();
    let mut original = connect(&server.owner().with_dbname("shop")).unwrap();
    let statistics = take(&server, dir, &[]);
    let (cluster, differs) = laid(&statistics, dir);
    assert_eq!(differs, Vec::<String>::new());
    let mut made = of(&cluster);
    for question in [
        "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated",
        "SELECT string_agg(t || ' ' || n, ', ' ORDER BY t) FROM (SELECT tableoid::regclass::text AS t, count(*) AS n FROM account GROUP BY 1 \
         UNION ALL SELECT tableoid::regclass::text, count(*) FROM booking GROUP BY 1 UNION ALL SELECT 'note', count(*) FROM note) AS x",
        "SELECT count(*) FROM account a JOIN account p ON p.id = a.parent",
        "SELECT count(*) FROM note JOIN booking ON id = booking AND booking.day = note.day",
        "SELECT count(*) / 100 FROM account JOIN region ON code = region WHERE code = 'de'",
    ] {
        assert_eq!(
            ask(&mut original, question),
            ask(&mut made, question),
            "{question}"
        );
    }
    // Each of three quarters of the accounts' range has the bookings that it had: they are skewed over all partitions.
    for below in [2000, 4000, 6000] {
        let question = format!("SELECT count(*) FROM booking WHERE account <= {below}");
        let (there, here) = (
            number(&mut original, &question),
            number(&mut made, &question),
        );
        assert!(
            (there - here).abs() < 0.03 * 9000.0,
            "{below}: {there} and {here}"
        );
    }
    for statement in [
        "SELECT pg_stat_statements_reset()",
        "SELECT id FROM booking WHERE account = 7 AND day = '2026-01-08'",
    ] {
        original.execute(statement).unwrap();
    }
    let of_shop = target(&server);
    let words = [
        "workload",
        "from-statements",
        &of_shop,
        "--to",
        "mine.sql",
        "--force",
        "--json",
    ];
    // Drawn from the data that is made, and from the tables themselves.
    for (more, session) in [
        (&["--statistics", "shop.statistics"][..], &mut made),
        (&[], &mut original),
    ] {
        let drawn = json(&[&words[..], more].concat(), dir);
        let scripts = drawn["scripts"].as_array().unwrap();
        assert!(
            scripts
                .iter()
                .any(|one| one["first"].as_str().unwrap().contains("FROM booking")),
            "{drawn:#}"
        );
        let script = fs::read_to_string(dir.join("mine.sql")).unwrap();
        let (mut rows, mut found) = (0, 0);
        for row in script.lines().filter(|line| line.contains("'2026-")) {
            let row = row.trim().trim_end_matches('\\').trim();
            let Some((account, day)) = row.split_once(' ') else {
                panic!("{row}")
            };
            let question = format!(
                "SELECT count(*) > 0 FROM booking WHERE account = {account} AND day = {day}"
            );
            (rows, found) = (
                rows + 1,
                found + usize::from(ask(session, &question) == "t"),
            );
        }
        // All partitions have some.
        let both = script.contains("'2026-01") && script.contains("'2026-02");
        assert!(
            both && rows > 100 && found * 10 > rows * 9,
            "{found} of {rows}"
        );
    }
}
