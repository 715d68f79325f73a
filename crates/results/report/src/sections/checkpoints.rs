//! Log and checkpoints within the windows: what the load wrote, and what it met.

use pgassay_analysis::Analysis;
use pgassay_analysis::checkpoints::Checkpoints;

use crate::document::{Block, Depth, Fact, Notes, Section};
use crate::number;

/// A line for each load of each server that wrote any log to speak of, or met a checkpoint.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let several = analysis.arms.len() > 1;
    let facts: Vec<Fact> = analysis
        .stages
        .iter()
        .flat_map(|load| load.arms.iter().map(move |arm| (load, arm)))
        .filter_map(|(load, arm)| {
            let seen = arm.checkpoints.as_ref().filter(|c| worth_a_line(c))?;
            let workload = &load.plan.workload.name;
            let name = match several {
                true => format!("{workload}, {}", arm.label),
                false => workload.clone(),
            };
            Some(Fact::new(name, in_words(seen)))
        })
        .collect();
    (!facts.is_empty()).then(|| Section {
        id: "checkpoints",
        title: "Log and checkpoints",
        depth: Depth::Evidence,
        blocks: vec![Block::Facts(facts)],
    })
}

/// Reading alone writes a little log, too: hint bits, and what the server does for itself.
fn worth_a_line(seen: &Checkpoints) -> bool {
    let bytes = seen.wal_bytes_per_transaction.unwrap_or(0.0);
    seen.timed + seen.requested > 0 || bytes >= 16.0
}

fn in_words(seen: &Checkpoints) -> String {
    let mut words = format!(
        "in {} windows, {:.0} s in all, checkpoints began: {} by time, {} by request",
        seen.windows, seen.seconds, seen.timed, seen.requested
    );
    if let Some(each) = seen.wal_bytes_per_transaction {
        words.push_str(&format!(
            "; {} bytes of log a transaction",
            number::short(each)
        ));
        if let Some(share) = seen.full_page_share {
            let share = 100.0 * share;
            words.push_str(&format!(", at most {share:.0} % of it whole pages"));
        }
    }
    if let Some(share) = seen.at_work_share {
        let share = 100.0 * share;
        words.push_str(&format!(
            "; the checkpointer was at work {share:.0} % of the time"
        ));
    }
    if let Some(ratio) = &seen.throughput_ratio {
        words.push_str(&format!(
            "; with a checkpoint under way throughput was {:.2} of that without ({:.2} to {:.2})",
            ratio.estimate, ratio.low, ratio.high
        ));
    }
    words
}
