//! Which statements leave something in the session that runs them.

use pgassay_load::script::Command;
use pgassay_model::workload::WorkloadPlan;

use super::tokens::{Token, statements};
use super::{leading, shown};

/// The first statement of the scripts that leaves something in its session, which a pooler gives to others after it.
/// What it can't tell it takes for one.
pub fn session_state(plan: &WorkloadPlan) -> Option<String> {
    let program = crate::workload::program(plan).ok()?;
    let commands = program.scripts().iter().flat_map(|script| &script.commands);
    let mut sent = commands.filter_map(|command| match command {
        Command::Sql(sql) => Some(sql.text.as_str()),
        _ => None,
    });
    sent.find(|text| {
        statements(text)
            .iter()
            .any(|statement| leaves_state(statement))
    })
    .map(shown)
}

fn leaves_state(statement: &[Token]) -> bool {
    const LEAVING: &[&str] = &[
        "deallocate",
        "discard",
        "do",
        "listen",
        "load",
        "prepare",
        "reset",
        "unlisten",
    ];
    // Session locks, and settings that outlast the transaction.
    const CALLS: &[&str] = &[
        "pg_advisory_lock",
        "pg_advisory_lock_shared",
        "pg_advisory_unlock",
        "pg_advisory_unlock_all",
        "pg_advisory_unlock_shared",
        "pg_try_advisory_lock",
        "pg_try_advisory_lock_shared",
        "set_config",
    ];
    let follows = |words: &[&str]| {
        let next = statement.get(1);
        next.is_some_and(|next| words.iter().any(|word| next.is(word)))
    };
    let has = |words: &[&str]| {
        let mut names = statement.iter().filter_map(Token::name);
        names.any(|name| words.iter().any(|word| name.eq_ignore_ascii_case(word)))
    };
    let calls = statement.contains(&Token::Unknown) || has(CALLS);
    calls
        || match leading(statement) {
            "set" => !follows(&["local", "transaction", "constraints"]),
            "create" => has(&["temp", "temporary", "pg_temp"]),
            "declare" => has(&["hold"]) && !has(&["without"]),
            "prepare" => !follows(&["transaction"]),
            "select" | "with" => has(&["temp", "temporary", "pg_temp"]) && has(&["into"]),
            word => LEAVING.contains(&word),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::workload::ScriptPlan;

    fn plan(script: &str) -> WorkloadPlan {
        WorkloadPlan {
            protocol: "simple".to_owned(),
            scripts: vec![ScriptPlan {
                name: "mine.sql".to_owned(),
                weight: 1,
                text: script.to_owned(),
                ..ScriptPlan::default()
            }],
            ..WorkloadPlan::default()
        }
    }

    #[test]
    fn what_a_session_keeps_is_found() {
        for (script, keeps) in [
            (
                "SELECT abalance FROM pgbench_accounts WHERE aid = 1;",
                false,
            ),
            ("BEGIN; SET LOCAL work_mem = '1MB'; SELECT 1; END;", false),
            ("BEGIN; SET TRANSACTION READ ONLY; SELECT 1; END;", false),
            ("SELECT 'set x = 1', pg_advisory_xact_lock(1);", false),
            ("UPDATE t SET listen = 1;", false),
            ("BEGIN; DECLARE c CURSOR FOR SELECT 1; FETCH c; END;", false),
            ("DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1;", false),
            ("SET work_mem = '1MB'; SELECT 1;", true),
            ("/* a */ set session work_mem = '1MB';", true),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;",
                true,
            ),
            ("RESET ALL;", true),
            ("LISTEN news;", true),
            ("PREPARE p AS SELECT 1;", true),
            ("PREPARE TRANSACTION 'x';", false),
            ("CREATE TEMP TABLE t (i int);", true),
            ("SELECT 1 AS i INTO TEMPORARY t;", true),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1;", true),
            ("SELECT 1; SELECT pg_catalog.pg_try_advisory_lock(1);", true),
            ("SELECT set_config('work_mem', '1MB', false);", true),
            ("DO 'BEGIN SET work_mem = ''1MB''; END';", true),
            ("SELECT U&\"x\";", true),
        ] {
            assert_eq!(session_state(&plan(script)).is_some(), keeps, "{script}");
        }
    }
}
