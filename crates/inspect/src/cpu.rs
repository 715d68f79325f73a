//! CPUs, and which path a binary takes on each.
//!
//! The table states what the architecture's or the maker's documents say of a core. A verdict says
//! what runs, never how much faster: where somebody measured, it cites them, and where a measurement
//! went the other way (Kunpeng 920, Apple M1) it says that no gain is claimed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Binary, Machine};

/// What a CPU has of what matters here. `None`: not known from a document that we can cite.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Name for `--cpu`.
    pub id: &'static str,
    /// Other names for it, and products with it.
    pub aliases: &'static [&'static str],
    /// Products, for people.
    pub products: &'static str,
    /// Its instruction set.
    pub machine: Machine,
    /// LSE atomics (Armv8.1).
    pub lse: Option<bool>,
    /// LSE2: single-copy atomic 16-byte accesses (Armv8.4).
    pub lse2: Option<bool>,
    /// CRC-32 instructions (optional in Armv8.0, SSE 4.2).
    pub crc: Option<bool>,
    /// What the compiler calls it.
    pub flag: &'static str,
    /// First GCC that knows the flag.
    pub gcc: &'static str,
    /// Where this is from.
    pub source: &'static str,
}

const ARM_TRM: &str =
    "the core's Technical Reference Manual, ID_AA64ISAR0_EL1 and ID_AA64MMFR2_EL1";
const GCC_LIST: &str = "GCC's aarch64-cores.def";

const fn arm(
    id: &'static str,
    aliases: &'static [&'static str],
    products: &'static str,
    (lse, lse2): (bool, bool),
    gcc: &'static str,
) -> Cpu {
    Cpu {
        id,
        aliases,
        products,
        machine: Machine::Aarch64,
        lse: Some(lse),
        lse2: Some(lse2),
        crc: Some(true),
        flag: id,
        gcc,
        source: ARM_TRM,
    }
}

const fn other(
    id: &'static str,
    products: &'static str,
    machine: Machine,
    flag: &'static str,
    gcc: &'static str,
    source: &'static str,
) -> Cpu {
    Cpu {
        id,
        aliases: &[],
        products,
        machine,
        lse: None,
        lse2: None,
        crc: None,
        flag,
        gcc,
        source,
    }
}

/// The CPUs known by name.
pub const CPUS: &[Cpu] = &[
    arm(
        "armv8.0-a",
        &["armv8-a"],
        "any aarch64 CPU without LSE",
        (false, false),
        "4.8",
    ),
    arm(
        "armv8.1-a",
        &["lse"],
        "any aarch64 CPU with LSE",
        (true, false),
        "5",
    ),
    arm(
        "cortex-a53",
        &[],
        "small cores, Raspberry Pi 3",
        (false, false),
        "4.9",
    ),
    arm(
        "cortex-a72",
        &["graviton1", "graviton", "raspberry-pi-4"],
        "Graviton1, Raspberry Pi 4",
        (false, false),
        "6",
    ),
    arm(
        "cortex-a76",
        &["raspberry-pi-5"],
        "Raspberry Pi 5",
        (true, false),
        "9",
    ),
    arm(
        "neoverse-n1",
        &["graviton2", "altra", "ampere-altra"],
        "Graviton2, Ampere Altra",
        (true, false),
        "9",
    ),
    arm(
        "neoverse-v1",
        &["graviton3"],
        "Graviton3",
        (true, true),
        "10.3",
    ),
    arm(
        "neoverse-n2",
        &["cobalt100"],
        "Azure Cobalt 100, Yitian 710",
        (true, true),
        "11",
    ),
    arm(
        "neoverse-v2",
        &["graviton4", "grace", "axion"],
        "Graviton4, NVIDIA Grace, Google Axion",
        (true, true),
        "12.3",
    ),
    arm(
        "neoverse-v3",
        &["graviton5"],
        "Graviton5",
        (true, true),
        "15",
    ),
    arm("ampere1", &["ampereone"], "AmpereOne", (true, true), "12.1"),
    Cpu {
        id: "tsv110",
        aliases: &["kunpeng920", "kunpeng-920"],
        products: "Kunpeng 920",
        machine: Machine::Aarch64,
        lse: Some(true),
        lse2: None,
        crc: Some(true),
        flag: "tsv110",
        gcc: "9",
        source: GCC_LIST,
    },
    Cpu {
        id: "apple-m1",
        aliases: &["apple-m2", "apple-m"],
        products: "Apple M1, M2",
        machine: Machine::Aarch64,
        lse: Some(true),
        lse2: Some(true),
        crc: Some(true),
        flag: "apple-m1",
        gcc: "15.1",
        source: GCC_LIST,
    },
    other(
        "x86-64",
        "any AMD64 or Intel 64 CPU",
        Machine::X86_64,
        "x86-64",
        "4.2",
        "AMD64 Architecture Programmer's Manual, volume 3, LOCK prefix",
    ),
    other(
        "power8",
        "POWER8",
        Machine::Ppc64le,
        "power8",
        "4.9",
        "Power ISA 2.07, Book II",
    ),
    other(
        "power9",
        "POWER9",
        Machine::Ppc64le,
        "power9",
        "6",
        "Power ISA 3.0, Book II",
    ),
    other(
        "power10",
        "POWER10",
        Machine::Ppc64le,
        "power10",
        "11.1",
        "Power ISA 3.1, Book II",
    ),
    other(
        "rv64gc",
        "any 64-bit RISC-V that runs Linux",
        Machine::Riscv64,
        "rv64gc",
        "7",
        "The RISC-V Instruction Set Manual, volume I, A extension",
    ),
    other(
        "z196",
        "IBM z196 and later",
        Machine::S390x,
        "z196",
        "4.6",
        "z/Architecture Principles of Operation, interlocked-access facility 1",
    ),
];

/// Finds a CPU by its name or one of its aliases, whatever the case and separators.
pub fn find(name: &str) -> Option<&'static Cpu> {
    let plain = |s: &str| s.to_ascii_lowercase().replace(['-', '_', ' '], "");
    let wanted = plain(name);
    CPUS.iter()
        .find(|c| plain(c.id) == wanted || c.aliases.iter().any(|a| plain(a) == wanted))
}

/// A CPU told from an aarch64 MIDR's implementer and part numbers (Linux: `CPU implementer` and
/// `CPU part` in /proc/cpuinfo); numbers from Linux's arch/arm64/include/asm/cputype.h.
pub fn by_midr(implementer: u32, part: u32) -> Option<&'static Cpu> {
    let id = match (implementer, part) {
        (0x41, 0xD03) => "cortex-a53",
        (0x41, 0xD08) => "cortex-a72",
        (0x41, 0xD0B) => "cortex-a76",
        (0x41, 0xD0C) => "neoverse-n1",
        (0x41, 0xD40) => "neoverse-v1",
        // Azure Cobalt 100 has the maker's number beside the core's.
        (0x41 | 0x6D, 0xD49) => "neoverse-n2",
        (0x41, 0xD4F) => "neoverse-v2",
        (0x41, 0xD84) => "neoverse-v3",
        (0x48, 0xD01) => "tsv110",
        (0xC0, 0xAC3 | 0xAC4) => "ampere1",
        // Icestorm, Firestorm, Blizzard, Avalanche, each also of the Pro and Max.
        (0x61, 0x022..=0x025 | 0x028 | 0x029 | 0x032..=0x035 | 0x038 | 0x039) => "apple-m1",
        _ => return None,
    };
    CPUS.iter().find(|c| c.id == id)
}

/// Which atomics run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// LSE instructions, inline.
    InlineLse,
    /// LSE instructions behind an outline helper's test.
    OutlineLse,
    /// Exclusive loops, inline.
    InlineLlsc,
    /// Exclusive loops behind an outline helper's test.
    OutlineLlsc,
    /// Some of these, some of those.
    Mixed,
    /// An LSE instruction that this CPU lacks: it would trap.
    Illegal,
    /// The machine has one way and this is it.
    OnlyOne,
    /// The file holds no atomics.
    Nothing,
    /// The file is for another machine.
    WrongMachine,
}

/// How the path taken is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// From the file and what is known of the CPU.
    Inferred,
    /// The flag byte was read from the running process.
    Observed,
}

/// What a CPU makes of a binary.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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
}

/// A CPU as the verdict needs it: from the table, or read off a host.
#[derive(Clone, Debug)]
pub struct Features {
    /// Name shown.
    pub name: String,
    /// Machine.
    pub machine: Machine,
    /// LSE.
    pub lse: Option<bool>,
    /// The compiler's name for it, and the first GCC with it.
    pub flag: Option<(&'static str, &'static str)>,
    /// The table's entry, if it is in it.
    pub id: Option<&'static str>,
    /// Source.
    pub source: String,
}

impl From<&'static Cpu> for Features {
    fn from(cpu: &'static Cpu) -> Self {
        Self {
            name: format!("{} ({})", cpu.id, cpu.products),
            machine: cpu.machine.clone(),
            lse: cpu.lse,
            // The two generic entries name an architecture, not a core.
            flag: (!cpu.id.starts_with("armv")).then_some((cpu.flag, cpu.gcc)),
            id: Some(cpu.id),
            source: cpu.source.into(),
        }
    }
}

impl Features {
    /// A host told by its kernel: `uname`'s machine and the text of /proc/cpuinfo, whose line
    /// `Features` lists `atomics` where an aarch64 CPU has LSE (Linux, Documentation/arch/arm64).
    pub fn of_host(architecture: &str, cpuinfo: &str) -> Self {
        let machine = match architecture {
            "x86_64" => Machine::X86_64,
            "aarch64" => Machine::Aarch64,
            "ppc64le" => Machine::Ppc64le,
            "riscv64" => Machine::Riscv64,
            "s390x" => Machine::S390x,
            other => Machine::Other(other.into()),
        };
        let field = |key: &str| {
            cpuinfo.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == key).then(|| value.trim())
            })
        };
        let number = |key: &str| {
            let text = field(key)?.trim_start_matches("0x");
            u32::from_str_radix(text, 16).ok()
        };
        let known = match (number("CPU implementer"), number("CPU part")) {
            (Some(implementer), Some(part)) => by_midr(implementer, part),
            _ => None,
        };
        let name = field("model name").or(known.map(|c| c.products));
        let lse = field("Features").filter(|_| machine == Machine::Aarch64);
        Self {
            name: format!("this host ({})", name.unwrap_or(machine.name())),
            lse: lse.map(|f| f.split_ascii_whitespace().any(|f| f == "atomics")),
            machine,
            flag: known.map(|c| (c.flag, c.gcc)),
            id: known.map(|c| c.id),
            source: "/proc/cpuinfo and the kernel's HWCAP of this host".into(),
        }
    }

    /// The CPU that a process sees which runs `binary` here: this host's, or another machine's that
    /// an emulator shows it.
    pub fn seen_by(self, binary: &Binary) -> Self {
        if binary.machine == self.machine {
            return self;
        }
        Self {
            name: format!("an emulated {} CPU on {}", binary.machine.name(), self.name),
            machine: binary.machine.clone(),
            lse: None,
            flag: None,
            id: None,
            source: self.source,
        }
    }
}

const GRAVITON_STUDY: &str = "A. Korotkov, \"The dramatic effect of LSE instructions for PostgreSQL on Graviton2 instances\", 2021: a large gain of LSE at 64 cores on Graviton2; none on Apple M1, a small loss on Kunpeng 920";
const GCC_MANUAL: &str = "GCC manual, AArch64 options: -moutline-atomics";
const ARM_ARM: &str = "Arm Architecture Reference Manual, FEAT_LSE";

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
    };
    if binary.machine != cpu.machine {
        verdict.path = Path::WrongMachine;
        verdict.runs = format!("does not run: the file is for {}", binary.machine.name());
        return verdict;
    }
    let total = binary.atomics.total_with_calls();
    if total == 0 {
        verdict.path = Path::Nothing;
        verdict.runs = "no atomic instruction".into();
        return verdict;
    }
    match binary.machine {
        Machine::Aarch64 => arm_verdict(binary, cpu, flag_byte, &mut verdict),
        Machine::X86_64 => {
            verdict.runs = format!(
                "{} locked instructions, the same on every x86-64 CPU",
                binary.atomics.total()
            );
            verdict.cost = "each is a full barrier; none is chosen at run time".into();
        }
        Machine::Ppc64le => {
            verdict.runs = format!(
                "{} loops of larx and stcx., on every POWER CPU",
                binary.atomics.inline_llsc() / 2
            );
            verdict.cost = "loop and barriers around it; POWER9's memory operations are not what compilers emit for C atomics".into();
        }
        Machine::Riscv64 => {
            verdict.runs = format!(
                "{} instructions in memory and {} of lr/sc",
                binary
                    .atomics
                    .total()
                    .saturating_sub(binary.atomics.inline_llsc()),
                binary.atomics.inline_llsc()
            );
            verdict.cost = "compare and swap is an lr/sc loop unless compiled for Zacas".into();
        }
        _ => {
            verdict.runs = format!("{} interlocked instructions", binary.atomics.total());
            verdict.cost = "each is serialising as the architecture says".into();
        }
    }
    verdict
}

fn arm_verdict(binary: &Binary, cpu: &Features, flag_byte: Option<u8>, verdict: &mut Verdict) {
    let atomics = &binary.atomics;
    let (lse, llsc, outline) = (
        atomics.inline_lse(),
        atomics.inline_llsc() / 2,
        atomics.outline_calls(),
    );
    let has_lse = match flag_byte.filter(|_| outline > 0) {
        Some(byte) => {
            verdict.evidence = Evidence::Observed;
            Some(byte != 0)
        }
        None => cpu.lse,
    };
    let no_gain_claimed = matches!(cpu.id, Some("tsv110" | "apple-m1"));
    verdict.sources.push(ARM_ARM.into());
    let Some(has_lse) = has_lse else {
        verdict.path = Path::Mixed;
        verdict.runs = "not known whether this CPU has LSE".into();
        return;
    };
    let sites = format!("{outline} call site{}", if outline == 1 { "" } else { "s" });
    let outline_cost = "a call, a load of the flag byte and a branch on it, for each atomic";
    match (outline > 0, lse > 0, llsc > 0, has_lse) {
        (true, _, _, true) => {
            verdict.path = if llsc > outline / 10 && lse + llsc > 0 {
                Path::Mixed
            } else {
                Path::OutlineLse
            };
            verdict.runs = format!("{sites} reach LSE through outline helpers");
            verdict.cost = outline_cost.into();
            verdict.sources.push(GCC_MANUAL.into());
            if let Some((flag, gcc)) = cpu.flag {
                verdict.advice.push(format!(
                    "a build for LSE CPUs only (-march=armv8.2-a, or -mcpu={flag} from GCC {gcc}) saves the test; no gain is claimed for that: measure it with `pgassay compare`"
                ));
            }
        }
        (true, _, _, false) => {
            verdict.path = if lse > 0 {
                Path::Mixed
            } else {
                Path::OutlineLlsc
            };
            verdict.runs = format!("{sites} reach exclusive loops through outline helpers");
            verdict.cost = outline_cost.into();
            verdict.sources.push(GCC_MANUAL.into());
        }
        (false, true, _, true) => {
            verdict.path = if llsc > lse {
                Path::Mixed
            } else {
                Path::InlineLse
            };
            verdict.runs = format!("{lse} inline LSE instructions");
            verdict.cost = "none beyond the instruction".into();
        }
        (false, true, _, false) => {
            verdict.path = Path::Illegal;
            verdict.runs = format!(
                "{lse} inline LSE instructions that this CPU lacks: an illegal-instruction signal at the first, unless the program tests for them itself"
            );
            verdict.cost = "does not run".into();
            verdict.advice.push("take a build with outline atomics (-moutline-atomics, GCC 10.1's default), or for -march=armv8-a".into());
        }
        (false, false, _, true) => {
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
        }
        (false, false, _, false) => {
            verdict.path = Path::InlineLlsc;
            verdict.runs = format!("{llsc} exclusive loops, all that this CPU has");
            verdict.cost = "a loop that can fail and repeat for each atomic".into();
        }
    }
    if (outline > 0 || lse > 0) && llsc > 0 {
        verdict.runs.push_str(&format!(
            "; {llsc} exclusive loops besides, outside helpers"
        ));
    }
    if outline > 0 && lse > 0 {
        verdict.runs.push_str(&format!(
            "; {lse} inline LSE instructions besides, outside helpers"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::by_midr;

    #[test]
    fn numbers_of_the_main_id_register_are_told_apart() {
        let id = |implementer, part| by_midr(implementer, part).map(|c| c.id);
        assert_eq!(id(0x41, 0xD0C), Some("neoverse-n1"));
        assert_eq!(id(0x6D, 0xD49), Some("neoverse-n2"), "Azure Cobalt 100");
        assert_eq!(id(0xC0, 0xAC4), Some("ampere1"));
        assert_eq!(id(0x61, 0x033), Some("apple-m1"));
        assert_eq!(id(0x61, 0x051), None, "a later Apple core is not called M1");
        assert_eq!(id(0x46, 0x001), None);
    }
}
