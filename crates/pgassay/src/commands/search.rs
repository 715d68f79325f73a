//! A recorded search of `pgassay bisect`.

use std::path::Path;

use anyhow::bail;
use pgassay_analysis::search::document::Bisected;
use pgassay_analysis::search::steps::Traced;
use pgassay_model::Failure;
use pgassay_report::{Document, Report};
use pgassay_sys::input;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The name of the facts that a search of settings writes down.
pub const SETTINGS: &str = "bisect";
/// The same of a search of commits or patches.
pub const STEPS: &str = "steps";

/// A recorded search.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Recorded {
    /// Of settings.
    Settings(Box<Bisected>),
    /// Of commits or patches.
    Steps(Box<Traced>),
}

impl Report for Recorded {
    fn document(&self) -> Document {
        match self {
            Self::Settings(search) => search.document(),
            Self::Steps(search) => search.document(),
        }
    }
}

/// The search of a recorded run; none where it is another kind of run.
///
/// # Errors
/// Where its record is damaged.
pub fn recorded(dir: &Path) -> anyhow::Result<Option<Recorded>> {
    if let Some(document) = fact(dir, SETTINGS)? {
        return Ok(Some(Recorded::Settings(Box::new(document))));
    }
    let steps = fact(dir, STEPS)?;
    Ok(steps.map(|document| Recorded::Steps(Box::new(document))))
}

/// Larger documents are none of a search.
const LARGEST: u64 = 64 << 20;

fn fact<T: DeserializeOwned>(dir: &Path, name: &str) -> anyhow::Result<Option<T>> {
    let path = dir.join("facts").join(format!("{name}.json"));
    let Ok(bytes) = input::read(&path, LARGEST) else {
        return Ok(None);
    };
    match serde_json::from_slice(&bytes) {
        Ok(document) => Ok(Some(document)),
        Err(error) => bail!(Failure::usage(format!(
            "{} is damaged: {error}",
            path.display()
        ))),
    }
}
