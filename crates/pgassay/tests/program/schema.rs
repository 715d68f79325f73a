//! Documents held against their schemas in docs/schema.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Refuses keys that a schema does not describe, except in objects marked open.
fn strict(schema: &mut Value) {
    if let Value::Object(object) = schema {
        let open = object
            .get("$comment")
            .is_some_and(|c| c.as_str().is_some_and(|c| c.starts_with("open")));
        if !open && object.get("properties").is_some_and(Value::is_object) {
            object.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        object.values_mut().for_each(strict);
    } else if let Value::Array(array) = schema {
        array.iter_mut().for_each(strict);
    }
}

/// Holds a document against its schema, and the schema against the document: neither has a key that the other lacks.
#[track_caller]
pub(crate) fn assert_schema(document: &Value, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let text = fs::read(path.join(name)).expect("the schema is in docs/schema");
    let mut schema: Value = serde_json::from_slice(&text).expect("JSON");
    jsonschema::meta::validate(&schema).expect("it is a JSON Schema 2020-12");
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("the schema compiles");
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}
