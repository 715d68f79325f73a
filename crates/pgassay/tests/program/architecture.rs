//! What ARCHITECTURE.md promises and the compiler does not check: layers, no cycles of modules, and
//! crates that do no I/O. Which crate may use which is what the Cargo.toml files say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The layers, which are folders, and the layers whose crates each may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("foundation", &["foundation"]),
    ("measurement", &["foundation", "measurement"]),
    ("results", &["foundation", "results"]),
];

/// Uses across layers, each with its reason.
const ACROSS: &[(&str, &str)] = &[
    // Its report is a document like all others.
    ("lines", "report"),
    // What was made of a log is shown like all else.
    ("report", "statements"),
];

/// What the build script registers.
const RECOGNISE: &[&str] = &[
    "\npub const DETECTORS:",
    "\npub fn audit(",
    "\npub fn in_samples(",
    "\npub fn in_run(",
];

/// Rules that ask another rule for what it knows of a statement: the one and the other.
const RULES_OF_RULES: &[(&str, &str)] = &[
    // Rows that are read for nothing are left to it where an index would lead to the others.
    ("statements::amounts", "statements::plans"),
];

/// Cycles that are still there: the module that holds them, and those that take part. What is no longer one fails, too.
const CYCLES: &[(&str, &[&str])] = &[
    ("engine::agents", &["fleet", "several"]),
    ("report::sections", &["budget", "observed", "pmu"]),
    (
        "report::sections",
        &["evidence", "metric_table", "percentiles", "tails"],
    ),
];

/// Flags that a run records: the field that holds one, the flag, and how many files may name either on the way from
/// the command line to the recorded experiment and to the server.
const FLAGS: &[(&str, &str, usize)] = &[
    ("client_counts", "--clients", 12),
    ("launch_environment", "--env", 8),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The crates of a layer: name and folder.
fn layer(name: &str) -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(crates().join(name)).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let named = |dir: PathBuf| {
        let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
        (name, dir)
    };
    folders.filter(|dir| dir.is_dir()).map(named).collect()
}

/// Every crate of the workspace: name and folder.
fn all_crates() -> Vec<(String, PathBuf)> {
    let layers = LAYERS.iter().flat_map(|(name, _)| layer(name));
    layers
        .chain([("pgassay".into(), crates().join("pgassay"))])
        .collect()
}

fn folder_of(name: &str) -> PathBuf {
    let all = all_crates();
    let found = all.into_iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no crate {name}")).1
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

/// A module by its path from the crate's root.
type Module = Vec<String>;

/// The paths that a source names, outside of its unit tests.
#[derive(Default)]
struct Named(Vec<Module>);

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let test = |a: &syn::Attribute| {
        a.path().is_ident("cfg")
            && matches!(&a.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    };
    attributes.iter().any(test)
}

impl Named {
    fn tree(&mut self, tree: &syn::UseTree, before: &Module) {
        let mut path = before.clone();
        match tree {
            syn::UseTree::Path(at) => {
                path.push(at.ident.to_string());
                self.tree(&at.tree, &path);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.tree(item, before))
            }
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.0.push(path);
            }
            syn::UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.0.push(path);
            }
            syn::UseTree::Glob(_) => self.0.push(path),
        }
    }
}

impl<'a> Visit<'a> for Named {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.tree(&item.tree, &Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names = path.segments.iter().map(|s| s.ident.to_string());
        self.0.push(names.collect());
        syn::visit::visit_path(self, path);
    }

    /// What a macro is given is text to syn: paths in it are found by their colons.
    fn visit_macro(&mut self, given: &'a syn::Macro) {
        let text = given.tokens.to_string();
        let colons = text.replace(" :: ", "::");
        let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
        let paths = colons.split(word).filter(|w| w.contains("::"));
        self.0
            .extend(paths.map(|p| p.split("::").map(str::to_owned).collect()));
        syn::visit::visit_macro(self, given);
    }
}

/// For each module of a crate that is a file, the other such modules that it names.
fn modules(crate_dir: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let root = crate_dir.join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let module = |file: &Path| -> Module {
        let path = file.strip_prefix(&root).unwrap().with_extension("");
        let mut names: Module = path
            .iter()
            .map(|n| n.to_str().unwrap().to_owned())
            .collect();
        if names.last().is_some_and(|n| n == "mod") || ["lib", "main"].contains(&names[0].as_str())
        {
            names.pop();
        }
        names
    };
    let files = files.into_iter().filter(|f| !is_test(f));
    let mut named: BTreeMap<Module, Vec<Module>> = files
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let parsed =
                syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let mut named = Named::default();
            named.visit_file(&parsed);
            (module(&file), named.0)
        })
        .collect();
    // A folder whose modules a build script lists has no file of its own.
    for module in named.keys().cloned().collect::<Vec<_>>() {
        for depth in 1..module.len() {
            named.entry(module[..depth].to_vec()).or_default();
        }
    }
    let uses = |from: &Module, paths: &[Module]| {
        let used = paths.iter().filter_map(|path| resolved(from, path, &named));
        (from.clone(), used.filter(|to| to != from).collect())
    };
    named
        .iter()
        .map(|(from, paths)| uses(from, paths))
        .collect()
}

/// The module in which a path ends, if it is one of this crate.
fn resolved(from: &Module, path: &Module, known: &BTreeMap<Module, Vec<Module>>) -> Option<Module> {
    let mut at = from.clone();
    let mut rest = path.as_slice();
    match path.first()?.as_str() {
        "crate" => at.clear(),
        "self" | "super" => rest = path,
        child => {
            at.push(child.to_owned());
            known.contains_key(&at).then(|| at.pop())?;
        }
    }
    while let Some(first) = rest.first() {
        match first.as_str() {
            "crate" | "self" => {}
            "super" => drop(at.pop()),
            name => {
                at.push(name.to_owned());
                if !known.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
        }
        rest = &rest[1..];
    }
    Some(at)
}

/// For each module that has submodules, which of these use which: each stands for all below it.
fn siblings(
    graph: &BTreeMap<Module, BTreeSet<Module>>,
) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
    let mut levels: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (from, used) in graph {
        for depth in 0..from.len() {
            let own = levels.entry(from[..depth].to_vec()).or_default();
            let own = own.entry(from[depth].clone()).or_default();
            let others = used
                .iter()
                .filter(|to| to.len() > depth && to[..depth] == from[..depth]);
            own.extend(
                others
                    .map(|to| to[depth].clone())
                    .filter(|to| *to != from[depth]),
            );
        }
    }
    levels
}

/// The sets of modules of a graph in which each reaches every other.
fn cycles(graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reach = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = graph[from].iter().collect();
        while let Some(next) = open.pop() {
            if reached.insert(next.clone()) {
                open.extend(graph.get(next).into_iter().flatten());
            }
        }
        reached
    };
    let all: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|m| (m, reach(m))).collect();
    let cycle = |m: &String| {
        let mutual = all[m]
            .iter()
            .filter(|to| all.get(to).is_some_and(|r| r.contains(m)));
        mutual.cloned().collect::<BTreeSet<String>>()
    };
    graph.keys().map(cycle).filter(|c| c.len() > 1).collect()
}

#[test]
fn modules_next_to_each_other_do_not_use_each_other_in_a_cycle() {
    let mut seen = 0;
    let mut found = BTreeSet::new();
    for (name, dir) in all_crates() {
        let graph = modules(&dir);
        seen += graph.len();
        for (parent, level) in siblings(&graph) {
            let at = [vec![name.clone()], parent].concat().join("::");
            found.extend(cycles(&level).into_iter().map(|c| (at.clone(), c)));
        }
    }
    assert!(seen > 500, "the sources were not found");
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    let known: BTreeSet<(String, BTreeSet<String>)> = CYCLES
        .iter()
        .map(|(at, names)| ((*at).to_owned(), set(names)))
        .collect();
    let new: Vec<_> = found.difference(&known).collect();
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(
        new.is_empty(),
        "modules use each other in a cycle: {new:#?}"
    );
    assert!(
        gone.is_empty(),
        "no longer a cycle, remove it from CYCLES: {gone:#?}"
    );
}

#[test]
fn a_rule_uses_no_other_rule() {
    let rules = folder_of("rules");
    let is_rule = |module: &&Module| {
        let file = rules
            .join("src")
            .join(module.join("/"))
            .with_extension("rs");
        let text = fs::read_to_string(file).unwrap_or_default();
        RECOGNISE.iter().any(|sign| text.contains(sign))
    };
    let named = |module: &Module| module[1..].join("::");
    let graph = modules(&rules);
    let known: Vec<&Module> = graph.keys().filter(is_rule).collect();
    assert!(known.len() > 50, "the rules were not found");
    let used = known.iter().flat_map(|from| {
        let others = graph[*from].iter().filter(|to| known.contains(to));
        others.map(|to| (named(from), named(to)))
    });
    let used: BTreeSet<(String, String)> = used.collect();
    let listed = RULES_OF_RULES.iter();
    let listed = listed.map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
    assert_eq!(used, listed.collect());
}

#[test]
fn a_cycle_is_found_by_each_form_of_path() {
    let source = "use super::{b::Thing, c}; use crate::d as other; mod inner; fn f() { inner::g(); println!(\"{}\", super::e::h()); } #[cfg(test)] mod tests { use super::super::z; }";
    let mut named = Named::default();
    named.visit_file(&syn::parse_file(source).unwrap());
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    let known: BTreeMap<Module, Vec<Module>> = ["a", "a::inner", "b", "c", "d", "e", "z"]
        .map(|path| (module(path), Vec::new()))
        .into();
    let used: BTreeSet<Module> = named
        .0
        .iter()
        .filter_map(|path| resolved(&module("a"), path, &known))
        .filter(|to| !to.is_empty())
        .collect();
    assert_eq!(used, ["a::inner", "b", "c", "d", "e"].map(module).into());
    let graph = BTreeMap::from([
        (module("a::inner"), BTreeSet::from([module("b::other")])),
        (module("b::other"), BTreeSet::from([module("a")])),
        (module("c"), BTreeSet::from([module("a")])),
    ]);
    let at_root = &siblings(&graph)[&Vec::new()];
    let cycle = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    assert_eq!(cycles(at_root), BTreeSet::from([cycle]));
}

#[test]
fn a_layer_uses_only_itself_and_the_foundation() {
    for (name, allowed) in LAYERS {
        for (from, dir) in layer(name) {
            let manifest: toml::Table = fs::read_to_string(dir.join("Cargo.toml"))
                .unwrap()
                .parse()
                .unwrap();
            let used = manifest
                .get("dependencies")
                .and_then(|d| d.as_table())
                .into_iter()
                .flat_map(|d| d.keys());
            for to in used.filter_map(|key| key.strip_prefix("pgassay-")) {
                let may = allowed
                    .iter()
                    .any(|layer| crates().join(layer).join(to).is_dir());
                assert!(
                    may || ACROSS.contains(&(from.as_str(), to)),
                    "{from} uses {to}"
                );
            }
        }
    }
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
        "plan",
        "readings",
        "report",
        "synthetic",
        "statements",
        "text",
    ] {
        let mut files = Vec::new();
        sources(&folder_of(name).join("src"), &mut files);
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
    sources(&folder_of("load").join("src"), &mut files);
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for forbidden in ["SystemTime", "jiff", "Realtime", "UNIX_EPOCH"] {
            let shown = file.display();
            assert!(!text.contains(forbidden), "{shown} uses {forbidden}");
        }
    }
}

/// Whether code names the field of a flag, or makes a word of a command line of the flag.
fn names_flag(code: &str, field: &str, flag: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_word = |text: &str| {
        let rest = text.strip_prefix(flag);
        rest.is_some_and(|rest| !rest.contains(is_of_name) || rest.starts_with(['-', '=', '{']))
            && !text.contains(char::is_whitespace)
    };
    code.split(|c| !is_of_name(c)).any(|name| name == field) || code.split('"').any(is_word)
}

#[test]
fn a_flag_passes_through_few_files() {
    for (field, flag, most) in FLAGS {
        let mut files = Vec::new();
        for (_, dir) in all_crates() {
            sources(&dir.join("src"), &mut files);
        }
        files.retain(|file| !is_test(file) && names_flag(&code(file), field, flag));
        assert!(files.len() >= 3, "{flag} is no longer kept in {field}");
        assert!(files.len() <= *most, "{flag} passes through {files:#?}");
    }
    let named = |code: &str| names_flag(code, "launch_environment", "--env");
    for code in [
        "plan.launch_environment.len()",
        "flag(\"--env\", value)",
        "format!(\"--env-{side}={value}\")",
    ] {
        assert!(named(code), "{code}");
    }
    for code in [
        "launch_environments",
        "\"--env and --wrap are for servers\"",
        "\"--environ\"",
    ] {
        assert!(!named(code), "{code}");
    }
}
