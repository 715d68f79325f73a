//! Settings whose cost is paid by each statement.

use crate::detect::{Detector, facts, high_if, percent};
use crate::fact_view::{FactView, Row, number, word};
use crate::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, could_not_see, not_applicable, passed,
};

pub const DETECTORS: &[Detector] = &[
    facts("jit-small-queries", jit),
    facts("costly-libraries", libraries),
    facts("restart-pending", pending),
    facts("planner-methods-off", methods_off),
];

fn jit(seen: &FactView) -> Judged {
    if !seen.on("jit")? {
        return passed("jit is off");
    }
    if let Ok(row) = seen.row("jit")
        && row.get("available").and_then(serde_json::Value::as_bool) == Some(false)
    {
        return not_applicable("jit is on, and its library is not installed");
    }
    let above = seen.decimal("jit_above_cost")?;
    if above < 0.0 {
        return passed("jit_above_cost is negative, which is off");
    }
    if above < 20_000.0 {
        return Observation::new(
            high_if(above < 1_000.0),
            Confidence::Medium,
            format!("jit is on with jit_above_cost = {above}: small queries are compiled, tens of milliseconds each."),
        )
        .sql("ALTER SYSTEM RESET jit_above_cost; SELECT pg_reload_conf();   -- 100000")
        .found();
    }
    // Whether it is worth it only the statements tell.
    let row = match seen.row("statements") {
        Ok(row) => row,
        Err(NotJudged::CouldNotSee(why) | NotJudged::NotApplicable(why)) => {
            return could_not_see(format!(
                "jit is on, jit_above_cost = {above}; what it costs is unavailable: {why}"
            ));
        }
    };
    let (Some(compiling), Some(all)) = (number(&row, "jit_ms"), number(&row, "execution_ms"))
    else {
        return could_not_see(
            "pg_stat_statements counts JIT from its version 1.10 (PostgreSQL 15) on",
        );
    };
    let share = compiling / all.max(1.0);
    let saw = format!(
        "compiling took {compiling:.0} of {all:.0} ms of execution ({})",
        percent(share)
    );
    if share < 0.1 || compiling < 1000.0 {
        return passed(saw);
    }
    Observation::new(
        high_if(share > 0.3),
        Confidence::High,
        format!("{saw}, by pg_stat_statements."),
    )
    .sql("ALTER SYSTEM SET jit = off; SELECT pg_reload_conf();   -- or a higher jit_above_cost")
    .found()
}

fn libraries(seen: &FactView) -> Judged {
    let loaded: Vec<String> = [
        "shared_preload_libraries",
        "session_preload_libraries",
        "local_preload_libraries",
    ]
    .iter()
    .filter_map(|name| seen.value(name).ok())
    .flat_map(|list| list.split(','))
    .map(|name| name.trim().to_owned())
    .filter(|name| !name.is_empty())
    .collect();
    // What is hidden may hold anything.
    seen.value("shared_preload_libraries")?;
    let saw = match loaded.as_slice() {
        [] => "no library is preloaded".to_owned(),
        some => format!("preloaded: {}", some.join(", ")),
    };
    let analyzes = seen.on("auto_explain.log_analyze").unwrap_or(false);
    let times = seen.on("auto_explain.log_timing").unwrap_or(true);
    let rate = seen.decimal("auto_explain.sample_rate").unwrap_or(1.0);
    let logs = seen
        .millis("auto_explain.log_min_duration")
        .is_ok_and(|threshold| threshold.is_some());
    if !(loaded.iter().any(|l| l.contains("auto_explain")) && analyzes && logs && rate > 0.2) {
        return passed(saw);
    }
    Observation::new(
        high_if(times),
        Confidence::Medium,
        format!("{saw}; auto_explain.log_analyze is on with log_timing {} and sample_rate {rate}: every statement is instrumented.", if times { "on" } else { "off" }),
    )
    .sql("ALTER SYSTEM SET auto_explain.log_timing = off; ALTER SYSTEM SET auto_explain.sample_rate = 0.02; SELECT pg_reload_conf();")
    .found()
}

fn pending(seen: &FactView) -> Judged {
    let waiting = seen.waiting_for_restart()?;
    if waiting.is_empty() {
        return passed("no setting waits for a restart");
    }
    Observation::new(
        Severity::Low,
        Confidence::High,
        format!(
            "Changed and not in force until a restart: {}.",
            waiting.join(", ")
        ),
    )
    .shell("systemctl restart postgresql   # or as your server is restarted")
    .found()
}

/// How a setting is taken back where it was set.
fn reset(row: &Row, name: &str) -> Option<String> {
    let of = |key: &str| word(row, key);
    Some(match (of("database"), of("role"), of("function")) {
        (_, _, Some(function)) => format!("ALTER FUNCTION {function} RESET {name};"),
        (Some(database), Some(role), _) => {
            format!("ALTER ROLE {role} IN DATABASE {database} RESET {name};")
        }
        (Some(database), None, _) => format!("ALTER DATABASE {database} RESET {name};"),
        (None, Some(role), _) => format!("ALTER ROLE {role} RESET {name};"),
        (None, None, None) => return None,
    })
}

/// Where it was set, in words.
fn set_for(row: &Row) -> String {
    let of = |key: &str| word(row, key);
    match (of("database"), of("role"), of("function")) {
        (_, _, Some(function)) => format!("the function {function}"),
        (Some(database), Some(role), _) => format!("the role {role} in the database {database}"),
        (Some(database), None, _) => format!("the database {database}"),
        (None, role, _) => format!("the role {}", role.unwrap_or("?")),
    }
}

fn methods_off(seen: &FactView) -> Judged {
    let rows = seen.rows("overrides")?;
    let off: Vec<(&Row, &str)> = rows
        .iter()
        .filter_map(|row| {
            let name = word(row, "name").filter(|name| name.starts_with("enable_"))?;
            let off = matches!(word(row, "setting"), Some("off" | "false" | "no" | "0"));
            off.then_some((row, name))
        })
        .collect();
    if off.is_empty() {
        return passed(format!(
            "none of {} settings of databases, roles and functions takes a method from the planner",
            rows.len()
        ));
    }
    let mut named: Vec<String> = off
        .iter()
        .map(|(row, name)| format!("{name} = off for {}", set_for(row)))
        .collect();
    let more = named.len().saturating_sub(6);
    named.truncate(6);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    let mut found = Observation::new(
        Severity::Medium,
        Confidence::High,
        format!(
            "Methods that the planner may not use: {}{more}.",
            named.join("; ")
        ),
    );
    for step in off
        .iter()
        .take(6)
        .filter_map(|(row, name)| reset(row, name))
    {
        found = found.sql(step);
    }
    found.found()
}
