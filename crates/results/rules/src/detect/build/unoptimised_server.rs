//! Server built without optimisation.

use crate::detect::common::cpu_samples::{inlined, is_inline, of_samples};
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let reported = seen.built("CFLAGS");
    // meson keeps its own -O out of what the server reports; configure records a CFLAGS
    // that was given to it. Only with that is a missing -O what it looks like.
    let configure = seen.built("CONFIGURE").ok().or_else(|| {
        let postgres = seen.binary().ok()?.postgres.as_ref()?;
        postgres.configure.clone()
    });
    let given = configure.is_some_and(|c| c.contains("CFLAGS="));
    let mut recorded: Vec<(&str, String, bool)> = Vec::new();
    if let Ok(flags) = &reported {
        recorded.push(("CFLAGS as the server reports them", flags.clone(), given));
    }
    if let Ok(binary) = seen.binary() {
        for flags in &binary.build.flags {
            let by_compiler = !flags.source.starts_with("pg_config");
            recorded.push((&flags.source, flags.flags.clone(), by_compiler || given));
        }
    }
    let level = |flags: &str| {
        // The last one counts.
        flags
            .split_whitespace()
            .rfind(|f| f.starts_with("-O"))
            .map(str::to_owned)
    };
    for (source, flags, whole) in &recorded {
        let level = match (level(flags), whole) {
            (Some(level), _) => level,
            (None, true) => "no -O at all".to_owned(),
            (None, false) => continue,
        };
        if !matches!(level.as_str(), "no -O at all" | "-O0" | "-Og") {
            return passed(format!("{level} ({source})"));
        }
        return Observation::new(
            Severity::High,
            Confidence::High,
            format!("The server was compiled with {level}: `{flags}` ({source})."),
        )
        .advice("rebuild with -O2: CFLAGS='-O2 …' for configure, --buildtype=release for meson")
        .shell("pgassay inspect --diff OLD/bin/postgres NEW/bin/postgres")
        .found();
    }
    match reported {
        Err(aside) => Err(aside),
        Ok(_) => could_not_see("the build recorded no level of optimisation"),
    }
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let flags = run.arm.binary.as_ref().ok()?.build.flags.iter();
    let unoptimised = flags.filter(|f| {
        // The last -O decides.
        let words = f.flags.split_ascii_whitespace();
        words.rev().find(|w| w.starts_with("-O")) == Some("-O0")
    });
    let seen: Vec<String> = unoptimised
        .take(2)
        .map(|f| format!("-O0 in the flags recorded in {}", f.source))
        .collect();
    (!seen.is_empty()).then(|| {
        let saw = "The server was built without optimisation.";
        Observation::measured(Basis::State, None, saw).all_seen(seen)
    })
}

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let called = profile.functions.iter();
    let called: Vec<_> = called.filter(|f| is_inline(&f.symbol)).collect();
    let share = inlined(profile);
    profile.shows(share, 0.01).then(|| {
        let saw = format!(
            "The server was compiled without inlining functions, as -O0 does: {} are in functions that an \
             optimising compiler leaves no trace of.",
            of_samples(share)
        );
        let words = called.iter().take(3);
        let words = words.map(|f| format!("{} in {}", tenths(f.own_share), f.symbol));
        Observation::of_samples(share, saw)
            .of_functions(called.iter().map(|f| f.symbol.as_str()))
            .all_seen(words)
            .seen("these are the operations of LWLocks and buffer headers")
            .confidence(Confidence::Medium)
    })
}
