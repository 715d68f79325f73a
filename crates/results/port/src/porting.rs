//! What `pgassay port` says, as it is printed as JSON.

use serde::Serialize;

use crate::guards::known::Processor;
use crate::rules::{Effect, Rule};

/// The document's schema.
pub const SCHEMA: &str = "pgassay/port/1";

/// What keeps sources and binaries from another processor.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Porting {
    /// `pgassay/port/1`.
    pub schema: &'static str,
    /// The version of pgassay.
    pub pgassay_version: &'static str,
    /// What was looked at.
    pub target: String,
    /// The processor that sources are to run on.
    pub processor: Processor,
    /// C and C++ files that were parsed.
    pub source_files: u64,
    /// Their lines.
    pub source_lines: u64,
    /// Rust files that were parsed.
    pub rust_files: u64,
    /// Their lines.
    pub rust_lines: u64,
    /// Sources in languages that are not analysed.
    pub not_analysed: Vec<NotAnalysed>,
    /// Build files that were read.
    pub build_files: u64,
    /// ELF files that were read.
    pub binaries: Vec<Needs>,
    /// What was found, the gravest first, then by path and line.
    pub findings: Vec<Finding>,
    /// The rules that were found to apply.
    pub rules: Vec<Rule>,
    /// Files that could not be read, and why.
    pub not_read: Vec<NotRead>,
    /// Files whose `#if` and `#endif` do not match: conditions in them are not to be relied on.
    pub unbalanced: Vec<String>,
    /// The build sets -fsigned-char, so the sign of char was not looked at.
    pub signed_char: bool,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// What it means here: milder than the rule's where a condition decides.
    pub effect: Effect,
    /// The file.
    pub path: String,
    /// Line, from 1; none in a binary.
    pub line: Option<u32>,
    /// The function, macro or variable around it.
    pub within: Option<String>,
    /// The code, or what was seen.
    pub code: String,
    /// Further places of this rule in the same function under the same condition.
    pub more: u32,
    /// The condition that decides whether it is compiled, where the sources do not.
    pub condition: Option<String>,
}

/// Sources in a language that is not analysed: nothing is known of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotAnalysed {
    /// The language.
    pub language: &'static str,
    /// How many files.
    pub files: u64,
}

/// A file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotRead {
    /// Which.
    pub path: String,
    /// Why.
    pub why: String,
}

/// What an ELF file needs beyond its architecture's baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Needs {
    /// The file.
    pub path: String,
    /// Its architecture.
    pub machine: String,
    /// How it asks for features at run time; empty if it does not.
    pub checks: Vec<String>,
    /// The extensions that its functions use.
    pub extensions: Vec<Extension>,
}

/// An extension with the functions that use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Extension {
    /// Its name, such as AVX2.
    pub name: String,
    /// Every processor of the architecture has it.
    pub baseline: bool,
    /// Instructions.
    pub instructions: u64,
    /// Functions that use it.
    pub functions: u64,
    /// Some of them, by name or address.
    pub named: Vec<String>,
}

impl Porting {
    /// Whether a source or binary was read at all.
    pub fn read_code(&self) -> bool {
        self.source_files + self.rust_files > 0 || !self.binaries.is_empty()
    }

    /// How many findings have this effect.
    pub fn count(&self, effect: Effect) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.effect == effect)
            .count()
    }

    /// The gravest effect.
    pub fn gravest(&self) -> Option<Effect> {
        self.findings.iter().map(|finding| finding.effect).max()
    }
}
