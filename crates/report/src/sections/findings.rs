//! What holds the server back, and what to do about it.

use pgassay_analysis::Analysis;
use pgassay_analysis::check::{CheckReport, RuleResult, StepKind};
use pgassay_analysis::diagnose::{Cause, Finding, SeenBy, finding_of};

use crate::document::{Block, Depth, Fact, FindingBlock, Notes, Section, Step};

/// Causes that are expected to cost less stand in the diagnosis alone.
const WORTH_A_BLOCK: f64 = 0.02;

/// What the loads showed and the findings of an assay's check, in one order: those of weight
/// whole, the audit's others in a line each.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let check = analysis.check.as_ref()?;
    let mut blocks: Vec<Block> = analysis
        .causes
        .iter()
        .filter_map(|cause| of_cause(analysis, check, cause))
        .map(|block| Block::Finding(Box::new(block)))
        .collect();
    let in_full = |id: &str| {
        let of_audit = |c: &Cause| c.seen_by == SeenBy::Audit && c.id == id;
        analysis.causes.iter().any(of_audit)
    };
    let light: Vec<Fact> = check
        .findings()
        .filter(|f| !in_full(&f.id))
        .map(|f| {
            let severity = f.severity.map_or("", |s| s.name());
            Fact::new(&f.id, &f.saw).remark(severity)
        })
        .collect();
    if blocks.is_empty() && light.is_empty() {
        return None;
    }
    if blocks.is_empty() {
        let text = "The audit found nothing of weight.";
        blocks.push(Block::Text(text.to_owned()));
    }
    if !light.is_empty() {
        blocks.push(Block::Facts(light));
    }
    let counts = &check.counts;
    blocks.push(Block::Text(format!(
        "{} rules passed, {} did not apply, {} could not be seen; pgassay check has them all, \
         and pgassay check --explain says why each matters.",
        counts.passed, counts.not_applicable, counts.could_not_see
    )));
    Some(of_blocks(blocks))
}

/// The findings of an audit, the gravest first; nothing where there is none.
pub fn section_of(report: &CheckReport) -> Option<Section> {
    let blocks: Vec<Block> = report
        .findings()
        .map(|finding| Block::Finding(Box::new(block(finding))))
        .collect();
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

/// A cause in full, where it is worth that.
fn of_cause(analysis: &Analysis, check: &CheckReport, cause: &Cause) -> Option<FindingBlock> {
    let Some(finding) = finding_of(analysis, cause) else {
        return check.findings().find(|f| f.id == cause.id).map(block);
    };
    (cause.expected_gain >= WORTH_A_BLOCK).then(|| measured(finding, cause))
}

/// What a load showed; its evidence stands in the diagnosis.
fn measured(finding: &Finding, cause: &Cause) -> FindingBlock {
    let workload = cause.workload.as_deref().unwrap_or("the load");
    FindingBlock {
        id: finding.id.clone(),
        severity: "measured",
        sure: finding.sureness.word(),
        saw: format!("Under {workload}: {}", finding.title),
        why: finding.explanation.clone(),
        effect: finding.gain_in_words().map_or(String::new(), |gain| {
            format!("By what was measured, an upper bound: {gain}.")
        }),
        sources: finding.sources.clone(),
        steps: vec![Step {
            text: finding.remedy.clone(),
            command: false,
        }],
    }
}

fn block(result: &RuleResult) -> FindingBlock {
    FindingBlock {
        id: result.id.clone(),
        severity: result.severity.map_or("", |s| s.name()),
        sure: result.sure.map_or("", |s| s.name()),
        saw: result.saw.clone(),
        why: result.why.clone(),
        effect: result.effect.clone(),
        sources: result.sources.clone(),
        steps: result
            .remedy
            .iter()
            .map(|step| Step {
                text: step.text.clone(),
                command: step.kind != StepKind::Advice,
            })
            .collect(),
    }
}
