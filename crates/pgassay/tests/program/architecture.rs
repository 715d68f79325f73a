//! What ARCHITECTURE.md promises and the compiler does not check: no circle of modules inside a
//! crate, and crates that do no I/O. Which crate may use which is what the Cargo.toml files say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

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

fn is_test(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.components().any(|c| c.as_os_str() == "tests")
}

/// The code of a source without comment lines and unit tests, which come last in a file.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|l| !l.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|l| [l, "\n"]).collect();
    code.split("#[cfg(test)]\nmod ").next().unwrap().to_owned()
}

/// The top-level modules of its own crate that a source names by `crate::`, braces included.
fn uses(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => group[..group.find('}').unwrap_or(group.len())]
                .split(',')
                .collect(),
            None => vec![rest],
        };
        for name in names {
            let word = |c: &char| c.is_alphanumeric() || *c == '_';
            used.insert(name.trim().chars().take_while(word).collect());
        }
    }
    used
}

/// For each top-level module of a crate, the other top-level modules that it uses.
fn modules(crate_dir: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let root = crate_dir.join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|f| !is_test(f)) {
        let first = file.strip_prefix(&root).unwrap().components().next();
        let module = Path::new(first.unwrap().as_os_str()).file_stem().unwrap();
        let module = module.to_str().unwrap().to_owned();
        if ["lib", "main"].contains(&module.as_str()) {
            continue;
        }
        graph.entry(module).or_default().extend(uses(&code(file)));
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, used) in &mut graph {
        used.retain(|u| u != module && known.contains(u));
    }
    graph
}

/// A circle in the graph, as the names along it; `None` if there is none.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        graph: &BTreeMap<String, BTreeSet<String>>,
        at: &str,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(from) = path.iter().position(|p| p == at) {
            return Some(path[from..].to_vec());
        }
        if !done.insert(at.to_owned()) {
            return None;
        }
        path.push(at.to_owned());
        for next in &graph[at] {
            if let Some(found) = walk(graph, next, path, done) {
                return Some(found);
            }
        }
        path.pop();
        None
    }
    let mut done = BTreeSet::new();
    graph
        .keys()
        .find_map(|start| walk(graph, start, &mut Vec::new(), &mut done))
}

#[test]
fn no_crate_has_a_circle_of_modules() {
    let mut seen = 0;
    for entry in fs::read_dir(crates()).unwrap().flatten() {
        let graph = modules(&entry.path());
        seen += graph.len();
        let name = entry.file_name();
        if let Some(found) = circle(&graph) {
            panic!(
                "modules of {} use each other in a circle: {}",
                name.display(),
                found.join(" -> ")
            );
        }
    }
    assert!(seen > 50, "the sources were not found");
}

#[test]
fn a_circle_is_found() {
    let graph = |arrows: &[(&str, &[&str])]| -> BTreeMap<String, BTreeSet<String>> {
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        arrows
            .iter()
            .map(|(from, to)| ((*from).to_owned(), set(to)))
            .collect()
    };
    let clean = graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(circle(&clean), None);
    let bent = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(circle(&bent), Some(vec!["b".into(), "c".into()]));
    let text = "use crate::{pg, load};\nfn f() { crate::store::now(); }\n";
    let found: Vec<String> = uses(text).into_iter().collect();
    assert_eq!(found, ["load", "pg", "store"]);
}

#[test]
fn the_pure_crates_do_no_io() {
    for name in [
        "model",
        "inspect",
        "stats",
        "evidence",
        "rules",
        "analysis",
        "port",
        "readings",
        "report",
        "synthetic",
        "statements",
        "text",
    ] {
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        assert!(!files.is_empty());
        for file in files.iter().filter(|f| !is_test(f)) {
            let code = code(file);
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
    let mut files = Vec::new();
    sources(&crates().join("load/src"), &mut files);
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for forbidden in ["SystemTime", "jiff", "Realtime", "UNIX_EPOCH"] {
            let shown = file.display();
            assert!(!text.contains(forbidden), "{shown} uses {forbidden}");
        }
    }
}
