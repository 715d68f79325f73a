//! The JSON Schemas of everything that `--json` prints, made from the structs themselves. `make docs`
//! writes them to docs/schema.

use std::collections::BTreeSet;

use pgassay_analysis::check::{CHECK_SCHEMA, CheckReport};
use pgassay_analysis::compare::{model, pooled};
use pgassay_analysis::{
    analysis, counts, diagnose, fit, fleet, guard, history, hosts, lab, search, watched,
};
use pgassay_inspect::inspection::Inspection;
use pgassay_inspect::recommend::Recommended;
use pgassay_lines::{account, difference, measured, sampled, walls};
use pgassay_model::facts::{FACTS_SCHEMA, Facts};
use pgassay_port::porting::{self, Porting};
use pgassay_statements::made::{self, Made};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::commands::build::{self, Builds};
use crate::commands::doctor::Looked;
use crate::commands::lab::outline::{Labs, Outline};
use crate::commands::runs::Runs;
use crate::commands::targets::Targets;

/// Columns of a published schema.
const WIDTH: usize = 140;

/// The name of each document, such as `pgassay/analysis/1`, and its schema.
pub fn all() -> Vec<(&'static str, Value)> {
    let mut all = vec![
        of::<analysis::Analysis>(analysis::SCHEMA, "assay, run and report"),
        of::<search::document::Bisected>(search::document::SCHEMA, "bisect"),
        of::<search::steps::Traced>(search::steps::SCHEMA, "bisect of commits and patches"),
        of::<Builds>(build::SCHEMA, "build and build --list"),
        of::<CheckReport>(CHECK_SCHEMA, "check"),
        of::<model::Compare>(model::SCHEMA, "compare"),
        of::<counts::Counts>(counts::SCHEMA, "compare --by instructions"),
        of::<diagnose::Diagnosis>(diagnose::SCHEMA, "diagnose"),
        of::<Looked>(Looked::SCHEMA, "doctor"),
        of::<Facts>(FACTS_SCHEMA, "collect"),
        of::<hosts::Hosts>(hosts::SCHEMA, "compare-runs"),
        of::<hosts::Machines>(hosts::MACHINES_SCHEMA, "compare-runs --table"),
        of::<fit::Fit>(fit::SCHEMA, "fit"),
        of::<fleet::Fleet>(fleet::SCHEMA, "fleet"),
        of::<guard::Guarded>(guard::SCHEMA, "guard"),
        of::<history::RunHistory>(history::SCHEMA, "history"),
        of::<Inspection>(Inspection::SCHEMA, "inspect"),
        of::<Made>(made::SCHEMA, "workload"),
        of::<Porting>(porting::SCHEMA, "port"),
        of::<pooled::PooledCompare>(pooled::SCHEMA, "compare --pool"),
        of::<lab::Lab>(lab::report::SCHEMA, "lab"),
        of::<lab::LabPlan>(lab::plan::PLAN_SCHEMA, "lab PLAN"),
        of::<Labs>(Labs::SCHEMA, "lab --list"),
        of::<Outline>(Outline::SCHEMA, "lab --dry-run"),
        of::<Recommended>(Recommended::SCHEMA, "build --recommend"),
        of::<Runs>(Runs::SCHEMA, "runs"),
        of::<Targets>(Targets::SCHEMA, "targets"),
        of::<account::Account>(account::SCHEMA, "lines"),
        of::<difference::Difference>(difference::SCHEMA, "lines A B"),
        of::<sampled::Sampled>(sampled::SCHEMA, "lines --sample"),
        of::<walls::Walls>(walls::SCHEMA, "walls"),
        of::<measured::Measured>(measured::SCHEMA, "core-to-core"),
        of::<watched::Watched>(watched::SCHEMA, "watch"),
    ];
    let compare = all.iter_mut().find(|(name, _)| *name == model::SCHEMA);
    if let Some((_, schema)) = compare {
        leave_to(schema, "analysis", analysis::SCHEMA);
    }
    all
}

/// Describes a key that holds another document by that document's name, without what only it needs.
fn leave_to(schema: &mut Value, key: &str, document: &str) {
    schema["properties"][key] = json!({
        "description": format!("A document {document}, described by {}.", file(document)),
        "type": "object",
    });
    let mut needed = BTreeSet::new();
    let mut named = Vec::new();
    references(&schema["properties"], &mut named);
    while let Some(name) = named.pop() {
        if needed.insert(name.clone()) {
            references(&schema["$defs"][&name], &mut named);
        }
    }
    if let Some(defs) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        defs.retain(|name, _| needed.contains(name));
    }
}

/// The definitions that a part of a schema refers to.
fn references(part: &Value, named: &mut Vec<String>) {
    match part {
        Value::Object(object) => {
            let name = object.get("$ref").and_then(Value::as_str);
            named.extend(name.and_then(|name| Some(name.strip_prefix("#/$defs/")?.to_owned())));
            object.values().for_each(|part| references(part, named));
        }
        Value::Array(array) => array.iter().for_each(|part| references(part, named)),
        _ => {}
    }
}

/// A schema as it is published: what fits into a line stands in one.
pub fn text(schema: &Value) -> String {
    let mut text = String::new();
    write(schema, 0, &mut text);
    text.push('\n');
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let line = value.to_string();
    let parts: Vec<(Option<&String>, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, part)| (Some(key), part)).collect(),
        Value::Array(array) => array.iter().map(|part| (None, part)).collect(),
        _ => Vec::new(),
    };
    if parts.is_empty() || (depth > 0 && line.len() + 2 * depth <= WIDTH) {
        text.push_str(&line);
        return;
    }
    let brackets = if value.is_object() {
        ['{', '}']
    } else {
        ['[', ']']
    };
    text.push(brackets[0]);
    let indent = |depth: usize| format!("\n{}", "  ".repeat(depth));
    for (n, (key, part)) in parts.into_iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&indent(depth + 1));
        if let Some(key) = key {
            text.push_str(&format!("{}: ", Value::from(key.as_str())));
        }
        write(part, depth + 1, text);
    }
    text.push_str(&indent(depth));
    text.push(brackets[1]);
}

fn of<T: JsonSchema>(name: &'static str, command: &str) -> (&'static str, Value) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(figures).transform(&mut schema);
    let printed = match command {
        "collect" => "Written by `pgassay collect`.".to_owned(),
        "lab PLAN" => "Read by `pgassay lab PLAN.toml`, written in TOML.".to_owned(),
        command => format!("Printed by `pgassay {command} --json`."),
    };
    let described = schema.get("description").and_then(Value::as_str);
    let description = format!(
        "{} {printed} Within a version keys are only ever added: ignore those that you do not know.",
        described.unwrap_or_default()
    );
    schema.insert("title".to_owned(), name.into());
    schema.insert("description".to_owned(), description.into());
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("schema".to_owned(), json!({ "const": name }));
    }
    (name, schema.to_value())
}

/// A figure that is no number, such as the open end of an interval, is `null`. How wide Rust's integers
/// are concerns no reader.
fn figures(schema: &mut Schema) {
    if schema.get("format").is_some_and(Value::is_string) {
        schema.remove("format");
    }
    match schema.get_mut("type") {
        Some(Value::String(kind)) if kind == "number" => {
            schema.insert("type".to_owned(), json!(["number", "null"]));
        }
        _ => {}
    }
}

/// The file of a schema in docs/schema: `analysis-1.json` of `pgassay/analysis/1`.
pub fn file(name: &str) -> String {
    let name = name.trim_start_matches("pgassay/").replace('/', "-");
    format!("{name}.json")
}
