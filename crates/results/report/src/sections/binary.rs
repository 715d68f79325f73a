//! The server's executable: how it was built, and what its locks compile to.

use pgassay_analysis::Analysis;
use pgassay_inspect::cpu::{Evidence, Verdict};
use pgassay_inspect::model::{FileKind, Hardening, HotPath};
use pgassay_inspect::{Binary, ProcessFacts};
use pgassay_model::warning::Warning;

use crate::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::number;

/// Functions of a path that are named before the rest is counted.
const NAMED: usize = 4;

/// What inspect saw in each server's executable.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let mut blocks = Vec::new();
    for arm in &analysis.arms {
        if analysis.arms.len() > 1 {
            blocks.push(Block::Heading(arm.label.clone()));
        }
        match &arm.binary {
            Err(why) => blocks.push(Block::Text(format!("The executable was not seen: {why}."))),
            Ok(binary) => {
                let doubts = binary
                    .warnings
                    .iter()
                    .map(|w| Warning::new("binary", w))
                    .collect::<Vec<_>>();
                let marks = notes.marks(&doubts, &format!("the binary of {}", arm.label));
                blocks.extend(account(binary, arm.verdict.as_ref(), marks));
            }
        }
    }
    (!blocks.is_empty()).then_some(Section {
        id: "binary",
        title: "The binary and its locks",
        depth: Depth::Evidence,
        blocks,
    })
}

/// One line: instruction set, compiler, and how its atomics are done.
pub fn in_short(binary: &Binary) -> String {
    let mut parts = vec![binary.machine.name().to_owned()];
    parts.extend(binary.build.compilers.first().cloned());
    parts.push(atomics(binary));
    parts.join(", ")
}

/// What kinds of atomic instructions there are, and how many.
fn atomics(binary: &Binary) -> String {
    let atomics = &binary.atomics;
    let (lse, loops, calls) = (
        atomics.inline_lse(),
        atomics.inline_llsc(),
        atomics.outline_calls(),
    );
    let mut kinds = Vec::new();
    if lse > 0 {
        kinds.push(format!("{} LSE instructions", number::count(lse)));
    }
    if calls > 0 {
        kinds.push(format!(
            "{} calls of outline helpers (LSE where the CPU has it)",
            number::count(calls)
        ));
    }
    if loops > 0 {
        kinds.push(format!(
            "{} instructions of load-linked and store-conditional loops",
            number::count(loops)
        ));
    }
    if atomics.checked_lse > 0 {
        kinds.push(format!(
            "{} LSE instructions behind a check of the program's own",
            number::count(atomics.checked_lse)
        ));
    }
    match (kinds.is_empty(), binary.unknown_atomics()) {
        (true, Some(why)) if atomics.total() == 0 => format!("atomics that are not known ({why})"),
        (true, _) => format!("{} atomic instructions", number::count(atomics.total())),
        (false, _) => kinds.join(", "),
    }
}

fn account(binary: &Binary, verdict: Option<&Verdict>, marks: Vec<usize>) -> Vec<Block> {
    let mut facts = facts(binary);
    facts.extend(verdict.into_iter().flat_map(judged));
    facts.extend(binary.process.iter().flat_map(seen));
    let mut blocks = vec![
        Block::Text(format!("Its code holds {}.", atomics(binary))),
        Block::Facts(facts),
    ];
    let mut tables: Vec<Table> = [paths(&binary.hot_paths), classes(binary)]
        .into_iter()
        .flatten()
        .collect();
    if let Some(table) = tables.first_mut() {
        table.marks.extend(marks);
    }
    blocks.extend(tables.into_iter().map(Block::Table));
    blocks
}

fn facts(binary: &Binary) -> Vec<Fact> {
    let build = &binary.build;
    let mut facts = vec![
        Fact::new("file", &binary.path),
        Fact::new(
            "kind",
            format!(
                "{} {}, {}",
                binary.machine.name(),
                kind(binary.kind),
                number::bytes(binary.size_bytes)
            ),
        ),
    ];
    facts.push(match build.compilers.as_slice() {
        [] => Fact::new("compiler", "not recorded in the file"),
        compilers => Fact::new("compiler", compilers.join("; ")),
    });
    for flags in &build.flags {
        facts
            .push(Fact::new("flags", &flags.flags).remark(format!("recorded in {}", flags.source)));
    }
    if let Some(postgres) = &binary.postgres {
        facts.push(Fact::new("PostgreSQL", &postgres.version).remark("as the file says"));
        let block = postgres.block_size_bytes.map(u64::from);
        facts.extend(block.map(|n| Fact::new("block size", number::bytes(n))));
    }
    let bounds = &binary.bounds;
    facts.push(
        Fact::new(
            "functions",
            format!(
                "{} found, {} of them with a name",
                number::count(bounds.functions),
                number::count(bounds.named)
            ),
        )
        .remark(match build.stripped {
            true => "the file is stripped",
            false => "symbols are in the file",
        }),
    );
    facts.extend(build.build_id.as_ref().map(|id| Fact::new("build id", id)));
    facts.push(Fact::new("hardening", hardening(&binary.hardening)));
    facts
}

/// Which path its atomics take here, what that costs, and what to do about it.
fn judged(verdict: &Verdict) -> Vec<Fact> {
    let how = match verdict.evidence {
        Evidence::Observed => "seen in the running process",
        Evidence::Inferred => "inferred from the file and the CPU",
    };
    let sources = format!("sources: {}", verdict.sources.join("; "));
    let mut facts = vec![Fact::new("on this host", &verdict.runs).remark(how)];
    if verdict.cost.is_empty() {
        return facts;
    }
    facts.push(Fact::new("which costs", &verdict.cost).remark(sources));
    facts.extend(verdict.advice.iter().map(|a| Fact::new("to do", a)));
    facts
}

/// What the server's process told of itself.
fn seen(process: &ProcessFacts) -> Vec<Fact> {
    let mut facts = Vec::new();
    for byte in &process.flag_bytes {
        let path = match byte.value {
            0 => "exclusive loops",
            _ => "LSE",
        };
        facts.push(
            Fact::new(
                "flag byte of outline atomics",
                format!("{}: {path}", byte.value),
            )
            .remark(format!(
                "read from process {} at {:#x}",
                process.pid, byte.address
            )),
        );
    }
    facts.extend(process.hwcap.as_ref().map(|hwcap| {
        let lse = match process.hwcap_lse {
            Some(true) => "LSE is among it",
            Some(false) => "LSE is not among it",
            None => "of the process's auxiliary vector",
        };
        Fact::new("HWCAP", hwcap).remark(lse)
    }));
    let missing = process.unavailable.iter();
    facts.extend(missing.map(|why| Fact::new("not seen in the process", why)));
    facts
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Executable => "program at a fixed address",
        FileKind::PieExecutable => "position-independent program",
        FileKind::SharedLibrary => "shared library",
        FileKind::Object => "object file",
        FileKind::DebugInfo => "debug information",
    }
}

fn hardening(h: &Hardening) -> String {
    let mut parts = vec![format!("RELRO {}", h.relro)];
    let marks = [
        (h.pie, "position-independent"),
        (h.branch_targets, "branch targets marked"),
        (h.return_addresses, "return addresses protected"),
        (h.stack_protector, "stack protector"),
        (h.fortified, "fortified"),
        (h.executable_stack, "executable stack"),
    ];
    parts.extend(
        marks
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| (*name).to_owned()),
    );
    parts.join(", ")
}

/// What PostgreSQL's own locks, pins and checksums compile to.
fn paths(paths: &[HotPath]) -> Option<Table> {
    if paths.is_empty() {
        return None;
    }
    let functions = |path: &HotPath| {
        let names: Vec<&str> = path.functions.iter().map(|f| f.name.as_str()).collect();
        match names.len().checked_sub(NAMED) {
            None | Some(0) => names.join(", "),
            Some(more) => format!("{} and {more} more", names[..NAMED].join(", ")),
        }
    };
    Some(Table {
        caption: "PostgreSQL's hot paths in this file: the functions that do the work and the \
                  instructions that they do it with."
            .to_owned(),
        columns: vec![
            Column::words("path", 0),
            Column::words("done by", 0),
            Column::words("functions", 2),
            Column::words("in this file", 1),
        ],
        rows: paths
            .iter()
            .map(|path| {
                vec![
                    Cell::plain(&path.title),
                    Cell::plain(path.technique.name()),
                    Cell::plain(functions(path)),
                    Cell::plain(&path.detail),
                ]
            })
            .collect(),
        folded: false,
        marks: vec![],
    })
}

/// Atomic instructions by class, in the whole file.
fn classes(binary: &Binary) -> Option<Table> {
    let atomics = &binary.atomics;
    if atomics.counts.is_empty() {
        return None;
    }
    let holders = |class| {
        let holding = atomics.functions.iter();
        holding.filter(|f| f.counts.contains_key(class)).count() as u64
    };
    let mut caption = String::from("Atomic instructions of the whole file by class.");
    if atomics.outside_count > 0 {
        caption.push_str(&format!(
            " {} more places outside the bounds of known functions read as atomics and are not \
             counted: data between functions can look like code.",
            number::count(atomics.outside_count)
        ));
    }
    Some(Table {
        caption,
        columns: vec![
            Column::words("class", 0),
            Column::figures("instructions", "", 0),
            Column::figures("functions", "", 0),
        ],
        rows: atomics
            .counts
            .iter()
            .map(|(class, count)| {
                vec![
                    Cell::plain(class.name()),
                    Cell::plain(number::count(*count)),
                    Cell::plain(number::count(holders(class))),
                ]
            })
            .collect(),
        folded: true,
        marks: vec![],
    })
}
