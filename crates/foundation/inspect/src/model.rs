//! What an inspection found, as data: every output format of the program renders this, and a
//! recorded run stores it, so it can be read back by a later version.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::page_sizes::Loading;
use crate::process::ProcessFacts;

mod hot_path;

pub use hot_path::{HotFunction, HotPath, Technique};

/// The instruction set of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Machine {
    /// AMD64, Intel 64.
    #[serde(rename = "x86-64")]
    X86_64,
    /// 64-bit Arm (A64 instructions).
    #[serde(rename = "aarch64")]
    Aarch64,
    /// 64-bit POWER, little-endian.
    #[serde(rename = "ppc64le")]
    Ppc64le,
    /// 64-bit RISC-V.
    #[serde(rename = "riscv64")]
    Riscv64,
    /// IBM z/Architecture.
    #[serde(rename = "s390x")]
    S390x,
    /// One whose instructions are not read; the name says which.
    #[serde(untagged)]
    Other(String),
}

impl Machine {
    /// The name used in tables and JSON.
    pub fn name(&self) -> &str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "aarch64",
            Self::Ppc64le => "ppc64le",
            Self::Riscv64 => "riscv64",
            Self::S390x => "s390x",
            Self::Other(name) => name,
        }
    }
}

/// A function in a document: by its name in what `pgassay inspect` prints, elsewhere by its place in
/// the list of functions.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "it describes what is serialized, and is never made"
)]
enum FunctionName {
    Name(String),
    Place(u32),
}

/// What sort of ELF file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A program at a fixed address.
    Executable,
    /// A position-independent program.
    PieExecutable,
    /// A shared library or loadable module.
    SharedLibrary,
    /// An object file not yet linked.
    Object,
    /// A file that holds only what was stripped from another (symbols, DWARF).
    DebugInfo,
}

/// Atomic instructions by what they do, across the architectures.
///
/// `docs/inspect.md` lists the encodings behind each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A64 LDXR, LDAXR, LDXP, LDAXP: opens an exclusive loop.
    LoadExclusive,
    /// A64 STXR, STLXR, STXP, STLXP: closes it, and may fail.
    StoreExclusive,
    /// A64 LSE compare and swap.
    LseCas,
    /// A64 LSE compare and swap of a register pair.
    LseCasp,
    /// A64 LSE swap.
    LseSwp,
    /// A64 LSE add.
    LseLdadd,
    /// A64 LSE and-not.
    LseLdclr,
    /// A64 LSE exclusive or.
    LseLdeor,
    /// A64 LSE or.
    LseLdset,
    /// A64 LSE minimum and maximum, signed and unsigned.
    LseMinmax,
    /// A64 LSE128 (Armv9.4): 128-bit swap, and-not, or.
    Lse128,
    /// x86 `lock cmpxchg`.
    LockCmpxchg,
    /// x86 `lock cmpxchg8b`, `lock cmpxchg16b`.
    LockCmpxchgWide,
    /// x86 `lock xadd`.
    LockXadd,
    /// x86 `lock` with add, sub, inc, dec, adc, sbb, neg.
    LockAdd,
    /// x86 `lock` with and, or, xor, not.
    LockLogic,
    /// x86 `lock` with bts, btr, btc.
    LockBit,
    /// x86 `xchg` with memory, locked with or without the prefix.
    Xchg,
    /// POWER larx, RISC-V lr: opens a reservation.
    LoadReserved,
    /// POWER stcx., RISC-V sc: closes it, and may fail.
    StoreConditional,
    /// POWER 3.0 or RISC-V swap in memory.
    AmoSwap,
    /// POWER 3.0 or RISC-V add in memory.
    AmoAdd,
    /// POWER 3.0 or RISC-V and, or, exclusive or in memory.
    AmoLogic,
    /// POWER 3.0 or RISC-V minimum and maximum in memory, and POWER's other memory operations.
    AmoOther,
    /// RISC-V Zacas compare and swap.
    AmoCas,
    /// z/Architecture CS, CDS and their long forms.
    CompareAndSwap,
    /// z/Architecture CSST.
    CompareAndSwapAndStore,
    /// z/Architecture LAA, LAAL, LAN, LAO, LAX and their long forms.
    LoadAndOp,
    /// z/Architecture TS.
    TestAndSet,
    /// z/Architecture PLO.
    PerformLockedOperation,
}

impl Class {
    /// The name used in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::LoadExclusive => "load-exclusive",
            Self::StoreExclusive => "store-exclusive",
            Self::LseCas => "lse-cas",
            Self::LseCasp => "lse-casp",
            Self::LseSwp => "lse-swp",
            Self::LseLdadd => "lse-ldadd",
            Self::LseLdclr => "lse-ldclr",
            Self::LseLdeor => "lse-ldeor",
            Self::LseLdset => "lse-ldset",
            Self::LseMinmax => "lse-minmax",
            Self::Lse128 => "lse128",
            Self::LockCmpxchg => "lock-cmpxchg",
            Self::LockCmpxchgWide => "lock-cmpxchg-wide",
            Self::LockXadd => "lock-xadd",
            Self::LockAdd => "lock-add",
            Self::LockLogic => "lock-logic",
            Self::LockBit => "lock-bit",
            Self::Xchg => "xchg",
            Self::LoadReserved => "load-reserved",
            Self::StoreConditional => "store-conditional",
            Self::AmoSwap => "amo-swap",
            Self::AmoAdd => "amo-add",
            Self::AmoLogic => "amo-logic",
            Self::AmoOther => "amo-other",
            Self::AmoCas => "amo-cas",
            Self::CompareAndSwap => "compare-and-swap",
            Self::CompareAndSwapAndStore => "compare-and-swap-and-store",
            Self::LoadAndOp => "load-and-op",
            Self::TestAndSet => "test-and-set",
            Self::PerformLockedOperation => "perform-locked-operation",
        }
    }

    /// One of the A64 LSE or LSE128 instructions.
    pub fn is_lse(self) -> bool {
        matches!(
            self,
            Self::LseCas
                | Self::LseCasp
                | Self::LseSwp
                | Self::LseLdadd
                | Self::LseLdclr
                | Self::LseLdeor
                | Self::LseLdset
                | Self::LseMinmax
                | Self::Lse128
        )
    }

    /// Half of a loop of load-linked and store-conditional, under any of its names.
    pub fn is_llsc(self) -> bool {
        matches!(
            self,
            Self::LoadExclusive
                | Self::StoreExclusive
                | Self::LoadReserved
                | Self::StoreConditional
        )
    }
}

/// The memory ordering that the instruction itself gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ordering {
    /// None of its own; barriers around it may give one.
    Relaxed,
    /// Acquire.
    Acquire,
    /// Release.
    Release,
    /// Acquire and release.
    AcqRel,
    /// A full barrier (every locked x86 instruction, s390x).
    Full,
}

/// One atomic instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Atomic {
    /// Virtual address in the file's own numbering, as objdump prints it.
    pub address: u64,
    /// Its class.
    pub class: Class,
    /// As an assembler would write it, without operands.
    pub mnemonic: Cow<'static, str>,
    /// Bits accessed in memory.
    pub width_bits: u16,
    /// Ordering.
    pub ordering: Ordering,
    /// Index into [`Atomics::functions`]; none outside function bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<FunctionName>"))]
    pub function: Option<u32>,
    /// The functions that DWARF says were inlined around it, the outermost first: the last is the one
    /// in whose source it stands, the first was inlined into `function`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<String>,
}

/// How many instructions of each class.
pub type Counts = BTreeMap<Class, u64>;

/// A function that holds atomic instructions or calls outline helpers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionAtomics {
    /// Symbol name; none where the file was stripped of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Start address.
    pub address: u64,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Instructions in it, by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: Counts,
    /// Calls of outline helpers from it, by helper name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outline_calls: BTreeMap<String, u64>,
    /// Of both, those that came by inlining: the functions inlined, outermost first, joined by ` > `.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inlined: BTreeMap<String, u64>,
    /// The name is not in the file but follows from who calls the function (PostgreSQL only).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named_by_callers: bool,
    /// This function is itself an outline helper.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outline_helper: bool,
}

impl FunctionAtomics {
    /// The symbol, or the address in angle brackets where there is none.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("<{:#x}>", self.address),
        }
    }

    /// Atomic instructions and outline calls together.
    pub fn total(&self) -> u64 {
        sum(self.counts.values().chain(self.outline_calls.values()))
    }
}

/// An outline helper: the LSE instruction if the flag byte is set, else an exclusive loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutlineHelper {
    /// `__aarch64_ldadd4_acq_rel` and the like, told from its instructions.
    pub name: String,
    /// The same name stood in a symbol table.
    pub named_by_symbol: bool,
    /// Entry address.
    pub address: u64,
    /// Address of the byte it tests (`__aarch64_have_lse_atomics`).
    pub flag_address: u64,
    /// It starts with a BTI landing pad.
    pub bti: bool,
    /// Branches to it, tail calls included.
    pub call_sites: u64,
}

/// One branch to an outline helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutlineCall {
    /// Address of the branch.
    pub address: u64,
    /// Index into [`Outline::helpers`].
    pub helper: u32,
    /// Index into [`Atomics::functions`]; none outside function bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<FunctionName>"))]
    pub function: Option<u32>,
    /// As for [`Atomic::inlined`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<String>,
}

/// The outline atomics of an aarch64 file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outline {
    /// The helpers.
    pub helpers: Vec<OutlineHelper>,
    /// The flag bytes they test; one in a normal link.
    pub flag_addresses: Vec<u64>,
    /// Every branch to a helper.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<OutlineCall>,
    /// LSE instructions inside helpers.
    pub lse_in_helpers: u64,
    /// Exclusive loads and stores inside helpers.
    pub exclusive_in_helpers: u64,
}

/// The atomic instructions of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Atomics {
    /// Inside function bounds, by class; those of outline helpers included.
    pub counts: Counts,
    /// Of these, A64 LSE instructions behind a run-time check of the program's own (Go's), not of an outline helper.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checked_lse: u64,
    /// Exclusive loads and stores that run where that check fails.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checked_exclusive: u64,
    /// The functions that hold any, by address.
    pub functions: Vec<FunctionAtomics>,
    /// Each instruction inside function bounds, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Atomic>,
    /// Bytes outside function bounds, or marked as data, that read as atomics: data in text, or
    /// code whose bounds nothing records. Not in `counts`.
    #[serde(default)]
    pub outside_count: u64,
    /// Each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<Atomic>,
    /// Outline atomics, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<Outline>,
}

impl Atomics {
    /// Drops the lists of single instructions and call sites; what was counted stays.
    pub fn forget_addresses(&mut self) {
        self.instructions = Vec::new();
        self.outside = Vec::new();
        if let Some(outline) = &mut self.outline {
            outline.calls = Vec::new();
        }
    }

    /// Addresses of instructions and call sites, ascending.
    pub(crate) fn addresses(&self) -> Vec<u64> {
        let calls = self.outline.iter().flat_map(|o| &o.calls);
        let mut all: Vec<u64> = self
            .instructions
            .iter()
            .map(|a| a.address)
            .chain(calls.map(|c| c.address))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// How many instructions satisfy `pick`.
    pub fn count(&self, pick: impl Fn(Class) -> bool) -> u64 {
        let picked = self.counts.iter().filter(|(c, _)| pick(**c));
        sum(picked.map(|(_, n)| n))
    }

    /// LSE instructions that run without a check: outside outline helpers and such checks of the program's own
    /// as are recognised.
    pub fn inline_lse(&self) -> u64 {
        let in_helpers = self.outline.as_ref().map_or(0, |o| o.lse_in_helpers);
        let checked = in_helpers.saturating_add(self.checked_lse);
        self.count(Class::is_lse).saturating_sub(checked)
    }

    /// Exclusive loads and stores, reservations and conditional stores that run without a check.
    pub fn inline_llsc(&self) -> u64 {
        let in_helpers = self.outline.as_ref().map_or(0, |o| o.exclusive_in_helpers);
        let checked = in_helpers.saturating_add(self.checked_exclusive);
        self.count(Class::is_llsc).saturating_sub(checked)
    }

    /// Branches to outline helpers.
    pub fn outline_calls(&self) -> u64 {
        let helpers = self.outline.iter().flat_map(|o| &o.helpers);
        sum(helpers.map(|h| &h.call_sites))
    }

    /// Calls of outline helpers that are counted but not in the list.
    pub fn call_sites_not_listed(&self) -> u64 {
        let listed = self.outline.iter().map(|o| o.calls.len() as u64);
        self.outline_calls().saturating_sub(listed.sum())
    }

    /// How many instructions and call sites are listed one by one.
    pub fn listed(&self) -> usize {
        let calls = self.outline.iter().map(|o| o.calls.len());
        self.instructions.len() + self.outside.len() + calls.sum::<usize>()
    }

    /// Every atomic instruction inside function bounds.
    pub fn total(&self) -> u64 {
        sum(self.counts.values())
    }

    /// The same with the calls of outline helpers.
    pub fn total_with_calls(&self) -> u64 {
        self.total().saturating_add(self.outline_calls())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing facts: more instructions in helpers than in the file.
    #[test]
    fn figures_of_others_do_not_overflow() {
        let atomics: Atomics = serde_json::from_value(serde_json::json!({
            "counts": {"load-exclusive": u64::MAX, "store-exclusive": 2, "lse-cas": 1},
            "functions": [],
            "outline": {
                "helpers": [], "flag_addresses": [],
                "lse_in_helpers": 9, "exclusive_in_helpers": 3,
            },
        }))
        .unwrap();
        assert_eq!(atomics.inline_lse(), 0);
        assert_eq!(atomics.total_with_calls(), u64::MAX);
        assert_eq!(atomics.inline_llsc(), u64::MAX - 3);
    }
}

/// Left out of documents.
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The figures of a file of facts may be anybody's.
fn sum<'a>(counts: impl Iterator<Item = &'a u64>) -> u64 {
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

/// Instructions that are not atomics but tell how the build waits, checks and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Hint {
    /// A64 ISB: a delay of tens of cycles when spun on.
    Isb,
    /// A64 YIELD: a no-op on most cores.
    Yield,
    /// A64 WFE.
    Wfe,
    /// x86 PAUSE or RISC-V PAUSE.
    Pause,
    /// CRC-32C by an instruction of its own (SSE 4.2, Armv8 CRC).
    Crc32c,
    /// Carry-less multiplication (PCLMULQDQ, PMULL), folds CRCs.
    CarrylessMultiply,
    /// Population count of a general register.
    Popcnt,
    /// Population count over a vector (CNT, VPOPCNT).
    VectorPopcnt,
}

/// Where such an instruction stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HintCount {
    /// Which.
    pub hint: Hint,
    /// How many in the file, inside function bounds.
    pub count: u64,
    /// Functions that hold it, at most sixteen, by name or `<address>`.
    pub functions: Vec<String>,
}

/// How well function bounds are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionBounds {
    /// Functions known.
    pub functions: u64,
    /// Of these, with a name.
    pub named: u64,
    /// Bounds from each source: `symtab`, `debug-file`, `debugdata`, `dynsym`, `gopclntab`, `eh-frame`.
    pub by_source: BTreeMap<String, u64>,
    /// Bytes of executable sections inside bounds.
    pub covered_bytes: u64,
    /// Bytes of executable sections.
    pub text_bytes: u64,
}

/// What the file says about how it was compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuildFacts {
    /// Compilers, from `.comment`, annobin notes and `DW_AT_producer`.
    pub compilers: Vec<String>,
    /// Flags with where they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<RecordedFlags>,
    /// GNU build id in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Name of the separate debug file, from `.gnu_debuglink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debuglink: Option<String>,
    /// No `.symtab`.
    pub stripped: bool,
    /// DWARF is in the file.
    pub has_dwarf: bool,
}

/// Compiler flags and where they were read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedFlags {
    /// `DW_AT_producer`, `.GCC.command.line`, `.gnu.build.attributes` or `pg_config`.
    pub source: String,
    /// The flags as recorded.
    pub flags: String,
}

/// What a PostgreSQL server binary tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PostgresFacts {
    /// `15.18`, `19beta1`.
    pub version: String,
    /// The whole of what `SELECT version()` returns, where it is in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_text: Option<String>,
    /// BLCKSZ, from the read-only setting's own table entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size_bytes: Option<u32>,
    /// WAL block size, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_block_size_bytes: Option<u32>,
    /// Arguments of configure, as pg_config shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configure: Option<String>,
}

impl PostgresFacts {
    /// 15 of `15.18`.
    pub fn major(&self) -> Option<u32> {
        let digits = self.version.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    }
}

/// Hardening of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardening {
    /// Position-independent.
    pub pie: bool,
    /// `full` (with immediate binding), `partial` or `none`.
    pub relro: String,
    /// The stack may be executed.
    pub executable_stack: bool,
    /// Marked for branch-target identification (BTI on Arm, IBT on x86).
    pub branch_targets: bool,
    /// Marked for return-address protection (PAC on Arm, shadow stack on x86).
    pub return_addresses: bool,
    /// Functions that sign the return address (A64 PACIASP, PACIBSP).
    #[serde(default)]
    pub pac_instructions: u64,
    /// Stack canaries are checked.
    pub stack_protector: bool,
    /// Checked variants of libc functions are imported.
    pub fortified: bool,
}

/// Everything that was found in one ELF file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Binary {
    /// The name it was given: a path, or `package!member`.
    pub path: String,
    /// Instruction set.
    pub machine: Machine,
    /// Sort of file.
    pub kind: FileKind,
    /// Length of the file.
    pub size_bytes: u64,
    /// How it was built.
    pub build: BuildFacts,
    /// The PostgreSQL server in it, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<PostgresFacts>,
    /// Hardening.
    pub hardening: Hardening,
    /// Function bounds.
    pub bounds: FunctionBounds,
    /// On which kernels it loads.
    #[serde(default)]
    pub loading: Loading,
    /// Atomics.
    pub atomics: Atomics,
    /// Delay, CRC and popcount instructions.
    pub hints: Vec<HintCount>,
    /// PostgreSQL's hot paths; empty for other programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot_paths: Vec<HotPath>,
    /// The process that runs it, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessFacts>,
    /// What could not be read, or reads strangely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Binary {
    /// Why its atomics are not known: code of another machine, or code outside known functions.
    pub fn unknown_atomics(&self) -> Option<String> {
        if let Machine::Other(name) = &self.machine {
            return Some(format!("instructions of {name} are not read"));
        }
        let FunctionBounds {
            covered_bytes,
            text_bytes,
            ..
        } = self.bounds;
        // Where functions are known, what lies between them is data for the most part.
        if self.atomics.outside_count == 0 || covered_bytes >= text_bytes / 2 {
            return None;
        }
        let share = 100.0 * covered_bytes as f64 / text_bytes.max(1) as f64;
        Some(format!(
            "{} byte patterns that read as atomics lie outside known functions, which are {share:.0}% of the code",
            self.atomics.outside_count
        ))
    }
}
