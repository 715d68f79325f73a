//! JIT compilation of small queries.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::prelude::*;
use pgassay_evidence::profile::{Class, Work};

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    // The functions of libLLVM are many and each is short, and much of what they cost is memory.
    let within = profile.within(Work::Compiling).unwrap_or(0.0);
    let share = profile.class(Class::Jit).max(within);
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!("Compiling expressions takes {}.", of_samples(share));
        Observation::of_samples(share, saw).seen(format!(
            "{} of the samples in the compiler of expressions",
            tenths(share)
        ))
    })
}

pub fn audit(seen: &FactView) -> Judged {
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
