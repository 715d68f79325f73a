//! Which flags to compile PostgreSQL with, for a CPU and a compiler: a table of
//! what compilers know since when, and rules over it.
//!
//! A recommendation is never a claim of speed: it says which instructions come
//! out and where they run. What that is worth is for a measurement to say.

use serde::{Deserialize, Serialize};

use crate::cpu::Cpu;
use crate::model::Machine;

/// A compiler's make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// The GNU compiler.
    Gcc,
    /// LLVM's.
    Clang,
}

/// A compiler and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compiler {
    /// Its make.
    pub family: Family,
    /// Major version.
    pub major: u32,
    /// Minor version; none where only the major was given.
    pub minor: Option<u32>,
}

impl Compiler {
    /// From what a user types (`gcc-9`, `gcc 10.2`, `clang-15`) or from the first line that
    /// `--version` prints.
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let family = if lower.contains("clang") {
            Family::Clang
        } else if lower.contains("gcc") || lower.starts_with("cc ") {
            Family::Gcc
        } else {
            return None;
        };
        // "gcc (Debian 12.2.0-14) 12.2.0": the version stands after the vendor's remark.
        let plain = match (lower.find('('), lower.rfind(')')) {
            (Some(open), Some(close)) if open < close => {
                format!("{} {}", &lower[..open], &lower[close + 1..])
            }
            _ => lower,
        };
        let mut numbers = plain
            .split(|c: char| !(c.is_ascii_digit() || c == '.'))
            // A target's triplet in front of the name holds numbers of its own.
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            .filter(|word| !matches!(*word, "64" | "86"));
        let mut parts = numbers.next()?.split('.');
        Some(Self {
            family,
            major: parts.next()?.parse().ok()?,
            minor: parts.next().and_then(|part| part.parse().ok()),
        })
    }

    /// Whether it is at least `major.minor`. A minor version that was not given is taken to be the
    /// last of its series, which is what a distribution ships.
    fn at_least(self, (major, minor): (u32, u32)) -> bool {
        self.major > major || self.major == major && self.minor.is_none_or(|own| own >= minor)
    }

    /// As a person writes it.
    pub fn name(&self) -> String {
        let family = match self.family {
            Family::Gcc => "GCC",
            Family::Clang => "Clang",
        };
        match self.minor {
            Some(minor) => format!("{family} {}.{minor}", self.major),
            None => format!("{family} {}", self.major),
        }
    }
}

/// A set of flags and what speaks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// The flags; empty where the compiler's default is it.
    pub flags: Vec<String>,
    /// When to take it.
    pub when: String,
    /// What it does.
    pub why: String,
    /// Where that is from.
    pub sources: Vec<String>,
}

/// What not to do, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Avoid {
    /// The flags, or the habit.
    pub what: String,
    /// What happens.
    pub why: String,
    /// Where that is from.
    pub source: String,
}

/// The flags for a CPU and a compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// The CPU, by its name in the table.
    pub cpu: String,
    /// What it is in.
    pub products: String,
    /// The compiler.
    pub compiler: String,
    /// Choices, the first one to take where nothing speaks for another.
    pub choices: Vec<Choice>,
    /// What not to use.
    pub avoid: Vec<Avoid>,
}

/// A recommendation as printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommended {
    /// `pgassay/recommendation/1`.
    pub schema: String,
    /// The flags.
    pub recommendation: Recommendation,
}

impl Recommended {
    /// [`Recommended::schema`].
    pub const SCHEMA: &str = "pgassay/recommendation/1";
}

const GCC_MANUAL: &str =
    "GCC manual, AArch64 options (https://gcc.gnu.org/onlinedocs/gcc/AArch64-Options.html)";
const GCC_10: &str = "GCC 10 release notes, AArch64 (https://gcc.gnu.org/gcc-10/changes.html)";
const GCC_9_4: &str = "GCC 9.4 manual, AArch64 options: -moutline-atomics (https://gcc.gnu.org/onlinedocs/gcc-9.4.0/gcc/AArch64-Options.html)";
const CLANG_12: &str =
    "LLVM commit c5e7e649d5, outline atomics by default on Linux (first in Clang 12)";
const GRAVITON: &str = "AWS, C/C++ on Graviton (https://github.com/aws/aws-graviton-getting-started/blob/main/c-c++.md)";
const KOROTKOV: &str = "A. Korotkov, The dramatic effect of LSE instructions for PostgreSQL on Graviton2 instances, 2021";
const PACHOT: &str = "F. Pachot, PostgreSQL 14 on Oracle's Ampere shape, 2021: the assembler refused -mcpu=neoverse-n1";
const CONFIGURE: &str =
    "PostgreSQL's configure.ac: CFLAGS=\"-O2\" only where the user sets no CFLAGS";
const X86_LEVELS: &str = "x86-64 psABI, micro-architecture levels; GCC 11 release notes";
const PG_RUNTIME: &str =
    "PostgreSQL source, src/port/pg_crc32c_*_choose.c and pg_popcount_*.c: chosen at run time";
const GCC_POWER: &str = "GCC manual, RS/6000 and PowerPC options: -mcpu";

/// First LLVM with a CPU's name; GCC's is in the CPU's own entry.
const LLVM_SINCE: &[(&str, (u32, u32))] = &[
    ("cortex-a72", (3, 9)),
    ("neoverse-n1", (10, 0)),
    ("neoverse-v1", (12, 0)),
    ("neoverse-n2", (16, 0)),
    ("neoverse-v2", (16, 0)),
    ("neoverse-v3", (19, 0)),
    ("ampere1", (15, 0)),
    ("apple-m1", (13, 0)),
];

/// The flags for a CPU and a compiler, with reasons.
pub fn recommend(cpu: &Cpu, compiler: Compiler) -> Recommendation {
    let mut recommendation = Recommendation {
        cpu: cpu.id.into(),
        products: cpu.products.into(),
        compiler: compiler.name(),
        choices: Vec::new(),
        avoid: vec![Avoid {
            what: "CFLAGS without an -O level, given to configure".into(),
            why: "configure drops its own -O2 once CFLAGS is set: the build is -O0; \
                  pgassay build appends to -O2"
                .into(),
            source: CONFIGURE.into(),
        }],
    };
    match cpu.machine {
        Machine::Aarch64 => arm(cpu, compiler, &mut recommendation),
        Machine::X86_64 => x86(compiler, &mut recommendation),
        Machine::Ppc64le => power(cpu, compiler, &mut recommendation),
        _ => recommendation.choices.push(Choice {
            flags: vec![format!("-march={}", cpu.flag)],
            when: "for this CPU and later ones".into(),
            why: "the atomics are the same at every level; only scheduling and newer instructions differ".into(),
            sources: vec![cpu.source.into()],
        }),
    }
    if cpu.machine != Machine::Aarch64 || compiler.family == Family::Gcc {
        recommendation.avoid.push(Avoid {
            what: "-march=native in a build for more than one machine".into(),
            why: "it is the builder's CPU, recorded nowhere: on an older one the server ends with \
                  an illegal instruction"
                .into(),
            source: "GCC manual: -march=native".into(),
        });
    }
    recommendation
}

/// Whether the compiler knows the CPU by name; `None` where it is not known since when.
fn knows(cpu: &Cpu, compiler: Compiler) -> Option<bool> {
    let since = match compiler.family {
        Family::Gcc => parse_version(cpu.gcc)?,
        Family::Clang => LLVM_SINCE.iter().find(|(id, _)| *id == cpu.id)?.1,
    };
    Some(compiler.at_least(since))
}

/// The version from which a compiler knows a CPU, for messages.
fn known_since(cpu: &Cpu, compiler: Compiler) -> String {
    match compiler.family {
        Family::Gcc => format!("GCC {}", cpu.gcc),
        Family::Clang => LLVM_SINCE.iter().find(|(id, _)| *id == cpu.id).map_or_else(
            || "a later Clang".into(),
            |(_, (a, b))| format!("Clang {a}.{b}"),
        ),
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    let major = parts.next()?.parse().ok()?;
    Some((major, parts.next().map_or(Some(0), |p| p.parse().ok())?))
}

/// What a compiler does about outline atomics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutlineAtomics {
    Default,
    ByFlag,
    Unknown,
}

fn outline_atomics(compiler: Compiler) -> OutlineAtomics {
    match (compiler.family, compiler.major) {
        (Family::Gcc, 10..) if compiler.at_least((10, 1)) => OutlineAtomics::Default,
        (Family::Gcc, 9) if compiler.at_least((9, 4)) => OutlineAtomics::ByFlag,
        (Family::Gcc, 8) if compiler.at_least((8, 5)) => OutlineAtomics::ByFlag,
        (Family::Clang, 12..) => OutlineAtomics::Default,
        _ => OutlineAtomics::Unknown,
    }
}

fn arm(cpu: &Cpu, compiler: Compiler, to: &mut Recommendation) {
    let generic = cpu.id.starts_with("armv");
    let has_lse = cpu.lse == Some(true);
    let outline = outline_atomics(compiler);
    let outline_source = match compiler.family {
        Family::Gcc if compiler.major >= 10 => GCC_10,
        Family::Gcc => GCC_9_4,
        Family::Clang => CLANG_12,
    };
    let portable = match outline {
        OutlineAtomics::Default => Some(Choice {
            flags: vec![],
            when: "one build for every aarch64 server".into(),
            why: format!(
                "{} compiles outline atomics by default: each atomic tests a byte once set from \
                 the kernel's HWCAP and takes LSE where the CPU has it",
                compiler.name()
            ),
            sources: vec![outline_source.into()],
        }),
        OutlineAtomics::ByFlag => Some(Choice {
            flags: vec!["-moutline-atomics".into()],
            when: "one build for every aarch64 server".into(),
            why: format!(
                "{} has outline atomics but not by default; without the flag the build has \
                 exclusive loops only, whatever the CPU",
                compiler.name()
            ),
            sources: vec![outline_source.into(), GCC_MANUAL.into()],
        }),
        OutlineAtomics::Unknown => None,
    };
    let named = (!generic && knows(cpu, compiler) == Some(true)).then(|| Choice {
        flags: vec![format!("-mcpu={}", cpu.flag)],
        when: format!("every server is {} or newer of its line", cpu.products),
        why: if has_lse {
            "LSE inline, without the test of outline atomics, and scheduled for this core; it ends \
             with an illegal instruction on a CPU without LSE"
                .into()
        } else {
            "scheduled for this core; it has no LSE, so atomics are exclusive loops".into()
        },
        sources: vec![GRAVITON.into(), GCC_MANUAL.into()],
    });
    let fixed = has_lse.then(|| {
        let mut flags = vec!["-march=armv8.2-a".to_owned()];
        let mut why = "LSE inline on every core from Armv8.2 on".to_owned();
        // The two generic architectures and A76's own have no core to tune for.
        if !generic && knows(cpu, compiler) == Some(false) {
            flags.push("-mtune=cortex-a72".into());
            why.push_str(&format!(
                "; {} does not know {} (from {} on), and the nearest core that it knows is tuned for",
                compiler.name(),
                cpu.id,
                known_since(cpu, compiler)
            ));
        }
        if cpu.id == "armv8.1-a" {
            flags[0] = "-march=armv8.1-a".into();
            why = "LSE inline on every core from Armv8.1 on".into();
        }
        Choice {
            flags,
            when: "every server has LSE, of several makes".into(),
            why,
            sources: vec![GRAVITON.into()],
        }
    });
    // No gain of inline over outline is claimed: the portable build comes first.
    to.choices.extend(portable);
    to.choices.extend(named);
    to.choices.extend(fixed);
    if to.choices.is_empty() {
        to.choices.push(Choice {
            flags: vec![if generic {
                "-march=armv8-a".into()
            } else {
                format!("-mtune={}", cpu.flag)
            }],
            when: "this compiler is what there is".into(),
            why: "the CPU has no LSE, and this compiler no outline atomics: exclusive loops".into(),
            sources: vec![GCC_MANUAL.into()],
        });
    }
    if outline == OutlineAtomics::Unknown {
        to.avoid.push(Avoid {
            what: format!("{} for a build that must run on CPUs with and without LSE", compiler.name()),
            why: "it has no outline atomics: such a build has exclusive loops only; take GCC 10.1 or \
                  Clang 12, or GCC 9.4 and 8.5 with -moutline-atomics (distributions' GCC 7 may have \
                  it back-ported, as Amazon Linux 2's does)"
                .into(),
            source: GCC_10.into(),
        });
    }
    if has_lse {
        to.avoid.push(Avoid {
            what: "-mno-outline-atomics with -march=armv8-a".into(),
            why: "exclusive loops on a CPU that has LSE; many cores that contend for a lock then fail \
                  and repeat their stores"
                .into(),
            source: KOROTKOV.into(),
        });
        to.avoid.push(Avoid {
            what: "-march=armv8.1-a or later, -mcpu= of an LSE core, for a fleet with Cortex-A72 \
                   (Graviton1, Raspberry Pi 4) in it"
                .into(),
            why: "a fixed architecture is not a run-time choice: the first lock ends the server with \
                  an illegal instruction"
                .into(),
            source: "Arm Architecture Reference Manual, FEAT_LSE".into(),
        });
    } else if !generic || cpu.id == "armv8.0-a" {
        to.avoid.push(Avoid {
            what: "-march=armv8.1-a or later".into(),
            why: "this CPU has no LSE: the server would end with an illegal instruction".into(),
            source: cpu.source.into(),
        });
    }
    if !generic && knows(cpu, compiler) == Some(false) {
        to.avoid.push(Avoid {
            what: format!("-mcpu={}", cpu.flag),
            why: format!(
                "{} does not know it; {} does. The assembler (binutils) must know it too",
                compiler.name(),
                known_since(cpu, compiler)
            ),
            source: PACHOT.into(),
        });
    }
    if matches!(cpu.id, "tsv110" | "apple-m1") {
        to.avoid.push(Avoid {
            what: "taking a gain from LSE for granted on this CPU".into(),
            why: "published measurements showed none on Apple M1 and a small loss on Kunpeng 920: \
                  measure both builds"
                .into(),
            source: KOROTKOV.into(),
        });
    }
}

fn x86(compiler: Compiler, to: &mut Recommendation) {
    to.choices.push(Choice {
        flags: vec![],
        when: "one build for every x86-64 server".into(),
        why: "atomics are the same locked instructions at every level, and PostgreSQL chooses CRC-32C \
              and population count at run time: no flag changes its locks"
            .into(),
        sources: vec![PG_RUNTIME.into()],
    });
    let has_levels = match compiler.family {
        Family::Gcc => compiler.at_least((11, 1)),
        Family::Clang => compiler.at_least((12, 0)),
    };
    let (flag, why) = if has_levels {
        ("-march=x86-64-v3", "AVX2, BMI and FMA without a test")
    } else {
        (
            "-march=haswell",
            "the same instructions as x86-64-v3, a name that GCC has from 11 and Clang from 12 on",
        )
    };
    to.choices.push(Choice {
        flags: vec![flag.into()],
        when: "every server has AVX2 (Intel from 2013, AMD from 2015)".into(),
        why: format!("{why}; whether it gains anything is for a comparison to say"),
        sources: vec![X86_LEVELS.into()],
    });
    if !has_levels {
        to.avoid.push(Avoid {
            what: "-march=x86-64-v3".into(),
            why: format!(
                "{} does not know it; GCC 11 and Clang 12 do",
                compiler.name()
            ),
            source: X86_LEVELS.into(),
        });
    }
}

fn power(cpu: &Cpu, compiler: Compiler, to: &mut Recommendation) {
    let knows = match compiler.family {
        Family::Gcc => knows(cpu, compiler),
        Family::Clang => Some(true),
    };
    let (flag, why) = match knows {
        Some(false) => (
            "power8",
            format!(
                "{} does not know {}; POWER8 is ppc64le's own baseline",
                compiler.name(),
                cpu.id
            ),
        ),
        _ => (
            cpu.flag,
            "scheduling and newer instructions; atomics are larx and stcx. loops on all of them"
                .into(),
        ),
    };
    to.choices.push(Choice {
        flags: vec![format!("-mcpu={flag}")],
        when: format!("every server is {} or newer", flag.to_uppercase()),
        why,
        sources: vec![GCC_POWER.into()],
    });
    if knows == Some(false) {
        to.avoid.push(Avoid {
            what: format!("-mcpu={}", cpu.flag),
            why: format!("{} does not know it; GCC {} does", compiler.name(), cpu.gcc),
            source: GCC_POWER.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{self, CPUS};

    fn of(cpu: &str, compiler: &str) -> Recommendation {
        recommend(cpu::find(cpu).unwrap(), Compiler::parse(compiler).unwrap())
    }

    fn flags(recommendation: &Recommendation) -> Vec<String> {
        recommendation
            .choices
            .iter()
            .map(|choice| choice.flags.join(" "))
            .collect()
    }

    #[test]
    fn compilers_as_typed_and_as_they_say() {
        let version = |text: &str| {
            let c = Compiler::parse(text).unwrap();
            (c.family, c.major, c.minor)
        };
        use Family::{Clang, Gcc};
        assert_eq!(version("gcc-9"), (Gcc, 9, None));
        assert_eq!(version("gcc 10.2"), (Gcc, 10, Some(2)));
        assert_eq!(version("clang-15"), (Clang, 15, None));
        assert_eq!(
            version("gcc (Debian 12.2.0-14+deb12u1) 12.2.0"),
            (Gcc, 12, Some(2))
        );
        assert_eq!(
            version("aarch64-linux-gnu-gcc (Ubuntu 9.4.0-1ubuntu1~20.04) 9.4.0"),
            (Gcc, 9, Some(4))
        );
        assert_eq!(version("x86_64-linux-gnu-gcc-8.5"), (Gcc, 8, Some(5)));
        assert_eq!(version("Debian clang version 14.0.6"), (Clang, 14, Some(0)));
        assert!(Compiler::parse("tcc").is_none() && Compiler::parse("gcc").is_none());
    }

    #[test]
    fn graviton2_by_the_age_of_the_compiler() {
        // facts of the compilers: default from 10.1, a flag in 9.4, nothing before.
        assert_eq!(
            flags(&of("graviton2", "gcc-12.2")),
            ["", "-mcpu=neoverse-n1", "-march=armv8.2-a"]
        );
        assert_eq!(
            flags(&of("graviton2", "gcc-9.4")),
            ["-moutline-atomics", "-mcpu=neoverse-n1", "-march=armv8.2-a"]
        );
        assert_eq!(
            flags(&of("graviton2", "gcc-9.3")),
            ["-mcpu=neoverse-n1", "-march=armv8.2-a"]
        );
        let old = of("graviton2", "gcc-7.5");
        assert_eq!(flags(&old), ["-march=armv8.2-a -mtune=cortex-a72"]);
        let avoided = |what: &str| old.avoid.iter().any(|avoid| avoid.what.starts_with(what));
        assert!(avoided("-mcpu=neoverse-n1") && avoided("GCC 7.5 for a build"));
        assert_eq!(flags(&of("graviton4", "clang-15"))[0], "");
        assert!(
            of("graviton4", "clang-15")
                .avoid
                .iter()
                .any(|avoid| avoid.what == "-mcpu=neoverse-v2")
        );
    }

    #[test]
    fn a_cpu_without_lse_is_never_given_it() {
        for compiler in ["gcc-7", "gcc-9", "gcc-14", "clang-11", "clang-18"] {
            for cpu in ["raspberry-pi-4", "cortex-a53", "armv8.0-a"] {
                let all = of(cpu, compiler);
                assert!(!all.choices.is_empty());
                let wrong = flags(&all).iter().any(|f| {
                    f.contains("armv8.1") || f.contains("armv8.2") || f.contains("neoverse")
                });
                assert!(!wrong, "{cpu} {compiler}: {all:?}");
            }
        }
    }

    #[test]
    fn other_machines() {
        assert_eq!(flags(&of("x86-64", "gcc-12")), ["", "-march=x86-64-v3"]);
        assert_eq!(flags(&of("x86-64", "gcc-9")), ["", "-march=haswell"]);
        assert_eq!(flags(&of("power10", "gcc-9")), ["-mcpu=power8"]);
        assert_eq!(flags(&of("power9", "gcc-9")), ["-mcpu=power9"]);
        assert_eq!(flags(&of("z196", "gcc-9")), ["-march=z196"]);
    }

    #[test]
    fn everything_has_a_reason_and_a_source() {
        for cpu in CPUS {
            for compiler in ["gcc-7", "gcc-9.4", "gcc-14", "clang-10", "clang-19"] {
                let all = recommend(cpu, Compiler::parse(compiler).unwrap());
                assert!(!all.choices.is_empty(), "{} {compiler}", cpu.id);
                for choice in &all.choices {
                    assert!(!choice.why.is_empty() && !choice.sources.is_empty());
                    assert!(choice.sources.iter().all(|source| source.len() > 10));
                }
                assert!(
                    all.avoid
                        .iter()
                        .all(|a| !a.why.is_empty() && a.source.len() > 10)
                );
            }
        }
        let m1 = of("apple-m1", "clang-16");
        assert!(m1.avoid.iter().any(|a| a.why.contains("Kunpeng 920")));
    }
}
