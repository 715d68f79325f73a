//! How the server and its libraries were compiled, against the CPU that they run on.

use crate::detect::{Detector, facts, medium_if};
use crate::fact_view::FactView;
use crate::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, could_not_see, not_applicable, passed,
};
use pgassay_inspect::model::Hint;

pub const DETECTORS: &[Detector] = &[
    facts("lse-server", lse_server),
    facts("lse-libraries", lse_libraries),
    facts("built-for-older-cpu", older_cpu),
    facts("crc32c-by-table", crc),
    facts("unoptimised-server", unoptimised),
    facts("spinlocks-emulated", no_spinlocks),
    facts("executable-replaced", replaced),
];

/// Whether the question of LSE arises: an Arm machine whose CPU has it.
fn cpu_has_lse(seen: &FactView) -> Result<(), NotJudged> {
    let machine = seen.machine()?;
    if machine != "aarch64" {
        return not_applicable(format!("{machine} has one way to do atomics"));
    }
    let features = seen.of_host("the CPU's features", |h| {
        Some(h.cpu_features.clone()).filter(|f| !f.is_empty())
    })?;
    if features.iter().any(|f| f == "atomics") {
        Ok(())
    } else {
        not_applicable("this CPU has no LSE")
    }
}

/// CPUs for which published measurements show no gain from LSE.
fn no_gain_claimed(seen: &FactView) -> bool {
    let model = seen.of_host("the CPU", |h| h.cpu_model.clone());
    model.is_ok_and(|m| m.contains("Kunpeng") || m.contains("Apple"))
}

fn lse_server(seen: &FactView) -> Judged {
    cpu_has_lse(seen)?;
    let atomics = &seen.binary()?.atomics;
    let (lse, loops) = (atomics.inline_lse(), atomics.inline_llsc() / 2);
    let outline = atomics.outline_calls();
    if [lse, outline, loops] == [0; 3] {
        return could_not_see("no atomic instruction was found in the executable");
    }
    // The process's own word: outline helpers that chose the loops all the same.
    let chose_loops = seen
        .binary()?
        .process
        .as_ref()
        .and_then(|process| process.flag())
        .is_some_and(|flag| flag == 0);
    if outline > 0 && chose_loops {
        return Observation::new(
            Severity::Medium,
            Confidence::High,
            "The CPU has LSE atomics and the server's outline helpers chose the exclusive loops: the flag byte in the process is 0.",
        )
        .advice("find what hides LSE from the process: an emulator, a container's filter, an old libgcc")
        .found();
    }
    if outline > 0 || lse > loops {
        return passed(if outline > 0 {
            "outline helpers choose LSE at run time".to_owned()
        } else {
            format!("{lse} inline LSE instructions")
        });
    }
    let cpus = seen.cpus().unwrap_or(1);
    let (severity, sure) = match (no_gain_claimed(seen), cpus) {
        (true, _) => (Severity::Info, Confidence::Low),
        (false, 16..) => (Severity::High, Confidence::Medium),
        (false, 4..) => (Severity::Medium, Confidence::Medium),
        (false, _) => (Severity::Low, Confidence::Low),
    };
    Observation::new(
        severity,
        sure,
        format!(
            "The CPU has LSE atomics and the server cannot use them: its {loops} atomic operations are loops of exclusive loads and stores, on {cpus} CPUs."
        ),
    )
    .advice("take a package with outline atomics (Debian's, Ubuntu's, PGDG's current ones), or rebuild with GCC 10.1 or later, or with -march=armv8.2-a")
    .shell("pgassay compare THIS-BUILD OTHER-BUILD   # shows what it is worth here")
    .found()
}

fn lse_libraries(seen: &FactView) -> Judged {
    cpu_has_lse(seen)?;
    let libraries = seen.libraries()?;
    let without: Vec<&str> = libraries
        .iter()
        .filter(|l| l.inline_llsc >= 8 && l.outline_calls == 0 && l.inline_lse == 0)
        .map(|l| l.path.as_str())
        .collect();
    if without.is_empty() {
        return passed(format!("{} libraries looked at", libraries.len()));
    }
    let libc = without
        .iter()
        .any(|path| path.contains("libc.so") || path.contains("libc-"));
    Observation::new(
        medium_if(libc),
        Confidence::Low,
        format!("Exclusive loops only, although the CPU has LSE: {}.", without.join(", ")),
    )
    .advice("take them from a distribution that builds with outline atomics, or rebuild them with GCC 10.1 or later")
    .found()
}

/// POWER generations by the compiler's name and by /proc/cpuinfo's.
const POWER: &[&str] = &["power7", "power8", "power9", "power10", "power11"];

fn older_cpu(seen: &FactView) -> Judged {
    let binary = seen.binary()?;
    let configured = configured_flags(seen);
    let flags: Vec<&str> = binary
        .build
        .flags
        .iter()
        .flat_map(|f| f.flags.split_whitespace())
        .chain(configured.iter().map(String::as_str))
        .collect();
    let named = |name: &str| {
        flags
            .iter()
            .rev()
            .find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
            .map(|v| v.split('+').next().unwrap_or(v))
    };
    let Some(cpu) = named("-mcpu")
        .or_else(|| named("-march"))
        .map(str::to_owned)
    else {
        return if flags.is_empty() {
            could_not_see(
                "the build's flags are recorded neither in the executable nor by the server",
            )
        } else {
            passed("the build names no CPU: the compiler's baseline, and tests at run time")
        };
    };
    let model = seen.of_host("the CPU", |h| h.cpu_model.clone())?;
    let lower = model.to_lowercase();
    let older = if let Some(built) = POWER.iter().position(|p| *p == cpu) {
        POWER
            .iter()
            .rposition(|p| lower.contains(p))
            .is_some_and(|runs| runs > built)
    } else {
        let arm =
            |name: &str| pgassay_inspect::cpu::find(name).and_then(|c| Some((c.lse?, c.lse2?)));
        let runs = seen.of_host("the CPU's features", |h| Some(h.cpu_features.clone()))?;
        let has = |feature: &str| runs.iter().any(|f| f == feature);
        arm(&cpu)
            .is_some_and(|(lse, lse2)| (!lse && has("atomics")) || (!lse2 && lse && has("uscat")))
    };
    if !older {
        return passed(format!("built for {cpu}, runs on {model}"));
    }
    Observation::new(
        Severity::Info,
        Confidence::Low,
        format!("Built for {cpu}; it runs on {model}, which is newer."),
    )
    .shell("pgassay build --recommend")
    .advice("build a variant for this CPU and compare the two; no gain is claimed beforehand")
    .found()
}

/// CFLAGS by the server's own word.
fn configured_flags(seen: &FactView) -> Vec<String> {
    let flags = seen.built("CFLAGS").unwrap_or_default();
    flags.split_whitespace().map(str::to_owned).collect()
}

fn crc(seen: &FactView) -> Judged {
    let machine = seen.machine()?.to_owned();
    let feature = match machine.as_str() {
        "x86_64" => "sse4_2",
        "aarch64" => "crc32",
        other => {
            return not_applicable(format!(
                "PostgreSQL has no CRC instruction's code for {other}"
            ));
        }
    };
    let features = seen.of_host("the CPU's features", |h| {
        Some(h.cpu_features.clone()).filter(|f| !f.is_empty())
    })?;
    if !features.iter().any(|f| f == feature) {
        return not_applicable("this CPU has no CRC-32C instruction");
    }
    let count = seen
        .binary()?
        .hints
        .iter()
        .find(|h| h.hint == Hint::Crc32c)
        .map_or(0, |h| h.count);
    if count > 0 {
        return passed(format!("{count} CRC-32C instructions in the executable"));
    }
    Observation::new(
        Severity::Low,
        Confidence::High,
        "The CPU has a CRC-32C instruction and the executable has none: checksums go by table.",
    )
    .advice("upgrade (arm64: 11 or later), or rebuild with a compiler and assembler that know the instruction")
    .found()
}

fn unoptimised(seen: &FactView) -> Judged {
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

fn no_spinlocks(seen: &FactView) -> Judged {
    if seen.version()? >= 180_000 {
        return not_applicable("from 18 on a server cannot be built without them");
    }
    let configured = seen.built("CONFIGURE")?;
    let off: Vec<&str> = [
        "--disable-spinlocks",
        "--disable-atomics",
        "-Dspinlocks=false",
        "-Datomics=false",
    ]
    .into_iter()
    .filter(|o| configured.contains(o))
    .collect();
    if off.is_empty() {
        return passed("configured with both");
    }
    Observation::new(
        Severity::High,
        Confidence::High,
        format!("The server was configured with {}.", off.join(" ")),
    )
    .advice("rebuild without it")
    .found()
}

fn replaced(seen: &FactView) -> Judged {
    let path = seen.process("executable")?;
    match path.strip_suffix(" (deleted)") {
        None => passed(path),
        Some(path) => Observation::new(
            Severity::Medium,
            Confidence::High,
            format!("{path} was replaced while the server ran: it still runs the old one."),
        )
        .shell("systemctl restart postgresql   # or as your server is restarted")
        .found(),
    }
}
