//! On kernels with pages of which size a file loads, and why not.

use serde::{Deserialize, Serialize};

/// How the file is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Loading {
    /// LOAD segments by their alignment.
    #[serde(default)]
    pub load_segments: Vec<Alignment>,
    /// The jemalloc in the file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jemalloc: Option<Jemalloc>,
    /// What happens on kernels with pages of each size that the machine has.
    #[serde(default)]
    pub kernels: Vec<Kernel>,
}

/// LOAD segments of one alignment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alignment {
    /// p_align.
    pub align_bytes: u64,
    /// How many segments.
    pub segments: u64,
}

/// A jemalloc in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jemalloc {
    /// The largest pages that it was built for (--with-lg-page); none where that was not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u64>,
}

/// What happens on a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kernel {
    /// Its pages.
    pub page_bytes: u64,
    /// Whether the file loads and starts there.
    pub loads: Loads,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Whether a file loads and starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Loads {
    /// It does.
    Yes,
    /// With glibc 2.35 and later, or without glibc.
    NewerGlibc,
    /// It does not.
    No,
    /// Not known.
    Unknown,
}

impl Kernel {
    /// Its pages in KiB.
    pub fn page_kib(&self) -> u64 {
        self.page_bytes >> 10
    }
}

impl Loading {
    /// Pages of kernels on which the file does not load, or not with every glibc.
    pub fn failing(&self) -> impl Iterator<Item = &Kernel> {
        let fails = |kernel: &&Kernel| matches!(kernel.loads, Loads::No | Loads::NewerGlibc);
        self.kernels.iter().filter(fails)
    }

    /// The kernel with pages of so many bytes, where the machine has it.
    pub fn on(&self, page_bytes: u64) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.page_bytes == page_bytes)
    }
}
