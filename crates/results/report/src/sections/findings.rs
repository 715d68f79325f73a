//! What holds the server back, and what to do about it.

use pgassay_analysis::Analysis;
use pgassay_analysis::bottlenecks::{Cause, Finding, SeenBy};
use pgassay_analysis::causes::finding_of;
use pgassay_analysis::check::CheckReport;

use crate::document::{Block, Depth, Fact, FindingBlock, Notes, Section};
use crate::plain;

/// Causes that are expected to cost less stand in the diagnosis alone.
const WORTH_A_BLOCK: f64 = 0.02;

/// A finding as every report shows it; `under` names the load that showed it, whose diagnosis
/// shows it in full.
pub fn block(finding: &Finding, under: Option<&str>, in_full: bool) -> Block {
    Block::Finding(Box::new(FindingBlock {
        finding: finding.clone(),
        under: under.map(str::to_owned),
        measure: None,
        in_full,
    }))
}

/// What holds the server back, in order of what it is expected to cost.
pub fn of_causes(analysis: &Analysis) -> Vec<FindingBlock> {
    let causes = analysis.causes.iter();
    causes
        .filter_map(|cause| of_cause(analysis, cause))
        .collect()
}

/// What the loads showed and the findings of an assay's check, in one order: those of weight
/// whole, the audit's others in a line each.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let causes = of_causes(analysis).into_iter();
    let mut blocks: Vec<Block> = causes
        .map(|block| Block::Finding(Box::new(block)))
        .collect();
    if let Some(check) = &analysis.check {
        audited(analysis, check, &mut blocks);
    }
    (!blocks.is_empty()).then(|| of_blocks(blocks))
}

/// The rest of an audit: a line a finding of little weight, and how many checks there were.
fn audited(analysis: &Analysis, check: &CheckReport, blocks: &mut Vec<Block>) {
    let in_full = |id: &str| {
        let of_audit = |c: &Cause| c.seen_by == SeenBy::Audit && c.id == id;
        analysis.causes.iter().any(of_audit)
    };
    let light: Vec<Fact> = check
        .findings()
        .filter(|f| !in_full(&f.id))
        .map(|f| Fact::new(&f.id, &f.saw).remark(f.severity.name()))
        .collect();
    if blocks.is_empty() && light.is_empty() {
        return;
    }
    if blocks.is_empty() {
        let text = "The audit found nothing significant.";
        blocks.push(Block::Text(text.to_owned()));
    }
    if !light.is_empty() {
        blocks.push(Block::Facts(light));
    }
    let counts = &check.counts;
    blocks.push(Block::Text(format!(
        "{} checks passed, {} not applicable, {} not evaluated; pgassay check lists them, and \
         pgassay check --explain says why each matters.",
        counts.passed, counts.not_applicable, counts.could_not_see
    )));
}

/// The findings of an audit, the gravest first; nothing if there is none.
pub fn section_of(report: &CheckReport) -> Option<Section> {
    let blocks: Vec<Block> = report.findings().map(|f| block(f, None, false)).collect();
    (!blocks.is_empty()).then(|| of_blocks(blocks))
}

fn of_blocks(blocks: Vec<Block>) -> Section {
    Section {
        id: "findings",
        title: "What holds it back, and what to do",
        depth: Depth::Summary,
        blocks,
    }
}

/// A cause in full, if it is worth that.
fn of_cause(analysis: &Analysis, cause: &Cause) -> Option<FindingBlock> {
    let worth = cause.seen_by == SeenBy::Audit || cause.expected_gain >= WORTH_A_BLOCK;
    let finding = finding_of(analysis, cause).filter(|_| worth)?;
    Some(FindingBlock {
        finding: finding.clone(),
        under: cause.workload.clone(),
        measure: cause.measure.as_deref().map(plain::shell),
        in_full: finding.basis.is_measured(),
    })
}
