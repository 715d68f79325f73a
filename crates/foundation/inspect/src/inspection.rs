//! What `pgassay inspect` answers, as data (`pgassay/inspect/1`).

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Binary;
use crate::cpu::Verdict;
use crate::diff::Diff;
use crate::modules::Module;

/// Files with what was found in them, and what was asked of them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inspection {
    /// `pgassay/inspect/1`.
    pub schema: &'static str,
    /// The files, in the order of the command line; a package's in its own order.
    #[serde(serialize_with = "with_names")]
    pub files: Vec<Entry>,
    /// Modules of a server's library directory, where a target was named: what they need of the
    /// processor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Module>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Demands held against the files.
    pub requirements: Vec<Demand>,
    /// The difference of two files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
}

/// One file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// What is in it.
    #[serde(flatten)]
    pub binary: Binary,
    /// What CPUs make of it.
    pub verdicts: Vec<Verdict>,
}

/// Something that could not be read.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Its name.
    pub path: String,
    /// Why.
    pub error: String,
    /// It was named on the command line, not found within a directory or package.
    pub named: bool,
}

/// A demand and what became of it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Demand {
    /// As typed.
    pub requirement: String,
    /// It is met by every file that it concerns, there is one, and none could not be read.
    pub met: bool,
    /// How many files it concerns.
    pub files: usize,
    /// How many could not be read, so that nobody knows.
    pub unread: usize,
    /// Those that do not meet it, with the reason; those that could not be read among them.
    pub unmet: Vec<(String, String)>,
}

impl Inspection {
    /// [`Inspection::schema`].
    pub const SCHEMA: &str = "pgassay/inspect/1";
}

/// The files, with names of functions for single instructions: inside the program a function is
/// an index.
fn with_names<S: Serializer>(files: &[Entry], serializer: S) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(files).map_err(S::Error::custom)?;
    for (file, entry) in value.as_array_mut().into_iter().flatten().zip(files) {
        let Some(atomics) = file.get_mut("atomics").and_then(Value::as_object_mut) else {
            continue;
        };
        let name = |index: &Value| {
            let index = index.as_u64().and_then(|i| usize::try_from(i).ok());
            index
                .and_then(|i| entry.binary.atomics.functions.get(i))
                .map(|f| f.label())
        };
        let mut lists: Vec<&mut Value> = Vec::new();
        for (key, list) in atomics.iter_mut() {
            match key.as_str() {
                "instructions" => lists.push(list),
                "outline" => lists.extend(list.get_mut("calls")),
                _ => {}
            }
        }
        for item in lists.into_iter().filter_map(Value::as_array_mut).flatten() {
            if let Some(label) = item.get("function").and_then(name) {
                item["function"] = label.into();
            }
        }
    }
    value.serialize(serializer)
}
