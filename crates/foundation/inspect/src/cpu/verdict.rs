//! What a CPU makes of a binary: whether it runs, and by which path.

use serde::{Deserialize, Serialize};

use super::Features;
use crate::loading::Kernel;
use crate::model::{Binary, Class, Machine};

/// Which atomics run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// LSE instructions, inline.
    InlineLse,
    /// LSE instructions behind a run-time test: an outline helper's, or the program's own.
    OutlineLse,
    /// Exclusive loops, inline.
    InlineLlsc,
    /// Exclusive loops behind such a test.
    OutlineLlsc,
    /// Some of these, some of those.
    Mixed,
    /// An instruction that this CPU lacks, without a check: SIGILL.
    Illegal,
    /// The code is not known well enough, or the CPU.
    Unknown,
    /// The machine has one way and this is it.
    OnlyOne,
    /// The file holds no atomics.
    Nothing,
    /// The file is for another machine.
    WrongMachine,
}

/// How the path taken is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// From the file and what is known of the CPU.
    Inferred,
    /// The flag byte was read from the running process.
    Observed,
}

/// What a CPU makes of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The CPU.
    pub cpu: String,
    /// What runs.
    pub path: Path,
    /// Inferred, or seen in a process.
    pub evidence: Evidence,
    /// What runs, in a sentence.
    pub runs: String,
    /// What it costs.
    pub cost: String,
    /// What to do; empty where nothing is to be gained.
    pub advice: Vec<String>,
    /// Where the statements come from.
    pub sources: Vec<String>,
    /// Whether the file loads there, by the kernel's page size.
    #[serde(default)]
    pub loads: Vec<Kernel>,
}

const GRAVITON_STUDY: &str = "A. Korotkov, \"The dramatic effect of LSE instructions for PostgreSQL on Graviton2 instances\", 2021: a large gain of LSE at 64 cores on Graviton2; none on Apple M1, a small loss on Kunpeng 920";
const GCC_MANUAL: &str = "GCC manual, AArch64 options: -moutline-atomics";
const ARM_ARM: &str = "Arm Architecture Reference Manual, FEAT_LSE";

/// Whether a CPU executes all that a binary has it execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// As far as its code is known.
    Runs,
    /// The file is for another machine.
    WrongMachine(String),
    /// Instructions that the CPU lacks run without a check: it would end with SIGILL. Why.
    Illegal(String),
    /// Why it is not known.
    Unknown(String),
}

/// Whether `cpu` has all instructions that `binary` executes without a check: the one answer behind `--cpu` and
/// `--require runs-on-CPU`. Outline helpers check, and so do such tests of the program's own as are recognised (Go's).
pub fn fit(binary: &Binary, cpu: &Features) -> Fit {
    if binary.machine != cpu.machine {
        return Fit::WrongMachine(format!("the file is for {}", binary.machine.name()));
    }
    let atomics = &binary.atomics;
    let lse = atomics.inline_lse();
    let lse128 = atomics.count(|class| class == Class::Lse128);
    let counts = |kinds: &[Class]| atomics.count(|class| kinds.contains(&class));
    let lacks = |n: u64, what: &str| {
        let run = if n == 1 { " runs" } else { "s run" };
        Fit::Illegal(format!("{n} {what} instruction{run} without a check"))
    };
    // What the table's architectures lack of the atomics that are told apart.
    let in_memory = counts(&[
        Class::AmoSwap,
        Class::AmoAdd,
        Class::AmoLogic,
        Class::AmoOther,
    ]);
    let zacas = counts(&[Class::AmoCas]);
    match (cpu.lse, cpu.id) {
        (Some(false), _) if lse > 0 => return lacks(lse, "inline LSE"),
        (None, _) if lse > 0 => return Fit::Unknown("not known whether this CPU has LSE".into()),
        _ if lse128 > 0 => {
            return Fit::Unknown(format!(
                "{lse128} LSE128 instructions (Armv9.4): not known whether this CPU has them"
            ));
        }
        (_, Some("power8")) if in_memory > 0 => return lacks(in_memory, "POWER9 memory-atomic"),
        (_, Some("rv64gc")) if zacas > 0 => return lacks(zacas, "Zacas"),
        _ => {}
    }
    match binary.unknown_atomics() {
        Some(why) => Fit::Unknown(why),
        None => Fit::Runs,
    }
}

/// What runs when `binary` runs on `cpu`. `flag_byte` is what the process's flag byte holds, where it
/// was read.
pub fn verdict(binary: &Binary, cpu: &Features, flag_byte: Option<u8>) -> Verdict {
    let mut verdict = Verdict {
        cpu: cpu.name.clone(),
        path: Path::OnlyOne,
        evidence: Evidence::Inferred,
        runs: String::new(),
        cost: String::new(),
        advice: Vec::new(),
        sources: vec![cpu.source.clone()],
        loads: Vec::new(),
    };
    let atomics = &binary.atomics;
    let flag_byte = flag_byte.filter(|_| atomics.outline_calls() > 0);
    let mut cpu = cpu.clone();
    if let Some(byte) = flag_byte {
        // An emulated CPU is known by what the program saw.
        cpu.lse = cpu.lse.or(Some(byte != 0));
    }
    let fit = fit(binary, &cpu);
    if !matches!(fit, Fit::WrongMachine(_)) {
        verdict.loads.clone_from(&binary.loading.kernels);
    }
    match fit {
        Fit::Runs => {}
        Fit::WrongMachine(why) => {
            verdict.path = Path::WrongMachine;
            verdict.runs = format!("does not run: {why}");
            return verdict;
        }
        Fit::Illegal(why) => {
            verdict.path = Path::Illegal;
            let on = cpu.id.unwrap_or("this CPU");
            verdict.runs = format!("SIGILL on {on}: {why}{}", other_paths(binary));
            verdict.cost =
                "does not run, unless the program has a check of its own that is not recognised"
                    .into();
            if binary.machine == Machine::Aarch64 {
                verdict.sources.push(ARM_ARM.into());
                verdict.advice.push("take a build with outline atomics in all of its parts (-moutline-atomics, GCC 10.1's default), or for -march=armv8-a".into());
            }
            return verdict;
        }
        Fit::Unknown(why) => {
            verdict.path = Path::Unknown;
            verdict.runs = format!("not known: {why}{}", other_paths(binary));
            return verdict;
        }
    }
    if atomics.total_with_calls() == 0 {
        verdict.path = Path::Nothing;
        verdict.runs = match atomics.outside_count {
            0 => "no atomic instruction".into(),
            n => format!(
                "no atomic instruction in known functions; {n} byte patterns between them are taken for data"
            ),
        };
        return verdict;
    }
    match binary.machine {
        Machine::Aarch64 => arm_verdict(binary, &cpu, flag_byte, &mut verdict),
        Machine::X86_64 => {
            verdict.runs = format!(
                "{} locked instructions, the same on every x86-64 CPU",
                atomics.total()
            );
            verdict.cost = "each is a full barrier; none is chosen at run time".into();
        }
        Machine::Ppc64le => {
            verdict.runs = format!(
                "{} loops of larx and stcx., on every POWER CPU",
                atomics.inline_llsc() / 2
            );
            verdict.cost = "loop and barriers around it; POWER9's memory operations are not what compilers emit for C atomics".into();
        }
        Machine::Riscv64 => {
            verdict.runs = format!(
                "{} instructions in memory and {} of lr/sc",
                atomics.total().saturating_sub(atomics.inline_llsc()),
                atomics.inline_llsc()
            );
            verdict.cost = "compare and swap is an lr/sc loop unless compiled for Zacas".into();
        }
        _ => {
            verdict.runs = format!("{} interlocked instructions", atomics.total());
            verdict.cost = "each is serialising as the architecture says".into();
        }
    }
    verdict
}

/// What there is besides inline LSE, as a part of a sentence.
fn other_paths(binary: &Binary) -> String {
    let atomics = &binary.atomics;
    let counts = [
        (
            atomics.outline_calls(),
            "call site uses outline helpers",
            "call sites use outline helpers",
        ),
        (
            atomics.checked_lse,
            "LSE instruction is behind a check of the program's own",
            "LSE instructions are behind a check of the program's own",
        ),
        (
            atomics.inline_llsc() / 2,
            "exclusive loop is outside helpers",
            "exclusive loops are outside helpers",
        ),
    ];
    let parts = counts.iter().filter(|(n, ..)| *n > 0);
    parts
        .map(|(n, one, several)| format!("; {n} {}", if *n == 1 { one } else { several }))
        .collect()
}

/// The path on a CPU that has all of what runs.
fn arm_verdict(binary: &Binary, cpu: &Features, flag_byte: Option<u8>, verdict: &mut Verdict) {
    let atomics = &binary.atomics;
    let (lse, llsc, outline, checked) = (
        atomics.inline_lse(),
        atomics.inline_llsc() / 2,
        atomics.outline_calls(),
        atomics.checked_lse,
    );
    let has_lse = match flag_byte {
        Some(byte) => {
            verdict.evidence = Evidence::Observed;
            Some(byte != 0)
        }
        None => cpu.lse,
    };
    let no_gain_claimed = matches!(cpu.id, Some("tsv110" | "apple-m1"));
    verdict.sources.push(ARM_ARM.into());
    let Some(has_lse) = has_lse else {
        verdict.path = Path::Unknown;
        verdict.runs = "not known whether this CPU has LSE".into();
        return;
    };
    let taken = if has_lse { "LSE" } else { "exclusive loops" };
    if outline > 0 {
        verdict.path = match has_lse {
            true if llsc > outline / 10 => Path::Mixed,
            true => Path::OutlineLse,
            false => Path::OutlineLlsc,
        };
        let sites = if outline == 1 { " reaches" } else { "s reach" };
        verdict.runs = format!("{outline} call site{sites} {taken} through outline helpers");
        verdict.cost = "a call, a load of the flag byte and a branch on it, for each atomic".into();
        verdict.sources.push(GCC_MANUAL.into());
        if let (true, Some((flag, gcc))) = (has_lse, cpu.flag) {
            verdict.advice.push(format!(
                "a build for LSE CPUs only (-march=armv8.2-a, or -mcpu={flag} from GCC {gcc}) saves the test; no gain is claimed for that: measure it with `pgassay compare`"
            ));
        }
    } else if checked > lse {
        verdict.path = match has_lse {
            true => Path::OutlineLse,
            false => Path::OutlineLlsc,
        };
        verdict.runs =
            format!("{checked} atomics take {taken} by a check of the program's own (as Go's)");
        verdict.cost = "a load of the flag byte and a branch on it, for each atomic".into();
    } else if lse > 0 {
        verdict.path = if llsc > lse {
            Path::Mixed
        } else {
            Path::InlineLse
        };
        verdict.runs = format!("{lse} inline LSE instructions");
        verdict.cost = "none beyond the instruction".into();
    } else if has_lse {
        verdict.path = Path::InlineLlsc;
        verdict.runs = format!(
            "{llsc} exclusive loops, although the CPU has LSE: nothing in this file can use it"
        );
        verdict.cost =
            "a loop that can fail and repeat for each atomic; more so the more cores contend"
                .into();
        if no_gain_claimed {
            verdict.advice.push(
                "no gain from LSE is claimed on this CPU: published measurements showed none, or a small loss; measure both builds with `pgassay compare`".into(),
            );
        } else {
            verdict.advice.push("rebuild with GCC 10.1 or later (outline atomics are its default), or with -march=armv8.2-a".into());
            if binary.postgres.is_some() {
                verdict.advice.push("or take a distribution's package: Debian's PostgreSQL for arm64 has outline atomics".into());
            }
        }
        verdict.sources.push(GRAVITON_STUDY.into());
    } else {
        verdict.path = Path::InlineLlsc;
        verdict.runs = format!("{llsc} exclusive loops, all that this CPU has");
        verdict.cost = "a loop that can fail and repeat for each atomic".into();
    }
    let (choice, inline) = (outline > 0 || checked > lse, lse > 0);
    if (choice || inline) && llsc > 0 {
        verdict.runs.push_str(&format!(
            "; {llsc} exclusive loops besides, outside helpers"
        ));
    }
    if choice && inline {
        verdict.runs.push_str(&format!(
            "; {lse} inline LSE instructions besides, outside helpers"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CPUS;
    use crate::require::Requirement;

    fn binary(machine: &str, atomics: serde_json::Value, covered: u64) -> Binary {
        let mut document = serde_json::json!({
            "path": "x", "machine": machine, "kind": "shared-library", "size_bytes": 1000,
            "build": {"compilers": [], "stripped": true, "has_dwarf": false},
            "hardening": {
                "pie": true, "relro": "full", "executable_stack": false, "branch_targets": false,
                "return_addresses": false, "stack_protector": false, "fortified": false,
            },
            "bounds": {"functions": 1, "named": 1, "by_source": {}, "covered_bytes": covered, "text_bytes": 100},
            "atomics": {"counts": {}, "functions": []},
            "hints": [],
        });
        for (key, value) in atomics.as_object().expect("an object") {
            document["atomics"][key] = value.clone();
        }
        serde_json::from_value(document).expect("a binary")
    }

    /// `--cpu` warns exactly where `--require runs-on-CPU` fails.
    #[test]
    fn the_verdict_and_the_requirement_are_one() {
        let mut illegal = 0;
        for cpu in CPUS {
            let requirement = Requirement::find(&format!("runs-on-{}", cpu.id)).expect("known");
            let holds = |binary: &Binary| {
                let verdict = verdict(binary, &cpu.into(), None);
                let warned = matches!(
                    verdict.path,
                    Path::Illegal | Path::Unknown | Path::WrongMachine
                );
                assert_eq!(
                    requirement.check(binary).is_err(),
                    warned,
                    "{binary:?} {verdict:?}"
                );
                let signal = verdict.runs.starts_with("SIGILL on ");
                assert_eq!(verdict.path == Path::Illegal, signal, "{verdict:?}");
                verdict
            };
            for n in 0..64 {
                let of = |bit: u32, count: u64| if n >> bit & 1 == 1 { count } else { 0 };
                let (inline, calls, loops) = (of(0, 218), of(1, 850), of(2, 40));
                let (checked, outside, covered) = (of(3, 7), of(4, 3), 100 - of(5, 99));
                let atomics = serde_json::json!({
                    "counts": {"lse-cas": inline + checked + 1, "load-exclusive": loops + 1, "store-exclusive": loops + 1},
                    "checked_lse": checked, "outside_count": outside,
                    "outline": {
                        "helpers": [{
                            "name": "h", "named_by_symbol": false, "address": 0, "flag_address": 0,
                            "bti": false, "call_sites": calls,
                        }],
                        "flag_addresses": [], "lse_in_helpers": 1, "exclusive_in_helpers": 2,
                    },
                });
                let verdict = holds(&binary("aarch64", atomics, covered));
                if cpu.machine != Machine::Aarch64 {
                    assert_eq!(verdict.path, Path::WrongMachine);
                    continue;
                }
                let lacks = inline > 0 && cpu.lse == Some(false);
                assert_eq!(verdict.path == Path::Illegal, lacks, "{verdict:?}");
                let unknown = outside > 0 && covered < 50 && !lacks;
                assert_eq!(verdict.path == Path::Unknown, unknown, "{verdict:?}");
                illegal += u32::from(lacks);
                if lacks && calls > 0 {
                    let says = format!(
                        "SIGILL on {}: 218 inline LSE instructions run without a check; 850 call sites use outline helpers",
                        cpu.id
                    );
                    assert!(verdict.runs.starts_with(&says), "{verdict:?}");
                }
            }
            for (machine, class, lacking) in [
                ("ppc64le", "amo-add", &["power8"][..]),
                ("ppc64le", "load-reserved", &[]),
                ("riscv64", "amo-cas", &["rv64gc"]),
                ("riscv64", "amo-add", &[]),
                ("x86-64", "lock-xadd", &[]),
                ("s390x", "load-and-op", &[]),
            ] {
                let atomics = serde_json::json!({"counts": {class: 2}});
                let verdict = holds(&binary(machine, atomics, 100));
                assert_eq!(
                    verdict.path == Path::Illegal,
                    lacking.contains(&cpu.id),
                    "{verdict:?}"
                );
            }
        }
        assert_eq!(illegal, 3 * 32, "three CPUs of the table lack LSE");
    }
}
