//! One execution with everything that was read during it.

use pgassay_model::explain::Explained;
use pgassay_model::scattered::{ExecutionRecord, Pattern, ScatteredPlan, ScatteredVariant};
use pgassay_model::storage::Storage;
use pgassay_model::trial::Trial;
use serde::{Deserialize, Serialize};

use crate::storage::figures;

/// The causes of read amplification; they add up to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shares {
    /// The blocks themselves: 1, or less where some were in the page cache still.
    pub blocks: f64,
    /// The rest of the kernel's pages that hold them.
    pub pages: f64,
    /// Pages that hold none of them: read-ahead.
    pub read_ahead: f64,
    /// Read for the server and not found in the table's cache: metadata, other
    /// files, pages dropped again.
    pub rest: f64,
    /// Read by the devices for other processes; 0 where these can't be told apart.
    pub others: f64,
}

/// One execution with everything read out of it.
pub(super) struct Execution<'a> {
    pub(super) trial: &'a ExecutionRecord,
    pub(super) explained: Explained,
    /// Blocks read × block size: what the server asked for.
    pub(super) asked: f64,
    /// Bytes and requests of the devices.
    pub(super) device: Result<(f64, f64), String>,
    pub(super) processes: Option<f64>,
    /// Bytes of the table that came into the page cache, and those of wanted pages.
    pub(super) grown: Option<(f64, f64)>,
    /// Bytes of the table in the page cache afterwards.
    pub(super) cached: Option<f64>,
    /// Bytes of the pages that hold wanted blocks over those of the blocks.
    pub(super) predicted: f64,
    /// Nobody knows which blocks were wanted; and whether a page holds more than one.
    pub(super) unknown: Option<bool>,
}

/// Whether what lies in memory was left there.
pub(super) fn is_as_found(plan: &ScatteredPlan) -> bool {
    plan.own.as_ref().is_some_and(|own| !own.evicted)
}

impl<'a> Execution<'a> {
    pub(super) fn read(
        plan: &ScatteredPlan,
        variant: &ScatteredVariant,
        trial: &'a Trial,
        storage: Option<&Storage>,
    ) -> Option<Self> {
        let figures = figures(&trial.samples, storage, plan.block_size_bytes);
        let trial = trial.execution()?;
        let explained = trial.explained()?;
        let page = plan.page_size_bytes as f64;
        let (before, after) = (trial.cached_before.pages(), trial.cached_after.pages());
        let wanted_bytes = (trial.wanted_blocks * plan.block_size_bytes).max(1) as f64;
        Some(Self {
            asked: (explained.read_blocks * plan.block_size_bytes) as f64,
            device: match figures.device {
                crate::storage::Seen::Seen(reads) => {
                    Ok((reads.bytes as f64, reads.requests as f64))
                }
                crate::storage::Seen::Unavailable(why) => Err(why),
            },
            processes: trial
                .processes_bytes
                .text()
                .and_then(|text| text.trim().parse().ok()),
            grown: before
                .zip(after)
                .map(|((all, wanted), (all_after, wanted_after))| {
                    (
                        all_after.saturating_sub(all) as f64 * page,
                        wanted_after.saturating_sub(wanted) as f64 * page,
                    )
                }),
            cached: after.map(|(all, _)| all as f64 * page),
            predicted: match variant.pattern {
                // The most that pages alone can make of it.
                Pattern::Unknown => (page / plan.block_size_bytes as f64).max(1.0),
                _ => trial.wanted_pages as f64 * page / wanted_bytes,
            },
            unknown: (variant.pattern == Pattern::Unknown)
                .then_some(plan.page_size_bytes > plan.block_size_bytes),
            explained,
            trial,
        })
    }

    /// The causes, as multiples of what was asked for.
    pub(super) fn shares(&self) -> Option<Shares> {
        let (device, _) = *self.device.as_ref().ok()?;
        let (all, wanted) = self.grown?;
        if self.asked <= 0.0 {
            return None;
        }
        let device = device / self.asked;
        let server = self.processes.map_or(device, |bytes| bytes / self.asked);
        let wanted = match self.unknown {
            None => wanted / self.asked,
            // Pages that hold a block and no more of another: what is beyond the blocks was read ahead.
            Some(false) => (all / self.asked).min(1.0),
            // The rest of the blocks' pages and what was read ahead can't be told apart.
            Some(true) => all / self.asked,
        };
        let read_ahead = all / self.asked - wanted;
        // Direct reads pass the page cache: then the blocks are what was read.
        let through_cache = all > 0.0;
        let blocks = if through_cache {
            wanted.min(1.0)
        } else {
            server.min(1.0)
        };
        let pages = (wanted - blocks).max(0.0);
        Some(Shares {
            blocks,
            pages,
            read_ahead,
            rest: server - blocks - pages - read_ahead,
            others: device - server,
        })
    }
}
