//! Who may import whom: the rule of ARCHITECTURE.md, held by reading the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// For each module of the program, the modules that it may use.
/// `commands` joins everything and is not listed.
const MAY_USE: &[(&str, &[&str])] = &[
    ("exit", &["terminal"]),
    ("stop", &[]),
    ("secrets", &[]),
    ("terminal", &["secrets"]),
    ("cli", &["exit", "terminal", "workload"]),
    ("pg", &[]),
    ("host", &[]),
    ("inspection", &["pg", "target"]),
    ("script", &[]),
    ("build", &["exit", "stop", "inspection", "target"]),
    ("target", &["pg"]),
    ("load", &["pg", "script"]),
    ("observe", &["pg"]),
    ("workload", &["pg", "exit", "stop", "script"]),
    (
        "bench",
        &[
            "target", "load", "observe", "pg", "script", "stop", "workload",
        ],
    ),
    (
        "count",
        &["exit", "load", "pg", "script", "stop", "target", "workload"],
    ),
    ("store", &["exit"]),
    ("report", &[]),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The modules of this crate that a source names by `crate::`, braces included.
fn uses(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text
        .lines()
        .filter(|l| !l.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => {
                let end = group.find('}').unwrap_or(group.len());
                group[..end].split(',').collect()
            }
            None => vec![rest],
        };
        for name in names {
            let name: String = name
                .trim()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            used.insert(name);
        }
    }
    used
}

#[test]
fn modules_use_only_what_the_architecture_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "the sources were not found");
    let mut seen = BTreeSet::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap();
        let module = Path::new(first.as_os_str())
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if ["lib", "main", "commands"].contains(&module.as_str()) {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
            panic!("module {module} is not in the architecture: say what it may use");
        };
        for used in uses(&fs::read_to_string(&file).unwrap()) {
            let fine = used == module
                || allowed.contains(&used.as_str())
                || used.starts_with(char::is_uppercase);
            assert!(
                fine,
                "{} uses crate::{used}, which {module} may not",
                relative.display()
            );
        }
        seen.insert(module);
    }
    assert!(seen.contains("bench") && seen.contains("store"));
}

#[test]
fn the_pure_crates_do_no_io() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["inspect", "analysis"] {
        let mut files = Vec::new();
        sources(&crates.join(name).join("src"), &mut files);
        assert!(!files.is_empty());
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            // Tests may read fixtures; they come last in a file.
            let code = text.split("#[cfg(test)]").next().unwrap();
            if file.ends_with("tests.rs") || file.components().any(|c| c.as_os_str() == "tests") {
                continue;
            }
            for forbidden in [
                "std::fs",
                "std::net",
                "std::process",
                "std::env",
                "Instant::now",
                "SystemTime::now",
            ] {
                assert!(
                    !code.contains(forbidden),
                    "{} uses {forbidden}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn the_load_engine_knows_no_wall_clock() {
    // A clock that steps must not reach a latency: only the monotonic one is read there.
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/load");
    let mut files = Vec::new();
    sources(&engine, &mut files);
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for forbidden in ["SystemTime", "jiff", "Realtime", "UNIX_EPOCH"] {
            let shown = file.display();
            assert!(!text.contains(forbidden), "{shown} uses {forbidden}");
        }
    }
}

#[test]
fn the_pattern_finds_uses() {
    let text = "use crate::{pg, load};\n// crate::report\nfn f() { crate::store::now(); }\n";
    let found: Vec<String> = uses(text).into_iter().collect();
    assert_eq!(found, ["load", "pg", "store"]);
}
