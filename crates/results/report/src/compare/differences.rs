//! In what the arms differ: version, build, code, settings, plans, data.

use pgassay_analysis::compare::Compare;
use pgassay_analysis::compare::model::{Difference, Kind};

use super::others;
use crate::document::{Block, Cell, Column, Depth, Section, Table};

/// More rows of one kind than this are folded.
const FEW: usize = 12;

/// One table a kind.
pub fn section(compare: &Compare) -> Option<Section> {
    // Of runs recorded apart the statements' plans and the like were not kept.
    compare.plan.as_ref()?;
    let mut blocks = Vec::new();
    if compare.differences.is_empty() {
        blocks.push(Block::Text(
            "Nothing that pgassay looks at: version, executable, settings in force, plans of the \
             workload's statements, tables, misses."
                .to_owned(),
        ));
    }
    for (kind, caption) in [
        (Kind::Version, "The servers' versions."),
        (
            Kind::Build,
            "How the executables were built, by inspect --diff.",
        ),
        (
            Kind::Setting,
            "Settings in force that differ; those marked were not asked for.",
        ),
        (Kind::Plan, "Plans of the workload's statements."),
        (Kind::Data, "Tables."),
        (Kind::Misses, "Blocks read into shared buffers."),
        (Kind::Code, "Atomic instructions, by inspect --diff."),
    ] {
        let rows: Vec<&Difference> = compare
            .differences
            .iter()
            .filter(|d| d.kind == kind)
            .collect();
        if !rows.is_empty() {
            blocks.push(Block::Table(table(compare, caption, &rows)));
        }
    }
    Some(Section {
        id: "differences",
        title: "What differs",
        depth: Depth::Evidence,
        blocks,
    })
}

fn table(compare: &Compare, caption: &str, rows: &[&Difference]) -> Table {
    let several = others(&compare.analysis) > 1;
    let mut columns = vec![Column::words("what", 0)];
    if several {
        columns.push(Column::words("arm", 0));
    }
    let other = if several { "that arm" } else { "B" };
    columns.extend([
        Column::words("A", 0),
        Column::words(other, 0),
        Column::words("planned", 1),
    ]);
    let label = |arm: u32| {
        let arm = compare.analysis.arms.get(arm as usize);
        arm.map_or(String::new(), |arm| arm.label.clone())
    };
    Table {
        caption: caption.to_owned(),
        columns,
        rows: rows
            .iter()
            .map(|d| {
                let mut row = vec![Cell::plain(&d.name)];
                if several {
                    row.push(Cell::plain(label(d.arm)));
                }
                row.extend([
                    Cell::plain(&d.a),
                    Cell::plain(&d.b),
                    Cell::plain(if d.planned {
                        "yes"
                    } else {
                        "no: not comparable"
                    }),
                ]);
                row
            })
            .collect(),
        folded: rows.len() > FEW,
        marks: vec![],
    }
}
