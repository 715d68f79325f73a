//! pgbench's three built-in scripts, by its manual: the tables, the keys' ranges and the order of
//! statements are part of what the workload means.

/// A workload that needs no file.
#[derive(Debug, PartialEq, Eq)]
pub struct Builtin {
    /// The name on the command line.
    pub name: &'static str,
    /// What pgbench calls it in its summary.
    pub title: &'static str,
    /// The script.
    pub text: &'static str,
}

/// The built-in scripts.
pub const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "tpcb-like",
        title: "<builtin: TPC-B (sort of)>",
        text: "\
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "simple-update",
        title: "<builtin: simple update>",
        text: "\
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "select-only",
        title: "<builtin: select only>",
        text: "\
\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
",
    },
];

/// The built-in script that `name` names; any unambiguous prefix does.
pub fn find(name: &str) -> Result<&'static Builtin, String> {
    let found: Vec<&Builtin> = BUILTINS
        .iter()
        .filter(|b| b.name.starts_with(name))
        .collect();
    let known = || {
        BUILTINS
            .iter()
            .map(|b| b.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match found.as_slice() {
        [one] if !name.is_empty() => Ok(one),
        [] => Err(format!(
            "no builtin script found for name \"{name}\" (there are: {})",
            known()
        )),
        _ => Err(format!(
            "ambiguous builtin name \"{name}\" (there are: {})",
            known()
        )),
    }
}
