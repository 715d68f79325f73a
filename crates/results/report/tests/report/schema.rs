//! The JSON document against its schema in docs/schema, both ways: it says what
//! the schema asks for, and the schema describes every key that it says.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use pgassay_analysis::Analysis;
use serde_json::Value;

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/schema/analysis-1.json");
    let text = fs::read_to_string(path).expect("the schema is in docs/schema");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// Refuses keys that the schema does not describe, except in objects marked open.
/// Readers must tolerate them, so the published schema does not.
fn strict(schema: &mut Value) {
    if let Value::Object(object) = schema {
        let open = object.get("$comment").is_some_and(|c| {
            c.as_str()
                .is_some_and(|comment| comment.starts_with("open"))
        });
        if !open && object.get("properties").is_some_and(Value::is_object) {
            object.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        object.values_mut().for_each(strict);
    } else if let Value::Array(array) = schema {
        array.iter_mut().for_each(strict);
    }
}

fn complaints(validator: &Validator, document: &Value) -> Vec<String> {
    let errors = validator.iter_errors(document);
    errors
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect()
}

fn parsed(analysis: &Analysis) -> Value {
    serde_json::from_str(&pgassay_report::json(analysis)).expect("the document is JSON")
}

#[test]
fn every_document_is_as_the_schema_says() {
    let mut schema = schema();
    jsonschema::meta::validate(&schema).expect("it is a JSON Schema 2020-12");
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("the schema compiles");
    for (name, analysis) in super::all() {
        let found = complaints(&validator, &parsed(&analysis));
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}

#[test]
fn the_schema_can_refuse() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema compiles");
    let document = parsed(&super::fixture::complete());
    let mut without_host = document.clone();
    without_host
        .as_object_mut()
        .expect("an object")
        .remove("host");
    assert_eq!(complaints(&validator, &without_host).len(), 1);
    let mut wrong_unit = document;
    wrong_unit["stages"][0]["arms"][0]["points"][0]["throughput_tps"]["low"] = Value::from("fast");
    assert_eq!(complaints(&validator, &wrong_unit).len(), 1);
}

#[test]
fn what_was_written_reads_back() {
    for (name, analysis) in super::all() {
        if name == "absurd" {
            continue; // figures that are no numbers have become null
        }
        let back: Analysis =
            serde_json::from_str(&pgassay_report::json(&analysis)).expect("it is an analysis");
        assert_eq!(parsed(&back), parsed(&analysis), "{name}");
    }
}
