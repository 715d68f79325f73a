//! What the text and the markdown of an inspection say, in parts that each shapes in its own way.

use pgassay_inspect::Binary;
use pgassay_inspect::cpu::{Evidence, Verdict};
use pgassay_inspect::diff::Diff;

use super::document::{Demand, Document, Entry};

/// A part of the account.
pub enum Block {
    /// A heading.
    Heading(String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A table with its columns' names.
    Table(Vec<&'static str>, Vec<Vec<String>>),
    /// A sentence or a few.
    Text(String),
}

/// Functions listed in a file's own section; JSON has all.
const FUNCTIONS_SHOWN: usize = 24;

/// Ways of inlining named for one function.
const INLINED_SHOWN: usize = 3;

/// The whole account, part by part.
pub fn blocks(document: &Document, addresses: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    if document.files.len() > 1 {
        overview(&document.files, &mut blocks);
    }
    // In full: every server; of other files a handful.
    let servers = document
        .files
        .iter()
        .filter(|f| f.binary.postgres.is_some())
        .count();
    let few = document.files.len() <= 4;
    for entry in &document.files {
        if few || (servers > 0 && servers <= 4 && entry.binary.postgres.is_some()) {
            file(entry, addresses, &mut blocks);
        } else if addresses {
            blocks.push(Block::Heading(entry.binary.path.clone()));
            instructions(&entry.binary, &mut blocks);
        }
    }
    if let Some(diff) = &document.diff {
        difference(diff, &mut blocks);
    }
    if !document.requirements.is_empty() {
        blocks.push(Block::Heading("Required".into()));
        for demand in &document.requirements {
            let state = match (demand.met, demand.files) {
                (true, n) => format!("met by {n} file{}", plural(n)),
                (false, 0) if demand.unread == 0 => "unmet: no file that it is about".into(),
                (false, n) => unmet(demand, n),
            };
            let mut facts = vec![(demand.requirement.to_string(), state)];
            for (path, why) in demand.unmet.iter().take(12) {
                facts.push((String::new(), format!("{path}: {why}")));
            }
            blocks.push(Block::Facts(facts));
        }
    }
    if !document.problems.is_empty() {
        blocks.push(Block::Heading("Not read".into()));
        blocks.push(Block::Facts(
            document
                .problems
                .iter()
                .take(50)
                .map(|p| (p.path.clone(), p.error.clone()))
                .collect(),
        ));
    }
    blocks
}

/// How many files fail a demand, and how many might.
fn unmet(demand: &Demand, files: usize) -> String {
    let failed = demand.unmet.len().saturating_sub(demand.unread);
    let mut parts = Vec::new();
    if failed > 0 {
        parts.push(format!("by {failed} of {files} files"));
    }
    if demand.unread > 0 {
        let n = demand.unread;
        parts.push(format!("{n} file{} could not be read", plural(n)));
    }
    let between = if failed > 0 { " " } else { ": " };
    format!("unmet{between}{}", parts.join("; "))
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// What a file does for its atomics, in a few words.
pub fn technique(binary: &Binary) -> String {
    let a = &binary.atomics;
    let mut parts: Vec<String> = Vec::new();
    if a.outline_calls() > 0 {
        parts.push(format!("outline: {} calls", a.outline_calls()));
    }
    if a.inline_lse() > 0 {
        parts.push(format!("{} inline LSE", a.inline_lse()));
    }
    if a.inline_llsc() > 0 {
        parts.push(format!("{} LL/SC", a.inline_llsc()));
    }
    let rest = a.count(|c| !c.is_lse() && !c.is_llsc());
    if rest > 0 {
        let what = match binary.machine.name() {
            "x86-64" => "locked",
            "riscv64" => "amo",
            _ => "interlocked",
        };
        parts.push(format!("{rest} {what}"));
    }
    if parts.is_empty() {
        "no atomics".into()
    } else {
        parts.join(", ")
    }
}

fn overview(files: &[Entry], blocks: &mut Vec<Block>) {
    blocks.push(Block::Heading(format!("{} files", files.len())));
    let busy: Vec<&Entry> = files
        .iter()
        .filter(|f| f.binary.atomics.total() + f.binary.atomics.outline_calls() > 0)
        .collect();
    let rows = busy
        .iter()
        .map(|f| {
            let version = f
                .binary
                .postgres
                .as_ref()
                .map(|p| p.version.clone())
                .unwrap_or_default();
            vec![
                f.binary.path.clone(),
                f.binary.machine.name().to_string(),
                version,
                technique(&f.binary),
                f.binary.atomics.outside_count.to_string(),
            ]
        })
        .collect();
    blocks.push(Block::Table(
        vec!["file", "machine", "PostgreSQL", "atomics", "outside"],
        rows,
    ));
    let idle = files.len() - busy.len();
    if idle > 0 {
        blocks.push(Block::Text(format!(
            "{idle} file{} without atomics",
            plural(idle)
        )));
    }
}

fn file(entry: &Entry, addresses: bool, blocks: &mut Vec<Block>) {
    let binary = &entry.binary;
    blocks.push(Block::Heading(binary.path.clone()));
    blocks.push(Block::Facts(build(binary)));
    let a = &binary.atomics;
    if a.total() + a.outline_calls() > 0 {
        let rows = a
            .counts
            .iter()
            .map(|(c, n)| vec![c.name().to_string(), n.to_string()])
            .collect();
        blocks.push(Block::Heading(format!("Atomics: {}", technique(binary))));
        blocks.push(Block::Table(vec!["class", "instructions"], rows));
    }
    if let Some(outline) = &a.outline {
        blocks.push(Block::Heading(format!(
            "Outline helpers: {}, told by their shape; flag byte at {}",
            outline.helpers.len(),
            outline
                .flag_addresses
                .iter()
                .map(|f| format!("{f:#x}"))
                .collect::<Vec<_>>()
                .join(", ")
        )));
        let rows = outline
            .helpers
            .iter()
            .map(|h| {
                vec![
                    h.name.clone(),
                    h.call_sites.to_string(),
                    format!("{:#x}", h.address),
                    if h.named_by_symbol {
                        "symbol too"
                    } else {
                        "shape only"
                    }
                    .to_string(),
                ]
            })
            .collect();
        blocks.push(Block::Table(
            vec!["helper", "call sites", "address", "known by"],
            rows,
        ));
    }
    functions(binary, blocks);
    if a.outside_count > 0 {
        blocks.push(Block::Text(format!(
            "{} more byte patterns outside function bounds read as atomics: data in the text, or code without bounds; not counted",
            a.outside_count
        )));
    }
    if !binary.hot_paths.is_empty() {
        blocks.push(Block::Heading("PostgreSQL's hot paths".into()));
        let rows = binary
            .hot_paths
            .iter()
            .map(|p| {
                vec![
                    p.title.clone(),
                    p.technique.name().to_string(),
                    p.detail.clone(),
                ]
            })
            .collect();
        blocks.push(Block::Table(vec!["path", "by", "detail"], rows));
    }
    if let Some(process) = &binary.process {
        let mut facts = vec![("process".to_string(), process.pid.to_string())];
        if let Some(hwcap) = &process.hwcap {
            let lse = match process.hwcap_lse {
                Some(true) => ": LSE",
                Some(false) => ": no LSE",
                None => "",
            };
            facts.push(("HWCAP".into(), format!("{hwcap}{lse}")));
        }
        for byte in &process.flag_bytes {
            let path = if byte.value == 0 {
                "exclusive loops"
            } else {
                "LSE"
            };
            facts.push((
                "flag byte".into(),
                format!(
                    "{} at {:#x}: this process takes the path of {path}",
                    byte.value, byte.address
                ),
            ));
        }
        facts.extend(
            process
                .unavailable
                .iter()
                .map(|u| ("unavailable".to_string(), u.clone())),
        );
        blocks.push(Block::Heading("Seen in the process".into()));
        blocks.push(Block::Facts(facts));
    }
    for verdict in &entry.verdicts {
        blocks.push(Block::Heading(format!("On {}", verdict.cpu)));
        blocks.push(Block::Facts(judged(verdict)));
    }
    for warning in &binary.warnings {
        blocks.push(Block::Text(format!("warning: {warning}")));
    }
    if addresses {
        instructions(binary, blocks);
    }
}

fn judged(verdict: &Verdict) -> Vec<(String, String)> {
    let how = match verdict.evidence {
        Evidence::Observed => "seen in the process",
        Evidence::Inferred => "inferred",
    };
    let mut facts = vec![("runs".to_string(), format!("{} ({how})", verdict.runs))];
    if !verdict.cost.is_empty() {
        facts.push(("costs".into(), verdict.cost.clone()));
    }
    facts.extend(
        verdict
            .advice
            .iter()
            .map(|a| ("to do".to_string(), a.clone())),
    );
    facts.push(("sources".into(), verdict.sources.join("; ")));
    facts
}

fn build(binary: &Binary) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_string(), value));
    let kind = serde_json::to_value(binary.kind)
        .ok()
        .and_then(|v| v.as_str().map(String::from));
    fact(
        "machine",
        format!("{}, {}", binary.machine.name(), kind.unwrap_or_default()),
    );
    if let Some(postgres) = &binary.postgres {
        let blocks = postgres
            .block_size_bytes
            .map_or("block size not found".into(), |b| {
                format!("blocks of {b} bytes")
            });
        fact("PostgreSQL", format!("{}, {blocks}", postgres.version));
    }
    if !binary.build.compilers.is_empty() {
        fact("compiler", binary.build.compilers.join("; "));
    }
    for flags in &binary.build.flags {
        fact("flags", format!("{} (from {})", flags.flags, flags.source));
    }
    if let Some(id) = &binary.build.build_id {
        fact("build id", id.clone());
    }
    let bounds = &binary.bounds;
    if bounds.text_bytes > 0 {
        let sources: Vec<String> = bounds
            .by_source
            .iter()
            .map(|(s, n)| format!("{n} {s}"))
            .collect();
        fact(
            "functions",
            format!(
                "{}, {} named ({}); {:.1} % of {} kB of code inside bounds{}",
                bounds.functions,
                bounds.named,
                sources.join(", "),
                100.0 * bounds.covered_bytes as f64 / bounds.text_bytes as f64,
                bounds.text_bytes / 1000,
                if binary.build.stripped {
                    "; stripped"
                } else {
                    ""
                }
            ),
        );
        let h = &binary.hardening;
        let mut parts = vec![format!("RELRO {}", h.relro)];
        for (on, name) in [
            (h.pie, "PIE"),
            (h.branch_targets, "BTI/IBT"),
            (h.return_addresses, "PAC/shadow stack"),
            (h.stack_protector, "stack protector"),
            (h.fortified, "fortified"),
            (h.executable_stack, "EXECUTABLE STACK"),
        ] {
            if on {
                parts.push(name.into());
            }
        }
        fact("hardening", parts.join(", "));
    }
    for hint in &binary.hints {
        let name = serde_json::to_value(hint.hint)
            .ok()
            .and_then(|v| v.as_str().map(String::from));
        fact(
            &name.unwrap_or_default(),
            format!("{}, in {}", hint.count, shortened(&hint.functions, 6)),
        );
    }
    facts
}

fn shortened(names: &[String], most: usize) -> String {
    let mut text = names[..names.len().min(most)].join(", ");
    if names.len() > most {
        text.push_str(", …");
    }
    text
}

/// The functions with the most atomics.
fn functions(binary: &Binary, blocks: &mut Vec<Block>) {
    let mut busiest: Vec<_> = binary
        .atomics
        .functions
        .iter()
        .filter(|f| !f.is_outline_helper)
        .collect();
    if busiest.is_empty() {
        return;
    }
    busiest.sort_by_key(|f| (std::cmp::Reverse(f.total()), f.address));
    let rows = busiest
        .iter()
        .take(FUNCTIONS_SHOWN)
        .map(|f| {
            let counts = f.counts.iter().map(|(c, n)| format!("{n} {}", c.name()));
            let calls = f
                .outline_calls
                .iter()
                .map(|(h, n)| format!("{n} → {}", h.trim_start_matches("__aarch64_")));
            let what = counts.chain(calls).collect::<Vec<_>>().join(", ");
            let mut through: Vec<_> = f.inlined.iter().collect();
            through.sort_by_key(|(chain, n)| (std::cmp::Reverse(**n), *chain));
            let through = through.iter().map(|(chain, n)| format!("{n} by {chain}"));
            vec![
                f.label(),
                what,
                shortened(&through.collect::<Vec<_>>(), INLINED_SHOWN),
            ]
        })
        .collect();
    let unnamed = busiest.iter().filter(|f| f.name.is_none()).count();
    blocks.push(Block::Heading(format!(
        "Functions with atomics: {}{}",
        busiest.len(),
        if unnamed > 0 {
            format!(", {unnamed} of them stripped of their names")
        } else {
            String::new()
        }
    )));
    let mut columns = vec!["function", "holds"];
    let mut rows: Vec<Vec<String>> = rows;
    if rows.iter().any(|row| !row[2].is_empty()) {
        columns.push("inlined into it");
    } else {
        rows.iter_mut().for_each(|row| row.truncate(2));
    }
    blocks.push(Block::Table(columns, rows));
    if busiest.len() > FUNCTIONS_SHOWN {
        blocks.push(Block::Text(format!(
            "and {} more; --json lists all",
            busiest.len() - FUNCTIONS_SHOWN
        )));
    }
}

fn instructions(binary: &Binary, blocks: &mut Vec<Block>) {
    let functions = &binary.atomics.functions;
    let label = |f: Option<u32>, inlined: &[String]| {
        let function = f.and_then(|f| functions.get(f as usize));
        let mut names = vec![function.map_or_else(|| "outside".to_string(), |f| f.label())];
        names.extend_from_slice(inlined);
        names.join(" > ")
    };
    let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
    for a in binary
        .atomics
        .instructions
        .iter()
        .chain(&binary.atomics.outside)
    {
        rows.push((
            a.address,
            vec![
                format!("{:#x}", a.address),
                a.class.name().into(),
                a.mnemonic.to_string(),
                a.width_bits.to_string(),
                label(a.function, &a.inlined),
            ],
        ));
    }
    if let Some(outline) = &binary.atomics.outline {
        for call in &outline.calls {
            let helper = &outline.helpers[call.helper as usize].name;
            rows.push((
                call.address,
                vec![
                    format!("{:#x}", call.address),
                    "outline-call".into(),
                    helper.clone(),
                    String::new(),
                    label(call.function, &call.inlined),
                ],
            ));
        }
    }
    rows.sort_by_key(|(address, _)| *address);
    blocks.push(Block::Heading(
        "Every atomic instruction and outline call".into(),
    ));
    blocks.push(Block::Table(
        vec!["address", "class", "mnemonic", "bits", "function"],
        rows.into_iter().map(|(_, row)| row).collect(),
    ));
}

fn difference(diff: &Diff, blocks: &mut Vec<Block>) {
    blocks.push(Block::Heading(format!("From {} to {}", diff.a, diff.b)));
    if diff.is_empty() {
        blocks.push(Block::Text(
            "no difference in atomics, hot paths or build facts".into(),
        ));
        return;
    }
    if !diff.facts.is_empty() {
        let rows = diff
            .facts
            .iter()
            .map(|(what, a, b)| vec![what.clone(), a.clone(), b.clone()])
            .collect();
        blocks.push(Block::Table(vec!["fact", "first", "second"], rows));
    }
    if !diff.totals.is_empty() {
        let rows = diff
            .totals
            .iter()
            .map(|(what, (a, b))| vec![what.clone(), a.to_string(), b.to_string()])
            .collect();
        blocks.push(Block::Table(vec!["total", "first", "second"], rows));
    }
    let side = |s: &Option<pgassay_inspect::diff::Side>| match s {
        None => "-".to_string(),
        Some(s) => {
            let counts = s.counts.iter().map(|(c, n)| format!("{n} {}", c.name()));
            let calls = s
                .outline_calls
                .iter()
                .map(|(h, n)| format!("{n} → {}", h.trim_start_matches("__aarch64_")));
            counts.chain(calls).collect::<Vec<_>>().join(", ")
        }
    };
    if !diff.functions.is_empty() {
        let rows = diff
            .functions
            .iter()
            .map(|f| vec![f.name.clone(), side(&f.a), side(&f.b)])
            .collect();
        blocks.push(Block::Table(vec!["function", "first", "second"], rows));
    }
    if diff.unnamed != (0, 0) {
        blocks.push(Block::Text(format!(
            "functions without a name hold atomics too and can't be paired: {} in the first, {} in the second",
            diff.unnamed.0, diff.unnamed.1
        )));
    }
}
