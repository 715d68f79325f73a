//! What qualifies the figures of scattered reads.

use pgassay_model::reading::Reading;
use pgassay_model::scattered::{ScatteredPlan, ScatteredVariant};
use pgassay_model::warning::Warning;

use super::execution::{Execution, is_as_found};
use crate::number;
use crate::stats::Estimate;

/// A device that read this much more than it read for the server read for others.
const OTHERS: f64 = 1.1;
/// A device that read less than this share of what it read for the server's processes did not
/// answer them. Smaller differences were seen with direct I/O: a fifth, in short executions.
const FROM_BENEATH: f64 = 0.5;
/// Blocks read and blocks wanted may differ by this share.
const SAME_BLOCKS: f64 = 0.01;
/// A table of whose blocks this share came into the page cache was read through it.
const THROUGH_CACHE: f64 = 0.05;

/// What qualifies executions of somebody's own reads.
fn of_own(plan: &ScatteredPlan, executions: &[Execution], cold: &[&Execution]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if plan.own.is_none() {
        return warnings;
    }
    if cold.is_empty()
        && let Some(first) = executions.first()
    {
        warnings.push(
            Warning::new(
                "all-in-buffers",
                format!(
                    "Nothing was read: all {} blocks that it looked at were in shared buffers.",
                    first.explained.hit_blocks
                ),
            )
            .with_remedy(
                "measure a copy, whose server begins with empty buffers: temp with --from-database",
            ),
        );
    }
    let there = |e: &&Execution| Some(e.trial.cached_before.pages()?.0);
    if is_as_found(plan)
        && let Some(pages) = cold
            .iter()
            .filter_map(there)
            .max()
            .filter(|pages| *pages > 0)
    {
        warnings.push(
            Warning::new(
                "as-found",
                format!(
                    "{} of its files lay in the page cache before: what is read there costs the device nothing, so \
                     that the figures are those of the server as it was found.",
                    number::bytes(pages * plan.page_size_bytes)
                ),
            )
            .with_remedy("--evict takes them out before each execution"),
        );
    }
    warnings
}

/// What qualifies a variant's figures.
pub(super) fn warnings(
    plan: &ScatteredPlan,
    (variant, executions): (&ScatteredVariant, &[Execution]),
    cold: &[&Execution],
    direct: bool,
    device: Option<&Estimate>,
    processes: Option<&Estimate>,
) -> Vec<Warning> {
    let mut warnings = of_own(plan, executions, cold);
    if let Some(node) = &variant.expected_node
        && let Some(other) = cold.iter().find(|e| !e.explained.nodes.contains(node))
    {
        warnings.push(Warning::new(
            "another-plan",
            format!(
                "The plan was to be a {node} and was a {}: the figures are of that.",
                other.explained.scan()
            ),
        ));
    }
    if let Some(Err(why)) = cold.iter().map(|e| &e.device).find(|d| d.is_err()) {
        warnings.push(Warning::new(
            "device-not-visible",
            format!("Device reads are not visible: {why}"),
        ));
    }
    if let Some(why) = cold.iter().find_map(|e| match &e.trial.processes_bytes {
        Reading::Text(_) => None,
        Reading::Unavailable(why) => Some(why),
    }) {
        warnings.push(Warning::new(
            "processes-not-visible",
            format!("Reads of the server's processes are not visible: {why}"),
        ));
    }
    if variant.expected_node.is_some()
        && let Some(e) = cold.iter().find(|e| {
            let wanted = e.trial.wanted_blocks as f64;
            (e.explained.read_blocks as f64 - wanted).abs() > SAME_BLOCKS * wanted
        })
    {
        warnings.push(
            Warning::new(
                "other-blocks",
                format!(
                    "{} blocks were read where {} hold the rows: some were in shared buffers still, or \
                     others had to be read with them.",
                    e.explained.read_blocks, e.trial.wanted_blocks
                ),
            )
            .with_remedy("choose a larger table with --size, or smaller shared_buffers"),
        );
    }
    let not_cold = cold.iter().any(|e| {
        e.trial
            .cached_before
            .pages()
            .is_some_and(|(_, wanted)| wanted as f64 > SAME_BLOCKS * e.trial.wanted_pages as f64)
    });
    if not_cold && !is_as_found(plan) {
        warnings.push(Warning::new(
            "not-cold",
            "Part of the table stayed in the page cache although the kernel was asked to drop it.",
        ));
    }
    // A file system may take direct reads and answer them out of the page cache.
    let came_in = |e: &&Execution| {
        e.grown
            .is_some_and(|(all, _)| all > THROUGH_CACHE * e.asked)
    };
    if direct && cold.iter().any(came_in) {
        warnings.push(Warning::new(
            "direct-through-cache",
            "The server was to read past the page cache, and the table came into it: the file system \
             answers direct reads through it, so that the kernel's page size counts all the same.",
        ));
    }
    if let (Some(device), Some(processes)) = (device, processes)
        && device.estimate > OTHERS * processes.estimate.max(0.01)
    {
        warnings.push(
            Warning::new(
                "others-read",
                format!(
                    "The devices read {:.2} times what was asked for, the server's processes only {:.2} \
                     times: others read from them meanwhile.",
                    device.estimate, processes.estimate
                ),
            )
            .with_remedy("measure again when the machine is quiet"),
        );
    }
    if let (Some(device), Some(processes)) = (device, processes)
        && device.estimate < FROM_BENEATH * processes.estimate
    {
        warnings.push(
            Warning::new(
                "cached-beneath",
                format!(
                    "The server's processes had {:.2} times read what was asked for, and the devices \
                     that are counted read {:.2} times: the rest lay in a cache beneath the server's \
                     file system, such as the page cache that holds the file of a loop device.",
                    processes.estimate, device.estimate
                ),
            )
            .with_remedy(
                "drop all of the page cache with --drop-caches, or let the loop device pass it: \
                 losetup --direct-io=on",
            ),
        );
    }
    warnings
}
