//! Recorded call chains, and the names of the functions in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Name of the object that stands for the kernel and its modules.
pub const KERNEL: &str = "[kernel]";

/// The call chains of one window, folded a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackRecord {
    /// Samples a second of CPU time that were asked for; 0 where one was at each so many occurrences.
    pub frequency_hz: u32,
    /// Files that addresses lie in, by build id where they have one, else by path.
    pub objects: Vec<String>,
    /// Addresses as the files have them (virtual address of the ELF file): index of the object,
    /// address. The kernel's are its own.
    pub frames: Vec<(u32, u64)>,
    /// The different chains, innermost frame first, as indices into `frames`.
    pub chains: Vec<Vec<u32>>,
    /// One entry a second: index of the chain, samples.
    pub seconds: Vec<Vec<(u32, u32)>>,
    /// How often the sampled event happened in each chain, where that is no time on a CPU: index of the chain,
    /// occurrences.
    #[serde(default, alias = "happenings", skip_serializing_if = "Vec::is_empty")]
    pub event_counts: Vec<(u32, u64)>,
    /// Samples that the kernel had no room for.
    #[serde(default)]
    pub lost: u64,
    /// How callers were found: `frame pointers` or `unwind tables`.
    #[serde(default)]
    pub callers: String,
}

/// The call chains in which an event of the processor or the kernel happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventStacks {
    /// Its name: `core/instructions`.
    pub event: String,
    /// Where it happened.
    pub stacks: StackRecord,
}

/// Names of the functions that were hit: `facts/symbols-ARM.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SymbolTable {
    /// By object, as a [`StackRecord`] names it.
    pub objects: BTreeMap<String, ObjectSymbols>,
}

impl SymbolTable {
    /// Takes another table's functions in.
    pub fn merge(&mut self, other: &Self) {
        for (key, symbols) in &other.objects {
            let known = self.objects.entry(key.clone()).or_default();
            known.path.clone_from(&symbols.path);
            known.functions.extend(symbols.functions.iter().cloned());
            known.functions.sort();
            known.functions.dedup();
        }
    }
}

/// The functions of one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectSymbols {
    /// Where the file lay.
    pub path: String,
    /// Start, end and name of each function that was hit, by start; the name is empty where only
    /// its bounds are known.
    pub functions: Vec<(u64, u64, String)>,
}

impl ObjectSymbols {
    /// The function at an address: its start, end and name.
    pub fn find(&self, address: u64) -> Option<&(u64, u64, String)> {
        let after = self
            .functions
            .partition_point(|(start, _, _)| *start <= address);
        let found = self.functions.get(after.checked_sub(1)?)?;
        (address < found.1).then_some(found)
    }
}
