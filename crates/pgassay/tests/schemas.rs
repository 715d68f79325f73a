//! The schemas in docs/schema are those of the structs. `make docs` writes them (with `BLESS=1`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pgassay::schemas;
use serde_json::Value;

#[test]
fn the_published_schemas_are_those_of_the_structs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let mut files = BTreeSet::new();
    for (name, made) in schemas::all() {
        jsonschema::meta::validate(&made).expect("it is a JSON Schema 2020-12");
        let file = schemas::file(name);
        if std::env::var_os("BLESS").is_some() {
            fs::write(folder.join(&file), schemas::text(&made)).expect("docs/schema is writable");
        }
        let published = fs::read_to_string(folder.join(&file)).unwrap_or_default();
        let read: Value = serde_json::from_str(&published).unwrap_or_default();
        assert!(
            published == schemas::text(&made) && read == made,
            "docs/schema/{file} is out of date: `make docs` writes it"
        );
        assert_eq!(made["properties"]["schema"]["const"], name);
        files.insert(file);
    }
    let there = fs::read_dir(&folder).expect("the folder is there");
    let there: BTreeSet<String> = there
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, files, "every file is made, and none is left over");
}
