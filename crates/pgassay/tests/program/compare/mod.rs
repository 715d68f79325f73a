//! Comparisons: what is concluded from made-up runs, and the program against a
//! real PostgreSQL.

mod by_statement;
mod concluded;
pub mod fixture;
mod followed;
mod pooled;
mod real;

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

/// Holds a document against its schema in docs/schema, both ways.
pub fn assert_schema(document: &Value, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/schema")
        .join(name);
    let text = std::fs::read(path).expect("the schema is in docs/schema");
    let mut schema: Value = serde_json::from_slice(&text).expect("JSON");
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}
