//! Texts of other programs, damaged at every place: each parser reads or refuses them, and none panics.
//!
//! What is inserted has characters of two to four bytes, one whose lower case is longer than itself, and quotes.

use std::fs;
use std::path::Path;

use pgassay_load::script::Program;
use pgassay_pgwire::Conninfo;
use pgassay_readings::memory;
use pgassay_readings::profile::Profile;
use pgassay_statements::log::prefix::{DEBIAN, OWN, Prefix};
use pgassay_statements::log::{Format, Reader, plan};
use pgassay_statements::sessions::{Sessions, Wanted};
use pgassay_statements::{conditions, template};
use pgassay_text::normalise::normalise;

const INSERTED: [&str; 7] = ["é", "€€€€", "𝄞", "İ", "\u{202e}", "'", "$€$"];

/// The text with something inserted at each place, and cut off at each byte.
fn damaged(text: &str) -> impl Iterator<Item = String> {
    let inserted = text.char_indices().flat_map(move |(at, _)| {
        let (before, behind) = text.split_at(at);
        INSERTED.map(|one| format!("{before}{one}{behind}"))
    });
    let cut = (0..text.len()).map(|end| {
        let bytes = &text.as_bytes()[..end];
        String::from_utf8_lossy(bytes).into_owned()
    });
    inserted.chain(cut)
}

fn seed(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    fs::read_to_string(path.join(name)).unwrap()
}

/// How many records a log has.
fn read_log(format: &Format, log: &str) -> u64 {
    let mut reader = Reader::new(format);
    let mut sessions = Sessions::new(Wanted::default(), 1, 4).one_by_one();
    for line in log.split('\n') {
        reader.line(line.as_bytes(), &mut |record| sessions.record(&record));
    }
    reader.end(&mut |record| sessions.record(&record));
    sessions.end();
    reader.counts.records
}

#[test]
fn damaged_logs_are_read_or_passed_over() {
    let stderr = |prefix: &str| Format::Stderr(Prefix::read(prefix).unwrap());
    let execute = "LOG:  duration: 0.053 ms  execute P_1: SELECT total FROM orders WHERE id = $1";
    let detail = "DETAIL:  parameters: $1 = '4''2', $2 = NULL";
    let at = "2026-11-23 09:22:06.912 UTC [10769]";
    let cloud = "2026-11-23 09:22:06 UTC:10.0.0.1(53211):app@shop:[4711]:";
    let logs = [
        (
            stderr(DEBIAN),
            format!("{at} a@b {execute}\n\tAND b = $2\n{at} a@b {detail}"),
        ),
        (stderr(OWN), format!("{at} {execute}\n{at} {detail}")),
        (
            stderr("%n [%-8c] %a: "),
            format!("1700000000.123 [65.7   ] psql: {execute}"),
        ),
        (
            stderr("%t:%r:%u@%d:[%p]:"),
            format!("{cloud}{execute}\n{cloud}{detail}"),
        ),
        (Format::Csv, first_lines(&seed("log/csv")[1..], 2)),
        (
            Format::Json(None),
            format!(
                "{{\"timestamp\":\"2026-11-23 09:22:06.912 UTC\",\"user\":\"a\",\"session_id\":\"6b.2a\",\
                 \"error_severity\":\"LOG\",\"message\":\"{}\",\"detail\":\"parameters: $1 = '1'\"}}",
                &execute["LOG:  ".len()..]
            ),
        ),
    ];
    for (format, log) in &logs {
        assert!(read_log(format, log) > 0, "{format:?}: {log}");
        for damaged in damaged(log) {
            read_log(format, &damaged);
        }
    }
}

fn first_lines(text: &str, count: usize) -> String {
    text.lines().take(count).collect::<Vec<_>>().join("\n")
}

#[test]
fn damaged_statements_and_plans_are_read_or_refused() {
    let statements = [
        "SELECT a, \"B c\"::text FROM \"s\".t WHERE x = $1 AND y IN (1, 2, E'\\'z') -- end",
        "/* page */ UPDATE t SET a = $$ b $$, c = interval '1 day' WHERE d = :e LIMIT 1.5e3",
        "INSERT INTO t (a, b) VALUES ($1, 'x'), ($tag$y$tag$, U&'\\00e9') ON CONFLICT DO NOTHING",
    ];
    let conditions_of = [
        "((t.\"a\" = $1) AND ((t.b)::text ~~ ANY ($2::text[])))",
        "(lower((o.mail)::text) = $1)",
    ];
    for statement in statements {
        for damaged in damaged(statement) {
            let made = normalise(&damaged);
            for span in made.values.iter().chain(&made.comments) {
                assert!(damaged.get(span.clone()).is_some(), "{damaged}");
            }
            let _ = template::Template::of_literals(&damaged);
            let _ = template::Template::of_parameters(&damaged, 4);
            template::cast_typed(&damaged);
            for condition in conditions_of {
                let plan =
                    serde_json::json!({"Node Type": "Seq Scan", "Alias": "t", "Filter": condition});
                conditions::roles(&damaged, &plan);
            }
        }
    }
    for condition in conditions_of {
        for damaged in damaged(condition) {
            let plan =
                serde_json::json!({"Node Type": "Seq Scan", "Alias": "t", "Filter": damaged});
            conditions::roles(statements[0], &plan);
        }
    }
    let logged = "Query Text: SELECT 1\nIndex Scan using \"a b\" on public.t x  \
        (cost=0.29..8.30 rows=1 width=4) (actual time=0.1..0.2 rows=1 loops=1)\n  Filter: (a = 1)";
    damaged(logged).for_each(|damaged| drop(plan::plan(&damaged)));
}

#[test]
fn damaged_scripts_profiles_and_targets_are_read_or_refused() {
    for name in ["functions", "gset", "branches", "shell", "variables"] {
        for damaged in damaged(&seed(&format!("script/{name}"))) {
            let _ = Program::new().add("damaged", &damaged, 1);
        }
    }
    for name in ["bare", "children", "folded", "odd", "report", "script"] {
        for damaged in damaged(&seed(&format!("perf_text/{name}"))) {
            let _ = Profile::parse(&damaged);
        }
    }
    let sample = "7 7 1.5: cpu/mem-loads/: 7fad7c47425d |OP LOAD|LVL L1 hit|SNP None N/A 5 7 166d00 f+0x40 (o)";
    for damaged in damaged(sample) {
        let mut reader = memory::Reader::default();
        let _ = (reader.line(&damaged), reader.end());
    }
    for target in [
        "postgres://u:p%40@h:5432,[::1]/d?sslmode=require&options=-c%20a%3Db",
        "host=h user='a b' password=\\'x dbname=d",
    ] {
        damaged(target).for_each(|damaged| drop(Conninfo::parse(&damaged)));
    }
    for (name, text) in [
        (
            "a.c",
            "#if defined(__x86_64__)\n#include <immintrin.h>\nasm(\"pause\"); /* x */\n#endif\n",
        ),
        (
            "Makefile",
            "CFLAGS += -msse4.2 # x86\nifeq ($(ARCH),x86_64)\nX=-march=native\nendif\n",
        ),
    ] {
        damaged(text)
            .for_each(|damaged| drop(pgassay_port::project::read(name, damaged.as_bytes())));
    }
}
