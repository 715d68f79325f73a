//! CPUs, and which path a binary takes on each ([`verdict`](fn@verdict)).
//!
//! The table states what the architecture's or the maker's documents say of a core. A verdict says
//! what runs, never how much faster: where somebody measured, it cites them, and where a measurement
//! went the other way (Kunpeng 920, Apple M1) it says that no gain is claimed.

mod verdict;

pub use verdict::{Evidence, Fit, Path, Verdict, fit, verdict};

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
        &["armv8-a", "armv8.0"],
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
