//! Libraries put before the server's own.

use crate::detect::prelude::*;

/// Allocators that are preloaded on purpose.
const ALLOCATORS: &[&str] = &["jemalloc", "tcmalloc", "mimalloc", "hoard", "snmalloc"];

/// Variables by which the C library checks or prints what it does, each at a cost for every call.
const CHECKS: &[&str] = &["LD_AUDIT", "LD_DEBUG", "MALLOC_CHECK_", "MALLOC_PERTURB_"];

/// Variables, and parts of GLIBC_TUNABLES, by which the C library's allocator goes to the kernel more often than it does by itself. A larger
/// pad or threshold does the opposite.
const TUNES: &[(&str, f64)] = &[
    ("MALLOC_MMAP_THRESHOLD_", 131_072.0),
    ("MALLOC_TRIM_THRESHOLD_", 131_072.0),
    ("MALLOC_TOP_PAD_", 131_072.0),
    ("glibc.malloc.mmap_threshold", 131_072.0),
    ("glibc.malloc.trim_threshold", 131_072.0),
    ("glibc.malloc.top_pad", 131_072.0),
];

/// What of these is set to less than the allocator's own value.
fn tuned(variables: &[(&str, &str)]) -> Vec<String> {
    let tunables = variables
        .iter()
        .filter(|(name, _)| *name == "GLIBC_TUNABLES")
        .flat_map(|(_, value)| value.split(':'))
        .filter_map(|one| one.split_once('='));
    let all = variables.iter().copied().chain(tunables);
    let less = all.filter(|(name, value)| {
        let Ok(number) = value.trim().parse::<f64>() else {
            return false;
        };
        let mut known = TUNES.iter().filter(|(known, _)| known == name);
        known.any(|(_, usual)| number < *usual)
    });
    less.map(|(name, value)| format!("{name}={value}"))
        .collect()
}

pub fn audit(seen: &FactView) -> Judged {
    let environment = seen.process("environment")?;
    let variables: Vec<(&str, &str)> = environment
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let checks: Vec<String> = variables
        .iter()
        .filter(|(name, value)| {
            CHECKS.contains(name) || *name == "GLIBC_TUNABLES" && value.contains("malloc.check")
        })
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let tuned = tuned(&variables);
    if !tuned.is_empty() {
        return Observation::new(
            Severity::High,
            Confidence::High,
            format!(
                "The server's processes are started with {}: the C library takes memory from the kernel, and gives it back, at nearly each larger \
                 allocation, and each page of it is cleared anew.",
                tuned.join(", ")
            ),
        )
        .advice(
            "take these variables out of the environment that the server is started in (its unit, or the file `environment` of Debian's clusters), and \
             restart it",
        )
        .found();
    }
    // Where the file is missing nothing is preloaded by it.
    let by_file = seen.text("/etc/ld.so.preload").unwrap_or_default();
    let by_variable = variables.iter().filter(|(name, _)| *name == "LD_PRELOAD");
    let libraries: Vec<&str> = by_variable
        .flat_map(|(_, value)| value.split([':', ' ']))
        .chain(
            by_file
                .lines()
                .filter(|line| !line.starts_with('#'))
                .flat_map(str::split_whitespace),
        )
        .filter(|library| !library.is_empty())
        .collect();
    let foreign: Vec<&str> = libraries
        .iter()
        .copied()
        .filter(|library| !ALLOCATORS.iter().any(|known| library.contains(known)))
        .collect();
    if checks.is_empty() && foreign.is_empty() {
        return passed(match libraries.as_slice() {
            [] => "no library is preloaded into the server, and the C library checks nothing"
                .to_owned(),
            some => format!("preloaded: {}, an allocator", some.join(", ")),
        });
    }
    let mut said = Vec::new();
    if !foreign.is_empty() {
        said.push(format!(
            "libraries are put before the server's own: {}",
            foreign.join(", ")
        ));
    }
    if !checks.is_empty() {
        said.push(format!(
            "the C library is told to check or print what it does: {}",
            checks.join(", ")
        ));
    }
    let mut found = Observation::new(
        medium_if(!checks.is_empty()),
        if checks.is_empty() {
            Confidence::Low
        } else {
            Confidence::High
        },
        format!("In the server's processes {}.", said.join("; ")),
    );
    if !checks.is_empty() {
        found = found.advice("take these variables out of the environment that the server is started in (its unit, or the \
                              file `environment` of Debian's clusters), and restart it");
    }
    if !foreign.is_empty() {
        found = found.advice(
            "find out what needs them; how much of the CPU time is theirs, CPU samples say (pgassay diagnose, by program and \
             library)",
        );
    }
    found.found()
}
