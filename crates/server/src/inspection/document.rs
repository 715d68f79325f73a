//! What `pgassay inspect` answers, as data (`pgassay/inspect/1`).

use pgassay_inspect::Binary;
use pgassay_inspect::cpu::Verdict;
use pgassay_inspect::diff::Diff;
use serde::Serialize;
use serde_json::Value;

/// The document.
#[derive(Debug, Serialize)]
pub struct Document {
    /// `pgassay/inspect/1`.
    pub schema: &'static str,
    /// The files, in the order of the command line; a package's in its own order.
    pub files: Vec<Entry>,
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
pub struct Entry {
    /// What is in it.
    #[serde(flatten)]
    pub binary: Binary,
    /// What CPUs make of it.
    pub verdicts: Vec<Verdict>,
}

/// Something that could not be read.
#[derive(Debug, Clone, Serialize)]
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
pub struct Demand {
    /// As typed.
    pub requirement: &'static str,
    /// It is met by every file that it concerns, there is one, and none could not be read.
    pub met: bool,
    /// How many files it concerns.
    pub files: usize,
    /// How many could not be read, so that nobody knows.
    pub unread: usize,
    /// Those that do not meet it, with the reason; those that could not be read among them.
    pub unmet: Vec<(String, String)>,
}

impl Document {
    /// As JSON, with lists of single instructions where the files have them.
    ///
    /// # Errors
    /// Never in practice: every key is a string.
    pub fn json(&self) -> serde_json::Result<String> {
        let mut value = serde_json::to_value(self)?;
        let files = value.get_mut("files").and_then(Value::as_array_mut);
        for (file, entry) in files.into_iter().flatten().zip(&self.files) {
            let Some(atomics) = file.get_mut("atomics").and_then(Value::as_object_mut) else {
                continue;
            };
            // Inside the program a function is an index; a script wants its name.
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
        serde_json::to_string_pretty(&value)
    }
}
