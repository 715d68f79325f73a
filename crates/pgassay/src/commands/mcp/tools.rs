//! What an assistant can ask for.

use std::path::PathBuf;
use std::sync::Arc;

use pgassay_analysis::Analysis;
use pgassay_analysis::kernels::side_by_side;
use pgassay_analysis::summary::Summary;
use pgassay_report::{Beside, Document, TextStyle};
use serde_json::{Value, json};

use crate::commands::concluded::Concluded;
use crate::commands::serve::index::{Index, Is};

/// Characters of an answer.
const LONGEST: usize = 48_000;
/// Runs in a list, unless more are asked for, and at most.
const FEW: usize = 20;
const MOST: usize = 100;

/// Sections of a report that say why.
const WHY: [&str; 4] = ["findings", "diagnosis", "observed", "checkpoints"];

/// The tools, over the runs of a directory.
pub(super) struct Tools {
    index: Arc<Index>,
}

/// The tools as the protocol describes them.
pub(super) fn described() -> Value {
    let run = json!({ "type": "string", "description": "The run's name, or last, or previous." });
    let offset = json!({
        "type": "integer",
        "minimum": 0,
        "description": "Characters to leave out, where an answer was too long.",
    });
    let tool = |name: &str, description: &str, properties: Value, required: Value| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
        })
    };
    json!([
        tool(
            "list_runs",
            "The recorded measurements, newest first: what was measured on which server, the peak with \
             its interval, what limits it, and how far the measurement was disturbed.",
            json!({
                "search": { "type": "string", "description": "Words that all must occur." },
                "limit": { "type": "integer", "minimum": 1, "maximum": MOST },
            }),
            json!([]),
        ),
        tool(
            "read_run",
            "The report of one run.",
            json!({
                "run": run,
                "format": { "type": "string", "enum": ["text", "markdown", "json"] },
                "offset": offset,
            }),
            json!(["run"]),
        ),
        tool(
            "compare_runs",
            "Two to eight runs side by side: throughput, latency, CPU time, and in what they differ.",
            json!({
                "runs": { "type": "array", "items": run, "minItems": 2, "maxItems": Beside::MOST },
                "offset": offset,
            }),
            json!(["runs"]),
        ),
        tool(
            "why",
            "What holds a run's server back: each cause with its evidence, and what to do about it.",
            json!({ "run": run, "offset": offset }),
            json!(["run"]),
        ),
    ])
}

impl Tools {
    pub(super) fn new(index: Arc<Index>) -> Self {
        Self { index }
    }

    /// What a tool answers, or why it can't; `None` where there is no such tool.
    pub(super) fn call(&self, name: &str, arguments: &Value) -> Option<Result<String, String>> {
        let offset = arguments.get("offset").and_then(Value::as_u64).unwrap_or(0);
        let text = match name {
            "list_runs" => return Some(self.list(arguments)),
            "read_run" => self.read(arguments),
            "compare_runs" => self.compare(arguments),
            "why" => self.why(arguments),
            _ => return None,
        };
        Some(text.map(|text| part(&text, usize::try_from(offset).unwrap_or(usize::MAX))))
    }

    fn list(&self, arguments: &Value) -> Result<String, String> {
        let search = arguments
            .get("search")
            .and_then(Value::as_str)
            .unwrap_or("");
        let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
        let limit = arguments.get("limit").and_then(Value::as_u64);
        let limit = limit.map_or(FEW, |n| usize::try_from(n).unwrap_or(MOST).clamp(1, MOST));
        let mut found: Vec<Value> = Vec::new();
        let runs = self.index.runs();
        for (run, is) in &runs {
            if found.len() == limit {
                break;
            }
            // Without words only those that are shown are read.
            let is = match is {
                Is::Unread => self.index.read(run).unwrap_or(Is::Unread),
                is => is.clone(),
            };
            let value = match &is {
                Is::Read(summary) => {
                    let text = summary.searched();
                    if !words.iter().all(|word| text.contains(word)) {
                        continue;
                    }
                    in_list(summary)
                }
                _ if !words.is_empty() => continue,
                Is::Running => json!({ "run": run, "state": "running" }),
                Is::Unreadable(why) => json!({ "run": run, "unreadable": **why }),
                Is::Unread => json!({ "run": run }),
            };
            found.push(value);
        }
        let list = json!({ "runs_recorded": runs.len(), "runs": found });
        Ok(part(&pgassay_report::json(&list), 0))
    }

    fn read(&self, arguments: &Value) -> Result<String, String> {
        let look = self.look(arguments.get("run"))?;
        match arguments.get("format").and_then(Value::as_str) {
            None | Some("text") => Ok(pgassay_report::text(&look.document(), &style())),
            Some("markdown") => Ok(pgassay_report::markdown(&look.document())),
            Some("json") => Ok(look.json()),
            Some(other) => Err(format!("format is text, markdown or json, not {other}")),
        }
    }

    fn compare(&self, arguments: &Value) -> Result<String, String> {
        let names = arguments.get("runs").and_then(Value::as_array);
        let names = names.filter(|names| (2..=Beside::MOST).contains(&names.len()));
        let names = names.ok_or_else(|| format!("runs are 2 to {} names", Beside::MOST))?;
        let runs = names
            .iter()
            .map(|run| Ok(self.look(Some(run))?.into_analysis()));
        let runs = runs.collect::<Result<Vec<Analysis>, String>>()?;
        if let Some(kernels) = side_by_side(&runs) {
            return Ok(pgassay_report::markdown(&kernels));
        }
        let beside = Beside::of(runs).ok_or("there is nothing to compare")?;
        Ok(pgassay_report::markdown(&beside))
    }

    fn why(&self, arguments: &Value) -> Result<String, String> {
        let document = self.look(arguments.get("run"))?.document();
        let sections = document.sections.into_iter();
        let sections = sections.filter(|section| WHY.contains(&section.id));
        let reasons = Document {
            sections: sections.collect(),
            glance: Vec::new(),
            tiles: Vec::new(),
            ..document
        };
        if reasons.sections.is_empty() && reasons.first_steps.is_empty() {
            return Ok(format!(
                "{}\n\nThis run shows nothing of why: it was not observed.\n",
                pgassay_report::markdown(&reasons)
            ));
        }
        Ok(pgassay_report::markdown(&reasons))
    }

    fn look(&self, name: Option<&Value>) -> Result<Concluded, String> {
        let name = name
            .and_then(Value::as_str)
            .ok_or("run is the name of a run")?;
        Concluded::at(&self.find(name)?).map_err(|error| format!("{name} can't be read: {error:#}"))
    }

    /// The directory of a run: by its name as listed, and no other way.
    fn find(&self, name: &str) -> Result<PathBuf, String> {
        let back = match name {
            "last" => Some(0),
            "previous" => Some(1),
            _ => None,
        };
        let name = match back {
            Some(back) => {
                let runs = self.index.runs();
                let found = runs.into_iter().nth(back).map(|(run, _)| run);
                found.ok_or("there are not as many runs")?
            }
            None => name.to_owned(),
        };
        let (dir, ..) = self
            .index
            .find(&name)
            .ok_or_else(|| format!("no run is called {name}: list_runs lists them"))?;
        Ok(dir)
    }
}

/// A run in the list.
fn in_list(summary: &Summary) -> Value {
    json!({
        "run": summary.run,
        "command": summary.command,
        "workload": summary.workload,
        "started": summary.started,
        "state": summary.state,
        "servers": summary.servers,
        "result": summary.result,
        "verdict": summary.verdict,
        "peak": summary.peak,
        "limit": summary.limit,
        "quality": summary.quality,
    })
}

fn style() -> TextStyle {
    TextStyle {
        width: 100,
        color: false,
        unicode: true,
    }
}

/// As much of a text as an answer holds, from an offset in characters.
fn part(text: &str, offset: usize) -> String {
    let shown: String = text.chars().skip(offset).take(LONGEST).collect();
    let all = text.chars().count();
    let end = offset.saturating_add(shown.chars().count());
    match end < all {
        true => format!(
            "{shown}\n[{} of {all} characters; more with \"offset\": {end}]",
            shown.chars().count()
        ),
        false => shown,
    }
}
