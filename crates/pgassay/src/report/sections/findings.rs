//! What holds the server back, and what to do about it.

use pgassay_analysis::Analysis;
use pgassay_analysis::check::{CheckReport, RuleResult, Severity, StepKind};

use crate::report::document::{Block, Depth, Fact, FindingBlock, Notes, Section, Step};

/// The findings of an assay's check: those of weight whole, the others in a line each.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let check = analysis.check.as_ref()?;
    let mut section = section_of(check)?;
    let light: Vec<Fact> = check
        .findings()
        .filter(|f| f.severity < Some(Severity::Medium))
        .map(|f| {
            let severity = f.severity.map_or("", |s| s.name());
            Fact::new(&f.id, &f.saw).remark(severity)
        })
        .collect();
    let heavy = check.findings().count() - light.len();
    section.blocks.truncate(heavy);
    if heavy == 0 {
        let text = "The audit found nothing of weight.";
        section.blocks.push(Block::Text(text.to_owned()));
    }
    if !light.is_empty() {
        section.blocks.push(Block::Facts(light));
    }
    let counts = &check.counts;
    section.blocks.push(Block::Text(format!(
        "{} rules passed, {} did not apply, {} could not be seen; pgassay check has them all, \
         and pgassay check --explain says why each matters.",
        counts.passed, counts.not_applicable, counts.could_not_see
    )));
    Some(section)
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
