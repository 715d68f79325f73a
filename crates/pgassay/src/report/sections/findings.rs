//! What holds the server back, and what to do about it.

use pgassay_analysis::Analysis;
use pgassay_analysis::check::{CheckReport, RuleResult, StepKind};

use crate::report::document::{Block, Depth, FindingBlock, Notes, Section, Step};

/// The findings of an assay's check.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    section_of(analysis.check.as_ref()?)
}

/// The findings, the gravest first; nothing where there is none.
pub fn section_of(report: &CheckReport) -> Option<Section> {
    let blocks: Vec<Block> = report
        .findings()
        .map(|finding| Block::Finding(Box::new(block(finding))))
        .collect();
    (!blocks.is_empty()).then_some(Section {
        id: "findings",
        title: "What holds it back, and what to do",
        depth: Depth::Summary,
        blocks,
    })
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
