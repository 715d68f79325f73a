//! A preloaded library times every row of every statement.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
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
