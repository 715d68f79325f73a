//! What is kept of a build, in its own directory: `pgassay-build.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pgassay_inspect::Binary;
use serde::{Deserialize, Serialize};

use super::compiler::Compiler;
use super::patches::PatchFacts;
use super::place::Place;
use super::recipe::System;
use super::source::SourceFacts;

/// The record's name in the installation's directory.
const FILE: &str = "pgassay-build.json";

/// The schema of a record.
const SCHEMA: &str = "pgassay/build/1";

/// One build, as it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuildRecord {
    /// `pgassay/build/1`.
    pub schema: String,
    /// The target is `build:` and this.
    pub name: String,
    /// The installation.
    pub prefix: PathBuf,
    /// A hash of all that decides the outcome: with the same one nothing is built again.
    pub fingerprint: String,
    /// PostgreSQL's version, as the source gives it.
    pub version: String,
    /// The source.
    pub source: SourceFacts,
    /// Patches applied to it, in order.
    #[serde(default)]
    pub patches: Vec<AppliedPatch>,
    /// The variant's name.
    pub variant: String,
    /// Presets that it is made of.
    #[serde(default)]
    pub presets: Vec<String>,
    /// autoconf or meson.
    pub system: System,
    /// The triplet of a cross-build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The compiler.
    pub compiler: Compiler,
    /// Compiler flags asked for, the default among them.
    pub flags_asked: Vec<String>,
    /// Whether these were to be all flags, without the default -O2.
    #[serde(default)]
    pub flags_exact: bool,
    /// CFLAGS that the build system recorded; autoconf only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags_recorded: Option<String>,
    /// The command that compiled the LWLocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lwlock_command: Option<String>,
    /// Arguments of configure or of meson setup.
    pub options: Vec<String>,
    /// The object order, where it is not the linker's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// When it was done, UTC.
    pub finished: String,
    /// Seconds of each step; empty for a relinked layout.
    #[serde(default)]
    pub seconds: Vec<(String, f64)>,
    /// Everything that configure and the compiler said.
    pub log: PathBuf,
    /// The pgassay that made it.
    pub pgassay_version: String,
    /// What inspect finds in the server, single instructions left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<Binary>,
}

/// A patch and how it went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedPatch {
    /// File and hash.
    #[serde(flatten)]
    pub facts: PatchFacts,
    /// Hunks that were found elsewhere than the patch says, in patch(1)'s words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inexact: Vec<String>,
}

/// A random order of the objects in the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layout {
    /// Which, from 1.
    pub number: u32,
    /// The seed of the order.
    pub seed: u64,
    /// How many objects were ordered.
    pub objects: usize,
    /// SHA-256 of the linked server.
    pub sha256: String,
}

impl BuildRecord {
    /// The schema's name, for a new record.
    pub fn schema() -> String {
        SCHEMA.to_owned()
    }

    /// Writes the record into `dir`, aside and renamed.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("cannot serialize")? + "\n";
        let aside = dir.join(format!("{FILE}.new"));
        fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, dir.join(FILE)))
            .with_context(|| format!("{} can't be written", dir.join(FILE).display()))
    }

    /// The record in an installation's directory; `None` where there is none
    /// that this program understands.
    pub fn read(dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(dir.join(FILE)).ok()?;
        serde_json::from_str::<Self>(&text)
            .ok()
            .filter(|record| record.schema == SCHEMA)
    }

    /// All builds, by name.
    pub fn all(place: &Place) -> Vec<Self> {
        let mut all: Vec<Self> = fs::read_dir(place.builds())
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Self::read(&entry.path()))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// An account without the lists of single instructions, which are found again
/// from the binary when they are wanted.
pub fn summary(mut binary: Binary) -> Binary {
    binary.atomics.instructions.clear();
    binary.atomics.outside.clear();
    if let Some(outline) = &mut binary.atomics.outline {
        outline.calls.clear();
    }
    binary
}
