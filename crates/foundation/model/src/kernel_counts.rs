//! What kernels execute on a processor that is emulated: counts, and no time.

use serde::{Deserialize, Serialize};

/// `facts/kernel-counts.json`: what was counted, a build after the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelCounts {
    /// The builds.
    pub builds: Vec<EmulatedBuild>,
}

/// The forms compiled for one processor, and run under an emulator of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmulatedBuild {
    /// The processor, as `uname -m` names it.
    pub processor: String,
    /// What the build is for: `ARMv8.0`.
    pub level: String,
    /// The model that the emulator was.
    pub cpu: String,
    /// The compiler's version.
    pub compiler: String,
    /// Its flags.
    pub flags: Vec<String>,
    /// The emulator's version.
    pub emulator: String,
    /// Operations that each count is of.
    pub operations: u64,
    /// What each form executes.
    pub forms: Vec<CountedForm>,
}

/// What one operation of a form executes in one thread, the loop around it left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedForm {
    /// The family: `spinlock`.
    pub primitive: String,
    /// The form: `test first`.
    pub variant: String,
    /// Instructions.
    pub instructions_per_operation: f64,
    /// Pairs of exclusive (or reserving) load and store, by their loads.
    pub exclusive_pairs_per_operation: f64,
    /// Instructions that read and write memory atomically by themselves.
    pub single_atomics_per_operation: f64,
}

impl EmulatedBuild {
    /// `aarch64, ARMv8.0`.
    pub fn title(&self) -> String {
        format!("{}, {}", self.processor, self.level)
    }

    /// The counts of a form.
    pub fn form(&self, primitive: &str, variant: &str) -> Option<&CountedForm> {
        let is = |form: &&CountedForm| form.primitive == primitive && form.variant == variant;
        self.forms.iter().find(is)
    }
}
