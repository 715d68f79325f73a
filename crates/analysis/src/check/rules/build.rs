//! How the server and its libraries were compiled, against the CPU that they run on.

use pgassay_inspect::model::Hint;

use crate::check::rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Sure, could_not_see, not_applicable,
    passed,
};
use crate::check::seen::Seen;

const GRAVITON_STUDY: &str = "A. Korotkov, \"The dramatic effect of LSE instructions for PostgreSQL on Graviton2 instances\", 2021";
const GCC_MANUAL: &str =
    "GCC manual, AArch64 options: -moutline-atomics (on by default from GCC 10.1)";

/// LSE in the CPU, exclusive loops in the server.
pub static LSE_SERVER: Rule = Rule {
    id: "lse-server",
    title: "The server uses the LSE atomics that its CPU has",
    family: Family::Build,
    needs: &[Need::Binary, Need::Host],
    why: "Each spinlock, LWLock and buffer pin is an atomic instruction. Built for ARMv8.0 without outline atomics they are loops of load-exclusive and store-exclusive, which fail and repeat the more the more cores want the same word.",
    effect: "Published for 64 cores of Graviton2: a large gain by LSE, read-only and read-write, growing with the number of clients. On Apple M1 none, on Kunpeng 920 a small loss. With few cores little either way.",
    remedy: "Take a build with outline atomics (Debian's and Ubuntu's packages; GCC 10.1 and later by default), or build with -march=armv8.2-a.",
    sources: &[GRAVITON_STUDY, GCC_MANUAL],
    judge: lse_server,
};

/// Whether the question of LSE arises: an Arm machine whose CPU has it.
fn cpu_has_lse(seen: &Seen) -> Result<(), Aside> {
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
fn no_gain_claimed(seen: &Seen) -> bool {
    let model = seen.of_host("the CPU", |h| h.cpu_model.clone());
    model.is_ok_and(|m| m.contains("Kunpeng") || m.contains("Apple"))
}

fn lse_server(seen: &Seen) -> Judged {
    cpu_has_lse(seen)?;
    let atomics = &seen.binary()?.atomics;
    let (lse, loops) = (atomics.inline_lse(), atomics.inline_llsc() / 2);
    let outline = atomics.outline_calls();
    if lse + outline + loops == 0 {
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
        return Finding::new(
            Severity::Medium,
            Sure::Certain,
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
        (true, _) => (Severity::Info, Sure::Possible),
        (false, 16..) => (Severity::High, Sure::Likely),
        (false, 4..) => (Severity::Medium, Sure::Likely),
        (false, _) => (Severity::Low, Sure::Possible),
    };
    Finding::new(
        severity,
        sure,
        format!(
            "The CPU has LSE atomics and the server can't use them: its {loops} atomic operations are loops of exclusive loads and stores, on {cpus} CPUs."
        ),
    )
    .advice("take a package with outline atomics (Debian's, Ubuntu's, PGDG's current ones), or rebuild with GCC 10.1 or later, or with -march=armv8.2-a")
    .shell("pgassay compare THIS-BUILD OTHER-BUILD   # shows what it is worth here")
    .found()
}

/// LSE in the CPU, exclusive loops in a library.
pub static LSE_LIBRARIES: Rule = Rule {
    id: "lse-libraries",
    title: "libc and the loaded extensions use the LSE atomics that the CPU has",
    family: Family::Build,
    needs: &[Need::Process, Need::Host],
    why: "malloc, pthread locks and an extension's own atomics are compiled apart from the server; an old libc or an extension built elsewhere keeps the exclusive loops.",
    effect: "No published figure for PostgreSQL; it uses few of libc's locks. AWS's guide asks for a libc with LSE.",
    remedy: "A distribution whose libc has outline atomics; on Ubuntu 18.04 the package libc6-lse. Rebuild the extension with GCC 10.1 or later.",
    sources: &[
        "AWS, \"C/C++ on Graviton\": Large-System Extensions",
        GCC_MANUAL,
    ],
    judge: lse_libraries,
};

fn lse_libraries(seen: &Seen) -> Judged {
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
    Finding::new(
        if libc { Severity::Medium } else { Severity::Low },
        Sure::Possible,
        format!("Exclusive loops only, although the CPU has LSE: {}.", without.join(", ")),
    )
    .advice("take them from a distribution that builds with outline atomics, or rebuild them with GCC 10.1 or later")
    .found()
}

/// A CPU newer than the one that the build names.
pub static OLDER_CPU: Rule = Rule {
    id: "built-for-older-cpu",
    title: "The build does not name an older CPU than it runs on",
    family: Family::Build,
    needs: &[Need::Binary, Need::Host],
    why: "-mcpu and -march fix the instructions that a compiler may use, and -mtune how it orders them. What came with later processors then stays unused wherever PostgreSQL does not test for it at run time.",
    effect: "No published figure for PostgreSQL beyond atomics, which have a rule of their own. On x86-64 PostgreSQL chooses CRC and popcount instructions at run time; no gain is claimed for -march=x86-64-v3.",
    remedy: "Build for the CPU, and compare: pgassay build --recommend names the flags.",
    sources: &[
        "GCC manual, machine-dependent options",
        "GCC's aarch64-cores.def; Power ISA 2.07, 3.0, 3.1",
    ],
    judge: older_cpu,
};

/// POWER generations by the compiler's name and by /proc/cpuinfo's.
const POWER: &[&str] = &["power7", "power8", "power9", "power10", "power11"];

fn older_cpu(seen: &Seen) -> Judged {
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
                "the build's flags are recorded neither in the executable nor to be asked for",
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
    Finding::new(
        Severity::Info,
        Sure::Possible,
        format!("Built for {cpu}; it runs on {model}, which is newer."),
    )
    .shell("pgassay build --recommend")
    .advice("build a variant for this CPU and compare the two; no gain is claimed beforehand")
    .found()
}

/// CFLAGS by the server's own word.
fn configured_flags(seen: &Seen) -> Vec<String> {
    let flags = seen.built("CFLAGS").unwrap_or_default();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// A table for checksums where the CPU has an instruction.
pub static CRC: Rule = Rule {
    id: "crc32c-by-table",
    title: "Checksums of WAL use the CPU's CRC instruction",
    family: Family::Build,
    needs: &[Need::Binary, Need::Host],
    why: "Every WAL record is checksummed when it is written, by each backend for itself.",
    effect: "A table takes about one cycle a byte, the instruction an eighth of that; it shows where much WAL is written in large records. No end-to-end figure is known.",
    remedy: "On arm64 PostgreSQL 11 or later, built by a compiler that knows the instruction.",
    sources: &[
        "PostgreSQL commit f044d71e33 (arm64, 11)",
        "PostgreSQL sources, src/port/pg_crc32c_*.c",
    ],
    judge: crc,
};

fn crc(seen: &Seen) -> Judged {
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
    Finding::new(
        Severity::Low,
        Sure::Certain,
        "The CPU has a CRC-32C instruction and the executable has none: checksums go by table.",
    )
    .advice("upgrade (arm64: 11 or later), or rebuild with a compiler and assembler that know the instruction")
    .found()
}

/// Assertions in a server.
pub static ASSERTIONS: Rule = Rule {
    id: "assertions",
    title: "The server is built without assertions",
    family: Family::Build,
    needs: &[Need::Sql],
    why: "Assertions check the server's own data structures at every step, and fill freed memory.",
    effect: "PostgreSQL's manual: \"might slow down the server significantly\". A figure of such a server says nothing about PostgreSQL.",
    remedy: "Take a build without --enable-cassert (meson: -Dcassert=false).",
    sources: &["PostgreSQL manual, installation: --enable-cassert"],
    judge: assertions,
};

fn assertions(seen: &Seen) -> Judged {
    if !seen.on("debug_assertions")? {
        return passed("debug_assertions is off");
    }
    Finding::new(
        Severity::High,
        Sure::Certain,
        "debug_assertions is on: the server checks itself at every step.",
    )
    .advice("use a build configured without --enable-cassert (meson: -Dcassert=false)")
    .found()
}

/// A server that was not optimised.
pub static UNOPTIMISED: Rule = Rule {
    id: "unoptimised-server",
    title: "The server is built with optimisation",
    family: Family::Build,
    needs: &[Need::SqlAsMonitor, Need::Binary],
    why: "configure drops its default -O2 as soon as CFLAGS is set: CFLAGS=-march=… alone gives -O0. Every variable then lives in memory.",
    effect: "Two to three times the instructions for the same query; compare a build of yours with pgassay compare --by instructions.",
    remedy: "Rebuild with -O2 among the flags.",
    sources: &[
        "PostgreSQL manual, installation: CFLAGS",
        "PostgreSQL's configure.ac: the defaults hold only where CFLAGS is not set",
    ],
    judge: unoptimised,
};

fn unoptimised(seen: &Seen) -> Judged {
    let told = seen.built("CFLAGS");
    // meson keeps its own -O out of what the server tells; configure records a CFLAGS
    // that was given to it. Only with that is a missing -O what it looks like.
    let configure = seen.built("CONFIGURE").ok().or_else(|| {
        let postgres = seen.binary().ok()?.postgres.as_ref()?;
        postgres.configure.clone()
    });
    let given = configure.is_some_and(|c| c.contains("CFLAGS="));
    let mut recorded: Vec<(&str, String, bool)> = Vec::new();
    if let Ok(flags) = &told {
        recorded.push(("CFLAGS as the server tells them", flags.clone(), given));
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
        return Finding::new(
            Severity::High,
            Sure::Certain,
            format!("The server was compiled with {level}: `{flags}` ({source})."),
        )
        .advice("rebuild with -O2: CFLAGS='-O2 …' for configure, --buildtype=release for meson")
        .shell("pgassay inspect --diff OLD/bin/postgres NEW/bin/postgres")
        .found();
    }
    match told {
        Err(aside) => Err(aside),
        Ok(_) => could_not_see("the build recorded no level of optimisation"),
    }
}

/// Spinlocks by semaphores.
pub static NO_SPINLOCKS: Rule = Rule {
    id: "spinlocks-emulated",
    title: "Spinlocks and atomics are the CPU's",
    family: Family::Build,
    needs: &[Need::SqlAsMonitor],
    why: "--disable-spinlocks makes each spinlock a System V semaphore, and --disable-atomics each atomic a spinlock: every lock becomes a system call.",
    effect: "The manual calls the result very poor; 18 removed both options.",
    remedy: "Rebuild without these options.",
    sources: &[
        "PostgreSQL manual up to 17, installation: --disable-spinlocks",
        "PostgreSQL commits e25626677f, 8138526136 (18)",
    ],
    judge: no_spinlocks,
};

fn no_spinlocks(seen: &Seen) -> Judged {
    if seen.version()? >= 180_000 {
        return not_applicable("from 18 on a server can't be built without them");
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
    Finding::new(
        Severity::High,
        Sure::Certain,
        format!("The server was configured with {}.", off.join(" ")),
    )
    .advice("rebuild without it")
    .found()
}

/// A server whose executable was replaced under it.
pub static REPLACED: Rule = Rule {
    id: "executable-replaced",
    title: "The server runs the executable that is installed",
    family: Family::Build,
    needs: &[Need::Process],
    why: "After an upgrade of the package the running server keeps the old program until it restarts; libraries that it loads later are the new ones.",
    effect: "The figures are of the old build, whatever the package's version says.",
    remedy: "Restart the server.",
    sources: &["proc(5): /proc/pid/exe"],
    judge: replaced,
};

fn replaced(seen: &Seen) -> Judged {
    let path = seen.process("executable")?;
    match path.strip_suffix(" (deleted)") {
        None => passed(path),
        Some(path) => Finding::new(
            Severity::Medium,
            Sure::Certain,
            format!("{path} was replaced while the server ran: it still runs the old one."),
        )
        .shell("systemctl restart postgresql   # or as your server is restarted")
        .found(),
    }
}
