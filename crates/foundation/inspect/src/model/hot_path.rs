//! What PostgreSQL's hot paths compile to, as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Counts;

/// How a path does its atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Technique {
    /// A64 LSE, always.
    Lse,
    /// A64 outline helpers: LSE where the CPU has it.
    Outline,
    /// A loop of load-linked and store-conditional, always (A64 exclusives, POWER, RISC-V lr/sc).
    LlSc,
    /// RISC-V or POWER operations in memory.
    Amo,
    /// x86 locked instructions.
    Locked,
    /// z/Architecture interlocked instructions.
    Interlocked,
    /// More than one of the above.
    Mixed,
    /// An instruction made for the purpose (CRC, popcount, ISB, PAUSE).
    Instruction,
    /// Chosen at run time between an instruction and a table or loop.
    RunTimeChosen,
    /// A table or loop of ordinary instructions.
    Software,
    /// In functions of the server's atomics that are called: compiled without inlining (-O0).
    Called,
    /// The functions are there and hold no such instruction.
    None,
    /// No function of the path can be named in this file.
    Unnamed,
}

impl Technique {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lse => "LSE",
            Self::Outline => "outline atomics",
            Self::LlSc => "LL/SC loop",
            Self::Amo => "AMO",
            Self::Locked => "lock prefix",
            Self::Interlocked => "interlocked",
            Self::Mixed => "mixed",
            Self::Instruction => "instruction",
            Self::RunTimeChosen => "chosen at run time",
            Self::Software => "software",
            Self::Called => "called, not inlined",
            Self::None => "none",
            Self::Unnamed => "not named in this file",
        }
    }
}

/// One function of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HotFunction {
    /// Symbol, with a compiler's suffix (`.isra.0`) if it has one.
    pub name: String,
    /// Address.
    pub address: u64,
    /// Atomics in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: Counts,
    /// Outline calls in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outline_calls: BTreeMap<String, u64>,
    /// The file does not name it; who calls it leaves one choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named_by_callers: bool,
    /// It is not a function of its own here but inlined into this one, as DWARF says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_into: Option<String>,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HotPath {
    /// Stable name for scripts.
    pub id: String,
    /// For people.
    pub title: String,
    /// How it is done.
    pub technique: Technique,
    /// Its functions that the file names.
    pub functions: Vec<HotFunction>,
    /// In a sentence.
    pub detail: String,
}
