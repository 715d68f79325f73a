//! Flags that go with a workload: taken, refused, and listed by its help.

use std::ffi::OsString;

use clap::{ArgGroup, CommandFactory};
use pgassay::cli::{Args, parse};

fn answer(line: &str) -> String {
    let words = line.split_whitespace().map(OsString::from);
    match parse(words) {
        Ok(_) => String::new(),
        Err(answer) => answer.render().to_string(),
    }
}

#[test]
fn flags_of_another_kind_are_refused_with_whose_they_are() {
    for (line, flag, whose) in [
        (
            "pgassay run scattered-read --classic",
            "--classic",
            "for pgio",
        ),
        ("pgassay run select-only --classic", "--classic", "for pgio"),
        ("pgassay run pgio --warmup 1", "--warmup", "over the wire"),
        ("pgassay run pgio -s 3", "--scale", "over the wire"),
        ("pgassay run pgio --rate 9", "--rate", "over the wire"),
        (
            "pgassay run scattered-read --clients 2",
            "--clients",
            "one query at a time",
        ),
        ("pgassay run mine.sql --sql x", "--sql", "query-loop"),
        (
            "pgassay run order-entry --scale 3",
            "--scale",
            "--warehouses",
        ),
        (
            "pgassay compare a b -w tpcb-like --warehouses 3",
            "--warehouses",
            "for order-entry",
        ),
        (
            "pgassay run lwlock --pattern hot",
            "--pattern",
            "buffer-hit",
        ),
        ("pgassay run snapshot --locks 3", "--locks", "for lwlock"),
        (
            "pgassay run tpcb-like --committing 1",
            "--committing",
            "inside the server",
        ),
        (
            "pgassay compare temp temp --size 1GB",
            "--size",
            "pgio and scattered-read",
        ),
        (
            "pgassay compare a b --workload pgio --fillfactor 50",
            "--fillfactor",
            "wire",
        ),
        (
            "pgassay compare a b -w lwlock:shared --threads 2",
            "--threads",
            "wire",
        ),
    ] {
        let text = answer(line);
        assert!(
            text.contains(&format!("{flag} does not apply")),
            "{line}: {text}"
        );
        assert!(text.contains(whose), "{line}: {text}");
    }
}

/// They were taken and not heard: the recorded plan was measured, and nothing said so.
#[test]
fn flags_that_a_recorded_plan_overrules_are_refused() {
    for (line, flag, by) in [
        (
            "pgassay run --resume last --warmup 1",
            "--warmup",
            "--resume",
        ),
        ("pgassay run --repeat last --rate 5", "--rate", "--repeat"),
        (
            "pgassay run --repeat last --set jit=off",
            "--set",
            "--repeat",
        ),
        ("pgassay run --resume last --size 1GB", "--size", "--resume"),
        (
            "pgassay assay --resume last --threads 2",
            "--threads",
            "--resume",
        ),
        (
            "pgassay compare --resume last --pairs 9",
            "--pairs",
            "--resume",
        ),
        (
            "pgassay compare --resume last --delta 2%",
            "--delta",
            "--resume",
        ),
        (
            "pgassay compare --recorded a b --clients 2",
            "--clients",
            "--recorded",
        ),
        (
            "pgassay compare --recorded a b -w pgio",
            "--workload",
            "--recorded",
        ),
        ("pgassay compare --pool a b --delta 2%", "--delta", "--pool"),
        (
            "pgassay compare --pool a b --minutes 3",
            "--minutes",
            "--pool",
        ),
    ] {
        let text = answer(line);
        assert!(
            text.contains(&format!("{flag} does not apply to {by}")),
            "{line}: {text}"
        );
    }
}

#[test]
fn a_kinds_own_flags_are_taken() {
    for line in [
        "pgassay run pgio --size 1GB --tables 2 --classic --until-stable -c 1,2 -T 1",
        "pgassay run scattered-read --size 1GB --only bitmap --until-stable",
        "pgassay run lwlock --hold-ns 5 --locks 3 --exclusive-percent 10 --committing 2",
        "pgassay run spinlock --hold-ns 5 --idle-sessions 0,9",
        "pgassay run buffer-hit --pattern hot --blocks 3 --read-page",
        "pgassay run query-loop --sql x --param int:1:2 --instructions",
        "pgassay run tpcb-like -s 3 -j 2 --rate 5 --fillfactor 50 --pin -T 1",
        "pgassay run --resume last --pgio-output",
        "pgassay run --repeat last --allow-shell --observe none --json -q",
        "pgassay compare --resume last --minutes 2 --load",
        "pgassay compare --recorded a b --metric p99 --delta 2% --format csv",
        "pgassay compare --pool a b c --html x.html",
        "pgassay compare a b --workload pgio --tables 3 -c 4 --slice 1",
        "pgassay compare a b --workload scattered-read:sequential --size 1GB",
    ] {
        assert_eq!(answer(line), "", "{line}");
    }
}

#[test]
fn the_help_of_a_kind_shows_its_flags_alone() {
    let pgio = answer("pgassay run pgio --help");
    assert!(
        pgio.contains("--classic") && pgio.contains("--clients"),
        "{pgio}"
    );
    for other in [
        "--rate",
        "--fillfactor",
        "--hold-ns",
        "--drop-caches",
        "--warmup",
    ] {
        assert!(!pgio.contains(other), "{other}: {pgio}");
    }
    let compare = answer("pgassay compare --workload scattered-read --help");
    assert!(
        compare.contains("--size") && !compare.contains("--tables"),
        "{compare}"
    );
    let all = answer("pgassay run --help");
    assert!(all.contains("--classic") && all.contains("--rate"), "{all}");
}

/// Each group is there, and each flag under a heading of a kind is in one.
#[test]
fn every_group_has_flags() {
    let mut program = Args::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let by_kind = |group: &&ArgGroup| {
        let id = group.get_id().as_str();
        id.starts_with("of-") || ["TablesArgs", "ObserveArgs"].contains(&id)
    };
    let groups: Vec<&ArgGroup> = run.get_groups().filter(by_kind).collect();
    assert_eq!(groups.len(), 18);
    for group in groups {
        assert!(group.get_args().count() > 0, "{group:?}");
        assert!(group.clone().is_multiple(), "{group:?}");
    }
}
