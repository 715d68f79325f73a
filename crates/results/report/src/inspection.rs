//! What an inspection says of files and of what was asked of them.

use pgassay_inspect::Binary;
use pgassay_inspect::cpu::{Evidence, Path, Verdict};
use pgassay_inspect::diff::{Diff, Side};
use pgassay_inspect::inspection::{Demand, Entry, Inspection, Problem};
use pgassay_inspect::loading::{Kernel, Loads};

use crate::document::{Block, Cell, Column, Depth, Document, Fact, Section, Table};
use crate::{Report, number};

mod modules;

/// Functions listed of a file; JSON has all.
const FUNCTIONS_SHOWN: usize = 24;
/// Ways of inlining named for one function.
const INLINED_SHOWN: usize = 3;
/// Files described one by one: beyond, servers only, and of those no more either.
const FILES_SHOWN: usize = 4;
/// Files named that do not meet a requirement.
const UNMET_SHOWN: usize = 12;
/// Files named that could not be read.
const PROBLEMS_SHOWN: usize = 50;

impl Report for Inspection {
    fn document(&self) -> Document {
        let mut sections = Vec::new();
        let mut add = |id, title, blocks: Vec<Block>| {
            if !blocks.is_empty() {
                sections.push(Section {
                    id,
                    title,
                    depth: Depth::Titled,
                    blocks,
                });
            }
        };
        if self.files.len() > 1 {
            add("overview", "All files", overview(&self.files));
        }
        add(
            "modules",
            "Modules of the server",
            modules::blocks(&self.modules),
        );
        add("files", "What was found", files(&self.files));
        let changed = self.diff.as_ref().map(difference);
        add("difference", "What differs", changed.unwrap_or_default());
        let required = self.requirements.iter().map(required);
        add("required", "Required", required.collect());
        add("problems", "Not read", problems(&self.problems));
        Document {
            title: match self.files.as_slice() {
                [one] => format!("Inspection of {}", one.binary.path),
                several => format!("Inspection of {} files", several.len()),
            },
            provenance: format!("Inspected by pgassay {}", env!("CARGO_PKG_VERSION")),
            alarms: Vec::new(),
            headline: headline(self),
            sections,
            notes: Vec::new(),
            ..Document::default()
        }
    }
}

/// What was asked for and is not so; of one file what it does for its atomics.
fn headline(inspection: &Inspection) -> Vec<String> {
    let unmet = inspection.requirements.iter().filter(|d| !d.met);
    let mut sentences: Vec<String> = unmet
        .map(|d| format!("The requirement {} is not met.", d.requirement))
        .collect();
    let is_illegal = |v: &&Verdict| v.path == Path::Illegal;
    let illegal = |entry: &Entry| entry.verdicts.iter().find(is_illegal).cloned();
    let first = |entry: &Entry| Some((entry.binary.path.clone(), illegal(entry)?.runs));
    let ending: Vec<(String, String)> = inspection.files.iter().filter_map(first).collect();
    match (ending.as_slice(), inspection.files.as_slice()) {
        ([], _) => {}
        (_, [one]) => {
            let runs = one.verdicts.iter().filter(is_illegal).map(|v| &v.runs);
            sentences.extend(runs.map(|runs| format!("{runs}.")));
        }
        ([(path, runs), ..], files) => sentences.push(format!(
            "{} of {} files end with SIGILL, such as {path}: {runs}.",
            ending.len(),
            files.len()
        )),
    }
    sentences.extend(unloadable(&inspection.files));
    if let Some(sentence) = modules::sentence(&inspection.modules) {
        sentences.push(sentence);
    }
    if let [one] = inspection.files.as_slice() {
        sentences.push(format!("Atomics: {}.", technique(&one.binary)));
    }
    sentences
}

/// That files do not load on kernels with larger pages.
fn unloadable(files: &[Entry]) -> Option<String> {
    let failing: Vec<&Entry> = files
        .iter()
        .filter(|entry| entry.binary.loading.failing().next().is_some())
        .collect();
    let first = failing.first()?;
    let kernels: Vec<&Kernel> = first.binary.loading.failing().collect();
    let pages: Vec<String> = kernels.iter().map(|k| k.page_kib().to_string()).collect();
    let why = kernels.last().and_then(|k| k.why.as_deref());
    let pages = pages.join(" and ");
    let only = match kernels.iter().all(|k| k.loads == Loads::NewerGlibc) {
        true => " with glibc before 2.35",
        false => "",
    };
    let subject = match files {
        [_] => "Does not load".to_owned(),
        _ => format!(
            "{} of {} files do not load, such as {},",
            failing.len(),
            files.len(),
            first.binary.path
        ),
    };
    Some(format!(
        "{subject}{only} on kernels with pages of {pages} KiB: {}.",
        why.unwrap_or("not aligned")
    ))
}

/// In full: every server; of other files a handful.
fn files(files: &[Entry]) -> Vec<Block> {
    let is_server = |entry: &Entry| entry.binary.postgres.is_some();
    let servers = files.iter().filter(|entry| is_server(entry)).count();
    let few = files.len() <= FILES_SHOWN;
    let mut blocks = Vec::new();
    for entry in files {
        if few || (servers <= FILES_SHOWN && is_server(entry)) {
            file(entry, &mut blocks);
        } else if let Some(table) = instructions(&entry.binary) {
            blocks.push(Block::Heading(entry.binary.path.clone()));
            blocks.push(Block::Table(table));
        }
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
        parts.push(format!(
            "{} could not be read",
            number::counted(n as u64, "file")
        ));
    }
    let between = if failed > 0 { " " } else { ": " };
    format!("unmet{between}{}", parts.join("; "))
}

fn required(demand: &Demand) -> Block {
    let state = match (demand.met, demand.files) {
        (true, n) => format!("met by {}", number::counted(n as u64, "file")),
        (false, 0) if demand.unread == 0 => "unmet: no file that it is about".into(),
        (false, n) => unmet(demand, n),
    };
    let unmet = demand.unmet.iter().take(UNMET_SHOWN);
    let unmet = unmet.map(|(path, why)| Fact::new("", format!("{path}: {why}")));
    let facts = std::iter::once(Fact::new(&demand.requirement, state)).chain(unmet);
    Block::Facts(facts.collect())
}

fn problems(problems: &[Problem]) -> Vec<Block> {
    if problems.is_empty() {
        return Vec::new();
    }
    let shown = problems.iter().take(PROBLEMS_SHOWN);
    let facts = shown.map(|p| Fact::new(&p.path, &p.error)).collect();
    vec![Block::Facts(facts)]
}

/// A table of words, the first column's alone never broken.
fn table(caption: impl Into<String>, columns: &[&str], rows: Vec<Vec<String>>) -> Block {
    let columns = columns.iter().map(|head| Column::prose(head)).collect();
    let rows = rows
        .into_iter()
        .map(|row| row.into_iter().map(Cell::plain).collect());
    Block::Table(Table::new(caption, columns, rows))
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
    if a.checked_lse > 0 {
        parts.push(format!(
            "{} LSE behind a check of the program's own",
            a.checked_lse
        ));
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
    parts.extend(
        binary
            .unknown_atomics()
            .map(|why| format!("the rest not known: {why}")),
    );
    match (parts.as_slice(), a.outside_count) {
        ([], 0) => "no atomics".into(),
        ([], n) => format!("none in known functions; {n} byte patterns between them"),
        ([why], _) if a.total_with_calls() == 0 => why.replacen("the rest not", "not", 1),
        (parts, _) => parts.join(", "),
    }
}

fn overview(files: &[Entry]) -> Vec<Block> {
    let busy: Vec<&Entry> = files
        .iter()
        .filter(|f| f.binary.atomics.total_with_calls() > 0 || f.binary.unknown_atomics().is_some())
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
    let idle = files.len() - busy.len();
    let caption = match idle {
        0 => String::new(),
        n => format!(
            "{} without atomics.",
            number::counted(n as u64, "more file")
        ),
    };
    vec![table(
        caption,
        &["file", "machine", "PostgreSQL", "atomics", "outside"],
        rows,
    )]
}

fn file(entry: &Entry, blocks: &mut Vec<Block>) {
    let binary = &entry.binary;
    blocks.push(Block::Heading(binary.path.clone()));
    blocks.push(Block::Facts(build(binary)));
    let a = &binary.atomics;
    if a.total_with_calls() > 0 {
        let rows = a
            .counts
            .iter()
            .map(|(c, n)| vec![c.name().to_string(), n.to_string()])
            .collect();
        let caption = format!("Atomics: {}.", technique(binary));
        blocks.push(table(caption, &["class", "instructions"], rows));
    }
    if let Some(outline) = &a.outline {
        let flags = outline.flag_addresses.iter();
        let caption = format!(
            "Outline helpers: {}, recognized by their shape; flag byte at {}.",
            outline.helpers.len(),
            flags
                .map(|f| format!("{f:#x}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
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
        blocks.push(table(
            caption,
            &["helper", "call sites", "address", "known by"],
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
        blocks.push(table(
            "PostgreSQL's hot paths.",
            &["path", "by", "detail"],
            rows,
        ));
    }
    if let Some(process) = &binary.process {
        let mut facts = vec![Fact::new("seen in process", process.pid.to_string())];
        if let Some(hwcap) = &process.hwcap {
            let lse = match process.hwcap_lse {
                Some(true) => ": LSE",
                Some(false) => ": no LSE",
                None => "",
            };
            facts.push(Fact::new("HWCAP", format!("{hwcap}{lse}")));
        }
        for byte in &process.flag_bytes {
            let path = if byte.value == 0 {
                "exclusive loops"
            } else {
                "LSE"
            };
            facts.push(Fact::new(
                "flag byte",
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
                .map(|u| Fact::new("unavailable", u)),
        );
        blocks.push(Block::Facts(facts));
    }
    for verdict in &entry.verdicts {
        blocks.push(Block::Facts(judged(verdict)));
    }
    for warning in &binary.warnings {
        blocks.push(Block::Text(format!("Warning: {warning}")));
    }
    blocks.extend(instructions(binary).map(Block::Table));
}

fn judged(verdict: &Verdict) -> Vec<Fact> {
    let how = match verdict.evidence {
        Evidence::Observed => "seen in the process",
        Evidence::Inferred => "inferred",
    };
    let on = format!("on {}", verdict.cpu);
    let mut facts = vec![Fact::new(on, &verdict.runs).remark(how)];
    if !verdict.cost.is_empty() {
        facts.push(Fact::new("costs", &verdict.cost));
    }
    facts.extend(
        verdict
            .loads
            .iter()
            .filter(|_| verdict.loads.len() > 1)
            .map(loads),
    );
    facts.extend(verdict.advice.iter().map(|a| Fact::new("to do", a)));
    facts.push(Fact::new("sources", verdict.sources.join("; ")));
    facts
}

fn loads(kernel: &Kernel) -> Fact {
    let outcome = match kernel.loads {
        Loads::Yes => "loads",
        Loads::NewerGlibc => "loads with glibc 2.35 and later only",
        Loads::No => "does not load",
        Loads::Unknown => "not known",
    };
    let fact = Fact::new(format!("pages of {} KiB", kernel.page_kib()), outcome);
    match &kernel.why {
        Some(why) => fact.remark(why),
        None => fact,
    }
}

fn build(binary: &Binary) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let mut fact = |name: &str, value: String| facts.push(Fact::new(name, value));
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
    let mut caption = format!("Functions with atomics: {}", busiest.len());
    if unnamed > 0 {
        caption += &format!(", {unnamed} of them stripped of their names");
    }
    if busiest.len() > FUNCTIONS_SHOWN {
        let more = busiest.len() - FUNCTIONS_SHOWN;
        caption += &format!("; {more} of them are in JSON only");
    }
    let mut columns = vec!["function", "holds"];
    let mut rows: Vec<Vec<String>> = rows;
    if rows.iter().any(|row| !row[2].is_empty()) {
        columns.push("inlined into it");
    } else {
        rows.iter_mut().for_each(|row| row.truncate(2));
    }
    blocks.push(table(caption + ".", &columns, rows));
}

/// Every atomic instruction, where addresses were asked for.
fn instructions(binary: &Binary) -> Option<Table> {
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
    let heads = ["address", "class", "mnemonic", "bits", "function"];
    let cells = rows
        .into_iter()
        .map(|(_, row)| row.into_iter().map(Cell::plain).collect::<Vec<Cell>>());
    let table = Table::new(
        "Every atomic instruction and outline call.",
        heads.iter().map(|head| Column::prose(head)).collect(),
        cells,
    );
    (!table.rows.is_empty()).then(|| table.folded())
}

fn difference(diff: &Diff) -> Vec<Block> {
    let mut blocks = vec![Block::Text(format!("From {} to {}.", diff.a, diff.b))];
    if diff.is_empty() {
        blocks.push(Block::Text(
            "No difference in atomics, hot paths or build facts.".into(),
        ));
        return blocks;
    }
    let mut add = |caption: &str, what: &str, rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            blocks.push(table(caption, &[what, "first", "second"], rows));
        }
    };
    let facts = diff.facts.iter();
    let facts = facts.map(|(what, a, b)| vec![what.clone(), a.clone(), b.clone()]);
    add("How they were built.", "fact", facts.collect());
    let totals = diff.totals.iter();
    let totals = totals.map(|(what, (a, b))| vec![what.clone(), a.to_string(), b.to_string()]);
    add("Atomics in the whole file.", "total", totals.collect());
    let functions = diff.functions.iter();
    let functions = functions.map(|f| vec![f.name.clone(), side(&f.a), side(&f.b)]);
    add("Function by function.", "function", functions.collect());
    if diff.unnamed != (0, 0) {
        blocks.push(Block::Text(format!(
            "Functions without a name hold atomics, too, and can't be paired: {} in the first, {} \
             in the second.",
            diff.unnamed.0, diff.unnamed.1
        )));
    }
    blocks
}

fn side(side: &Option<Side>) -> String {
    let Some(side) = side else {
        return "-".to_owned();
    };
    let counts = side.counts.iter().map(|(c, n)| format!("{n} {}", c.name()));
    let calls = side
        .outline_calls
        .iter()
        .map(|(h, n)| format!("{n} → {}", h.trim_start_matches("__aarch64_")));
    counts.chain(calls).collect::<Vec<_>>().join(", ")
}
