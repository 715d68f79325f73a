//! What kernels execute on processors that were emulated: counts, side by side by build.

use pgassay_analysis::Analysis;
use pgassay_model::kernel_counts::{CountedForm, EmulatedBuild, KernelCounts};

use crate::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::number;

/// A figure of a form, and how it is headed.
type Figure = (&'static str, fn(&CountedForm) -> f64);

const FIGURES: [Figure; 3] = [
    ("instructions", |form| form.instructions_per_operation),
    ("exclusive pairs", |form| form.exclusive_pairs_per_operation),
    ("single atomics", |form| form.single_atomics_per_operation),
];

/// The counts, where there are any.
pub fn section(analysis: &Analysis, _notes: &mut Notes) -> Option<Section> {
    let counts = analysis.kernel_counts.as_ref()?;
    let mut blocks: Vec<Block> = counts.builds.iter().map(table).map(Block::Table).collect();
    blocks.push(Block::Facts(facts(counts)));
    Some(Section {
        id: "kernel-counts",
        title: "Kernels under emulation: counts, no time",
        depth: Depth::Summary,
        blocks,
    })
}

fn table(build: &EmulatedBuild) -> Table {
    // A column in which no form has anything says nothing.
    let figures: Vec<Figure> = FIGURES
        .into_iter()
        .filter(|(_, of)| build.forms.iter().any(|form| of(form) >= 0.005))
        .collect();
    let mut columns = vec![Column::words("primitive", 0), Column::words("form", 0)];
    columns.extend(figures.iter().map(|(head, _)| Column::figures(head, "", 0)));
    let rows = build.forms.iter().map(|form| {
        let mut row = vec![Cell::plain(&form.primitive), Cell::plain(&form.variant)];
        row.extend(figures.iter().map(|(_, of)| Cell::plain(counted(of(form)))));
        row
    });
    Table {
        caption: format!(
            "{}: what one operation executes in one thread, the loop around it left out. Counted in \
             qemu's user emulator: it says nothing of time.",
            build.title()
        ),
        columns,
        rows: rows.collect(),
        folded: false,
        marks: vec![],
    }
}

/// What random operations have on average is no whole number.
fn counted(count: f64) -> String {
    match (count - count.round()).abs() < 0.005 {
        true => number::count(count.round().max(0.0) as u64),
        false => format!("{count:.2}"),
    }
}

fn facts(counts: &KernelCounts) -> Vec<Fact> {
    let how = |build: &EmulatedBuild| {
        let flags = build.flags.join(" ");
        Fact::new(
            build.title(),
            format!("{} {flags}", build.compiler).trim_end(),
        )
        .remark(format!(
            "{}, a {}; {} operations",
            build.emulator,
            build.cpu,
            number::count(build.operations)
        ))
    };
    counts.builds.iter().map(how).collect()
}
