//! The plan file of `pgassay patch`.

use std::fs;
use std::path::Path;

use anyhow::bail;
use pgassay_model::Failure;
use serde::{Deserialize, Serialize};

/// The plan file's schema.
pub const SCHEMA: &str = "pgassay/patch-plan/1";

/// What others need to repeat a measurement, apart from the source itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchPlan {
    /// `pgassay/patch-plan/1`.
    pub schema: String,
    /// The base's commit, where it came from git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The hash of the source's files, for a base that is no commit.
    pub source_hash: String,
    /// The version that the source gives itself.
    pub version: String,
    /// The patches, whole.
    pub patches: Vec<PlannedPatch>,
    /// As `pgassay build --variant`, without the name.
    pub variant: String,
    /// Flags of `pgassay compare`.
    pub compare: Vec<String>,
}

impl PatchPlan {
    /// Whether both plans build the same code; the flags of the comparison are ignored.
    pub fn same_code(&self, other: &Self) -> bool {
        let texts = |plan: &Self| {
            let patches = plan.patches.iter();
            patches.map(|patch| patch.text.clone()).collect::<Vec<_>>()
        };
        (&self.source_hash, &self.variant, texts(self))
            == (&other.source_hash, &other.variant, texts(other))
    }
}

/// A patch by its file's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPatch {
    /// The name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Reads a plan file.
///
/// # Errors
/// Where it is none.
pub fn read_plan(path: &Path) -> anyhow::Result<PatchPlan> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--plan {}: {error}", path.display())))?;
    let plan: PatchPlan = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "--plan {}: not a plan of pgassay patch: {error}",
            path.display()
        ))
        .with_remedy("a plan is the patch-plan.json that pgassay patch writes when it has measured")
    })?;
    if plan.schema != SCHEMA || plan.patches.is_empty() {
        bail!(Failure::usage(format!(
            "--plan {}: not a plan of pgassay patch ({})",
            path.display(),
            plan.schema
        )));
    }
    Ok(plan)
}
