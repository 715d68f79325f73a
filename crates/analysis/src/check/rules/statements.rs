//! Settings whose cost is paid by each statement.

use super::percent;
use crate::check::rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Sure, could_not_see, not_applicable,
    passed,
};
use crate::check::seen::{Seen, number};

/// Compiling small queries.
pub static JIT: Rule = Rule {
    id: "jit-small-queries",
    title: "JIT compiles large queries only",
    family: Family::Statements,
    needs: &[Need::Sql],
    why: "Compiling an expression takes LLVM tens of milliseconds for each statement and worker, and nothing is kept. It pays where millions of rows go through it; the planner's cost decides, and that is wrong where estimates are (partitions, stale statistics).",
    effect: "10 to 500 ms for each compiled statement; a query of a millisecond becomes fifty times slower.",
    remedy: "Higher jit_above_cost, or jit = off for transactional loads.",
    sources: &["PostgreSQL manual, \"Just-in-Time Compilation\": When to JIT"],
    judge: jit,
};

fn jit(seen: &Seen) -> Judged {
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
        return Finding::new(
            if above < 1_000.0 { Severity::High } else { Severity::Medium },
            Sure::Likely,
            format!("jit is on with jit_above_cost = {above}: small queries are compiled, tens of milliseconds each."),
        )
        .sql("ALTER SYSTEM RESET jit_above_cost; SELECT pg_reload_conf();   -- 100000")
        .found();
    }
    // Whether it is worth it only the statements tell.
    let row = match seen.row("statements") {
        Ok(row) => row,
        Err(Aside::CouldNotSee(why) | Aside::NotApplicable(why)) => {
            return could_not_see(format!(
                "jit is on, jit_above_cost = {above}; what it costs can't be seen: {why}"
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
    Finding::new(
        if share > 0.3 {
            Severity::High
        } else {
            Severity::Medium
        },
        Sure::Certain,
        format!("{saw}, by pg_stat_statements."),
    )
    .sql("ALTER SYSTEM SET jit = off; SELECT pg_reload_conf();   -- or a higher jit_above_cost")
    .found()
}

/// Logging of every statement.
pub static LOGGING: Rule = Rule {
    id: "statement-logging",
    title: "Not every statement is logged",
    family: Family::Statements,
    needs: &[Need::Sql],
    why: "Each line is formatted by the backend and written by one collector through a pipe; when that is full the backends wait.",
    effect: "Some microseconds a statement, and the collector's speed as the limit: in the order of 100,000 lines a second.",
    remedy: "log_min_duration_statement with a threshold, or log_min_duration_sample with a rate.",
    sources: &["PostgreSQL manual, \"Error Reporting and Logging\""],
    judge: logging,
};

fn logging(seen: &Seen) -> Judged {
    let mut all = Vec::new();
    match seen.value("log_statement")? {
        "all" => all.push("log_statement = all"),
        "mod" => all.push("log_statement = mod"),
        _ => {}
    }
    // From debug2 on there are lines for each statement and transaction.
    let debug = match seen.value("log_min_messages") {
        Ok("debug2" | "debug") => Some("log_min_messages = debug2"),
        Ok("debug3") => Some("log_min_messages = debug3"),
        Ok("debug4") => Some("log_min_messages = debug4"),
        Ok("debug5") => Some("log_min_messages = debug5"),
        _ => None,
    };
    all.extend(debug);
    if seen.millis("log_min_duration_statement")? == Some(0) {
        all.push("log_min_duration_statement = 0");
    }
    for name in [
        "log_duration",
        "log_statement_stats",
        "log_parser_stats",
        "log_planner_stats",
        "log_executor_stats",
    ] {
        if seen.on(name).unwrap_or(false) {
            all.push(name);
        }
    }
    if all.is_empty() {
        return passed("statements are not logged by default");
    }
    if debug.is_some() {
        return Finding::new(
            Severity::High,
            Sure::Certain,
            format!("Logged with every statement: {}.", all.join(", ")),
        )
        .sql(seen.reset("log_min_messages"))
        .found();
    }
    let only_changes = all == ["log_statement = mod"];
    Finding::new(
        if only_changes { Severity::Low } else { Severity::Medium },
        Sure::Certain,
        format!("Logged for every statement: {}.", all.join(", ")),
    )
    .sql("ALTER SYSTEM SET log_statement = 'ddl'; ALTER SYSTEM SET log_duration = off; ALTER SYSTEM SET log_min_duration_statement = '250ms'; SELECT pg_reload_conf();")
    .found()
}

/// Libraries that look at every statement.
pub static LIBRARIES: Rule = Rule {
    id: "costly-libraries",
    title: "No loaded library times every row of every statement",
    family: Family::Statements,
    needs: &[Need::SqlAsMonitor],
    why: "auto_explain with log_analyze instruments every statement, not only those that it logs: two readings of the clock for each row of each node.",
    effect: "The manual: an extremely negative impact on performance is possible; log_timing = off takes most of it away.",
    remedy: "auto_explain.log_timing = off, or a sample_rate of some percent.",
    sources: &[
        "PostgreSQL manual, auto_explain: auto_explain.log_analyze, log_timing, sample_rate",
    ],
    judge: libraries,
};

fn libraries(seen: &Seen) -> Judged {
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
    Finding::new(
        if times { Severity::High } else { Severity::Medium },
        Sure::Likely,
        format!("{saw}; auto_explain.log_analyze is on with log_timing {} and sample_rate {rate}: every statement is instrumented.", if times { "on" } else { "off" }),
    )
    .sql("ALTER SYSTEM SET auto_explain.log_timing = off; ALTER SYSTEM SET auto_explain.sample_rate = 0.02; SELECT pg_reload_conf();")
    .found()
}

/// Settings for developers.
pub static DEVELOPER: Rule = Rule {
    id: "developer-settings",
    title: "Developers' settings are off",
    family: Family::Statements,
    needs: &[Need::Sql],
    why: "They break caches, planning or I/O on purpose, to find faults.",
    effect: "From a few percent to a hundredfold: debug_discard_caches rebuilds the catalog caches all the time.",
    remedy: "Reset them.",
    sources: &["PostgreSQL manual, \"Developer Options\""],
    judge: developer,
};

fn developer(seen: &Seen) -> Judged {
    // Without any setting there is no answer.
    seen.value("max_connections")?;
    let harmless: &[(&str, &[&str])] = &[
        ("debug_discard_caches", &["0"]),
        ("debug_invalidate_system_caches_always", &["0"]),
        ("debug_parallel_query", &["off"]),
        ("force_parallel_mode", &["off"]),
        ("ignore_system_indexes", &["off"]),
        ("jit_debugging_support", &["off"]),
        ("jit_profiling_support", &["off"]),
        ("trace_sort", &["off"]),
        ("zero_damaged_pages", &["off"]),
        ("enable_indexscan", &["on"]),
        ("enable_seqscan", &["on"]),
        ("enable_hashjoin", &["on"]),
        ("enable_nestloop", &["on"]),
        ("enable_bitmapscan", &["on"]),
        ("enable_sort", &["on"]),
    ];
    let set: Vec<String> = harmless
        .iter()
        .filter_map(|(name, fine)| {
            let value = seen.value(name).ok()?;
            (!fine.contains(&value)).then(|| format!("{name} = {value}"))
        })
        .collect();
    if set.is_empty() {
        return passed("all at their defaults");
    }
    let grave = set
        .iter()
        .any(|s| s.starts_with("debug_") || s.starts_with("ignore_") || s.starts_with("force_"));
    let mut finding = Finding::new(
        if grave {
            Severity::High
        } else {
            Severity::Medium
        },
        Sure::Certain,
        format!("Set for all sessions: {}.", set.join(", ")),
    );
    for setting in &set {
        let name = setting.split(' ').next().unwrap_or_default();
        finding = finding.sql(format!(
            "ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"
        ));
    }
    finding.found()
}

/// Nobody cleans up.
pub static AUTOVACUUM: Rule = Rule {
    id: "autovacuum-off",
    title: "Autovacuum is on",
    family: Family::Statements,
    needs: &[Need::Sql],
    why: "Without it dead rows stay, tables and indexes grow, statistics age and plans with them, index-only scans visit the heap.",
    effect: "Grows with each update; in a measurement it is missing from the cost.",
    remedy: "On; rather tune it than switch it off.",
    sources: &["PostgreSQL manual, \"Routine Vacuuming\""],
    judge: autovacuum,
};

fn autovacuum(seen: &Seen) -> Judged {
    if seen.on("autovacuum")? && seen.on("track_counts").unwrap_or(true) {
        return passed("autovacuum is on");
    }
    Finding::new(
        Severity::Medium,
        Sure::Certain,
        "autovacuum (or track_counts, which it needs) is off.",
    )
    .sql("ALTER SYSTEM RESET autovacuum; ALTER SYSTEM RESET track_counts; SELECT pg_reload_conf();")
    .found()
}

/// Settings that are not yet what they say.
pub static PENDING: Rule = Rule {
    id: "restart-pending",
    title: "All settings are in force",
    family: Family::Statements,
    needs: &[Need::Sql],
    why: "Some settings take effect at a restart only: the file says one thing and the server does another, and a measurement is taken for what it is not.",
    effect: "None by itself.",
    remedy: "Restart, or take the change back.",
    sources: &["PostgreSQL manual, pg_settings: pending_restart"],
    judge: pending,
};

fn pending(seen: &Seen) -> Judged {
    let waiting = seen.waiting_for_restart()?;
    if waiting.is_empty() {
        return passed("no setting waits for a restart");
    }
    Finding::new(
        Severity::Low,
        Sure::Certain,
        format!(
            "Changed and not in force until a restart: {}.",
            waiting.join(", ")
        ),
    )
    .shell("systemctl restart postgresql   # or as your server is restarted")
    .found()
}

/// Prepared statements that are planned each time.
pub static PLAN_CACHE: Rule = Rule {
    id: "plan-cache-mode",
    title: "Prepared statements keep their plans",
    family: Family::Statements,
    needs: &[Need::Sql],
    why: "plan_cache_mode = force_custom_plan plans a prepared statement anew at each execution, which is what preparing it was to save. It mends single statements whose generic plan is bad, and is set for a whole role or database by mistake.",
    effect: "In a trial select-only lost a quarter of its throughput, and the server took half as much CPU time again for each transaction.",
    remedy: "auto, and force_custom_plan only around the statements that need it.",
    sources: &["PostgreSQL manual, \"Query Planning\": plan_cache_mode; PREPARE, Notes"],
    judge: plan_cache,
};

fn plan_cache(seen: &Seen) -> Judged {
    let mode = seen.value("plan_cache_mode")?;
    let saw = format!(
        "plan_cache_mode = {mode}{}",
        seen.set_where("plan_cache_mode")
    );
    if mode != "force_custom_plan" {
        return passed(saw);
    }
    Finding::new(
        Severity::Medium,
        Sure::Likely,
        format!("{saw}: prepared statements are planned at each execution."),
    )
    .sql(seen.reset("plan_cache_mode"))
    .found()
}

/// Isolation that nobody asked for.
pub static ISOLATION: Rule = Rule {
    id: "default-isolation",
    title: "Transactions are serializable only where that is wanted",
    family: Family::Statements,
    needs: &[Need::Sql],
    why: "A serializable transaction takes predicate locks on what it reads and looks for dangerous patterns at each write; where it finds one, it fails with SQLSTATE 40001, and its client has to do it again. Read-only statements pay for the locks, too.",
    effect: "Small where transactions rarely meet. In a trial with 4 clients select-only lost a third of its throughput, and of tpcb-like, whose transactions all change the same few rows, 85 to 90 % failed.",
    remedy: "read committed by default, and serializable for the transactions that need it, with a client that tries again; READ ONLY DEFERRABLE for long reports.",
    sources: &["PostgreSQL manual, \"Serializable Isolation Level\""],
    judge: isolation,
};

fn isolation(seen: &Seen) -> Judged {
    let name = "default_transaction_isolation";
    let level = seen.value(name)?;
    let saw = format!("{name} = '{level}'{}", seen.set_where(name));
    let (severity, what) = match level {
        "serializable" => (
            Severity::High,
            "every transaction takes predicate locks, and those that meet fail with SQLSTATE 40001",
        ),
        "repeatable read" => (
            Severity::Low,
            "transactions that change the same row as another fail with SQLSTATE 40001",
        ),
        _ => return passed(saw),
    };
    Finding::new(severity, Sure::Likely, format!("{saw}: {what}."))
        .sql(seen.reset(name))
        .found()
}
