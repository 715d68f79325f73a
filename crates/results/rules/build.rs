//! Finds the rules: each folder below `src/detect` is a subject, a file of it a module, and a page of it an entry of the
//! catalogue. Nothing else names them.
//!
//! A page that is not whole fails the build with its name and the line, so that
//! nothing needs to be parsed, or can fail, at run time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The folders of the subjects are here.
const RULES: &str = "src/detect";
/// Folders there that have no rules.
const SHARED: &[&str] = &["common", "tests"];

/// Functions that register a file as the detector of the entry of its name, and the constructor for each.
const KINDS: [(&str, &str); 3] = [
    ("audit", "facts"),
    ("in_samples", "samples"),
    ("in_run", "run"),
];

/// The headings of a page, in their order.
const HEADINGS: [&str; 3] = ["Why it matters", "Impact", "Remedy"];

fn main() {
    let root = env::current_dir().unwrap_or_else(|e| panic!("the crate's folder: {e}"));
    let (mut pages, mut modules, mut detectors) = (Vec::new(), String::new(), String::new());
    for folder in listed(Path::new(RULES)).filter(|f| f.is_dir() && !SHARED.contains(&name(f))) {
        let subject = name(&folder);
        let _ = writeln!(modules, "mod {subject} {{");
        for file in listed(&folder) {
            match file.extension().and_then(|e| e.to_str()) {
                Some("md") => pages.push(Page::read(&file, subject)),
                Some("rs") if name(&file) != "tests" => {
                    let rule = name(&file);
                    let _ = writeln!(
                        modules,
                        "    #[path = {:?}]\n    pub mod {rule};",
                        root.join(&file)
                    );
                    let text = read(&file);
                    if text.contains("pub const DETECTORS:") {
                        let _ = writeln!(detectors, "    {subject}::{rule}::DETECTORS,");
                    }
                    for (function, kind) in KINDS {
                        if text.contains(&format!("\npub fn {function}(")) {
                            let entry = rule.replace('_', "-");
                            let _ = writeln!(
                                detectors,
                                "    &[{kind}({entry:?}, {subject}::{rule}::{function})],"
                            );
                        }
                    }
                }
                _ => {}
            }
        }
        modules += "}\n";
    }
    pages.sort_by_key(Page::id);
    let mut entries = String::from("&[\n");
    pages.iter().for_each(|page| entry(page, &mut entries));
    write("entries.rs", &(entries + "]"));
    write(
        "rules.rs",
        &format!("{modules}const RULES: &[&[Detector]] = &[\n{detectors}];\n"),
    );
}

fn read(file: &Path) -> String {
    println!("cargo::rerun-if-changed={}", file.display());
    fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn write(name: &str, text: &str) {
    let out = env::var_os("OUT_DIR").unwrap_or_else(|| panic!("cargo sets OUT_DIR"));
    let file = Path::new(&out).join(name);
    fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

/// What a folder has, by name.
fn listed(folder: &Path) -> impl Iterator<Item = PathBuf> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let failed = |e: std::io::Error| -> ! { panic!("{}: {e}", folder.display()) };
    let files = fs::read_dir(folder).unwrap_or_else(|e| failed(e));
    let mut paths: Vec<PathBuf> = files
        .map(|file| file.unwrap_or_else(|e| failed(e)).path())
        .collect();
    paths.sort();
    paths.into_iter()
}

fn name(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or_else(|| panic!("{}: no name", path.display()))
}

/// Writes a page as a literal of `Entry`.
fn entry(page: &Page, table: &mut String) {
    let _ = write!(
        table,
        "Entry {{ id: {:?}, title: {:?}, family: Family::{}, severity: Severity::{}, needs: &[",
        page.id(),
        page.required("title"),
        variant(&page.subject),
        variant(&page.required("severity")),
    );
    for need in page.list("needs") {
        let _ = write!(table, "Need::{}, ", variant(&need));
    }
    let _ = write!(
        table,
        "], since: {:?}, until: {:?}, open: {}, invalidates_results: {}, changes: &[",
        page.version("since"),
        page.version("until"),
        page.flag("open"),
        page.flag("invalidates_results"),
    );
    for change in page.list("changes") {
        page.change(&change, table);
    }
    let _ = writeln!(
        table,
        "], costs: &[{}], supersedes: &{:?}, symptoms: &{:?}, expected_under: &{:?}, caused_by_workload: &{:?}, measured_by: &{:?}, \
         compare: &[{}], compare_under: {:?}, sources: &{:?}, why: {:?}, impact: {:?}, remedy: {:?} }},",
        page.list("costs")
            .iter()
            .map(|part| format!("Part::{}, ", variant(part)))
            .collect::<String>(),
        page.list("supersedes"),
        page.list("symptoms"),
        page.list("expected_under"),
        page.list("caused_by_workload"),
        page.list("measured_by"),
        page.list("compare")
            .iter()
            .map(|by| page.compared(by))
            .collect::<String>(),
        page.list("compare_under").first(),
        page.list("sources"),
        page.section(HEADINGS[0]),
        page.section(HEADINGS[1]),
        page.section(HEADINGS[2]),
    );
}

/// Keys of the front matter, so that a misspelt one is an error.
const KEYS: &[&str] = &[
    "id",
    "title",
    "severity",
    "needs",
    "since",
    "until",
    "open",
    "invalidates_results",
    "changes",
    "costs",
    "supersedes",
    "symptoms",
    "expected_under",
    "caused_by_workload",
    "measured_by",
    "compare",
    "compare_under",
    "sources",
];

/// A page: the keys of its front matter with their values, and its body.
struct Page {
    path: String,
    /// Its folder.
    subject: String,
    keys: Vec<(String, Vec<String>)>,
    body: String,
}

impl Page {
    fn read(path: &Path, subject: &str) -> Self {
        let shown = path.display().to_string();
        let text = read(path);
        let Some((front, body)) = text
            .strip_prefix("---\n")
            .and_then(|rest| rest.split_once("\n---\n"))
        else {
            panic!("{shown}: a page begins with its front matter between lines of ---");
        };
        let mut keys: Vec<(String, Vec<String>)> = Vec::new();
        for (n, line) in front.lines().enumerate() {
            let at = format!("{shown}:{}", n + 2);
            if let Some(item) = line.trim_start().strip_prefix("- ") {
                match keys.last_mut() {
                    Some((_, items)) => items.push(unquoted(item)),
                    None => panic!("{at}: an item without a key"),
                }
                continue;
            }
            let Some((key, value)) = line.split_once(':') else {
                panic!("{at}: neither `key: value` nor `- item`");
            };
            assert!(KEYS.contains(&key), "{at}: there is no key {key}");
            let value = value.trim();
            let items = match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
                Some(list) => list.split(',').map(unquoted).collect(),
                None if value.is_empty() => Vec::new(),
                None => vec![unquoted(value)],
            };
            keys.push((key.to_owned(), items));
        }
        let page = Self {
            path: shown,
            subject: subject.to_owned(),
            keys,
            body: body.to_owned(),
        };
        assert!(
            name(path) == page.id(),
            "{}: the file is not named by its id",
            page.path
        );
        page
    }

    fn id(&self) -> String {
        self.required("id")
    }

    fn list(&self, key: &str) -> Vec<String> {
        let found = self.keys.iter().find(|(k, _)| k == key);
        found.map_or_else(Vec::new, |(_, items)| items.clone())
    }

    fn required(&self, key: &str) -> String {
        match self.list(key).as_slice() {
            [value] if !value.is_empty() => value.clone(),
            _ => panic!("{}: {key} needs one value", self.path),
        }
    }

    fn flag(&self, key: &str) -> bool {
        match self.list(key).as_slice() {
            [] => false,
            [value] if value == "true" => true,
            _ => panic!("{}: {key} is true or left out", self.path),
        }
    }

    fn version(&self, key: &str) -> Option<u32> {
        let value = self.list(key).into_iter().next()?;
        Some(number(&value).unwrap_or_else(|| panic!("{}: {key}: {value}", self.path)))
    }

    /// `14 dc7420c2c9 73487a60fc GetSnapshotData made scalable` as a literal of `Change`;
    /// `16,15.6,14.11` where older versions got it with a minor release.
    fn change(&self, text: &str, table: &mut String) {
        let mut words = text.split(' ').peekable();
        let mut versions = words.next().unwrap_or_default().split(',');
        let version = versions.next().unwrap_or_default();
        let also: Option<Vec<u32>> = versions.map(number).collect();
        let mut commits = Vec::new();
        let is_commit = |w: &&str| w.len() == 10 && w.chars().all(|c| c.is_ascii_hexdigit());
        while let Some(commit) = words.next_if(is_commit) {
            commits.push(commit);
        }
        let what: Vec<&str> = words.collect();
        let (Some(since), Some(also)) = (number(version), also) else {
            panic!("{}: no version begins {text:?}", self.path);
        };
        assert!(
            !commits.is_empty() && !what.is_empty(),
            "{}: a change is VERSION COMMIT… WORDS, and not {text:?}",
            self.path
        );
        let _ = write!(
            table,
            "Change {{ since: {since}, back_patched: &{also:?}, version: {version:?}, \
             commits: &{commits:?}, what: {:?} }}, ",
            what.join(" ")
        );
    }

    /// `settings`, `release`, `build:VARIANT`, `NAME=VALUE` or `NAME=VALUE/VALUE` as a literal of `Compared`.
    fn compared(&self, text: &str) -> String {
        match (text, text.strip_prefix("build:"), text.split_once('=')) {
            ("settings", ..) => "Compared::Settings, ".to_owned(),
            ("release", ..) => "Compared::Release, ".to_owned(),
            (_, Some(variant), _) => format!("Compared::Build({variant:?}), "),
            (.., Some((name, values))) => {
                let (a, b) = match values.split_once('/') {
                    Some((a, b)) => (Some(a), b),
                    None => (None, values),
                };
                format!("Compared::Setting {{ name: {name:?}, a: {a:?}, b: {b:?} }}, ")
            }
            _ => panic!("{}: compare: {text}", self.path),
        }
    }

    /// The text below a heading, each paragraph in one line.
    fn section(&self, heading: &str) -> String {
        let start = format!("## {heading}\n");
        let Some((_, rest)) = self.body.split_once(&start) else {
            panic!("{}: the heading `## {heading}` is missing", self.path);
        };
        let text = rest.split("\n## ").next().unwrap_or(rest).trim();
        assert!(!text.is_empty(), "{}: {heading} is empty", self.path);
        let paragraphs: Vec<String> = text.split("\n\n").map(|p| p.replace('\n', " ")).collect();
        paragraphs.join("\n\n")
    }
}

/// A value of YAML without its quotes.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    match value.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => value.to_owned(),
    }
}

/// `server_version_num`: 90600 for 9.6, 140000 for 14, 140011 for 14.11.
fn number(version: &str) -> Option<u32> {
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    // The second number was part of the major version up to 9.6.
    Some(major * 10_000 + if major < 10 { minor * 100 } else { minor })
}

/// `sql-as-monitor` as `SqlAsMonitor`; the compiler refuses what is no variant.
fn variant(name: &str) -> String {
    name.split('-')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_ascii_uppercase() + rest
        })
        .collect()
}
