//! What EXPLAIN prints is compared as types.

use std::fs;
use std::path::Path;

use pgassay_model::observed::plans::{Clause, NodeType, Operation, Relationship};

/// Adds the files below a folder that are no tests.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            found.push((path.display().to_string(), code.to_owned()));
        }
    }
}

#[test]
fn no_rule_compares_a_node_or_a_clause_with_a_literal() {
    let mut code = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/detect"),
        &mut code,
    );
    assert!(code.len() > 50);
    let nodes = NodeType::ALL.iter().map(NodeType::as_str);
    let clauses = Clause::ALL.iter().map(Clause::as_str);
    let operations = Operation::ALL.iter().map(Operation::as_str);
    let relationships = Relationship::ALL.iter().map(Relationship::as_str);
    for name in nodes.chain(clauses).chain(operations).chain(relationships) {
        let literal = format!("\"{name}\"");
        let mut with = code.iter().filter(|(_, code)| code.contains(&literal));
        assert_eq!(with.next().map(|(path, _)| path), None, "{literal}");
    }
}
