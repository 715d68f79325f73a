//! The assay's second load: the same server, tables and client counts under transactions that write.
//!
//! select-only shows processor, snapshot and buffer locks; tpcb-like adds WAL, commits and row
//! locks. In a server that pgassay did not launch it runs where --load allows load at all, and
//! writes into pgassay's own tables only; what a write costs there nothing else would show.

use pgassay_engine::workload;
use pgassay_model::Plan;

/// What clients do in it.
const WORKLOAD: &str = "tpcb-like";

/// Its trials, as a share of those of the first load; the smallest number with a 95 % interval at least.
const SHARE_OF_TRIALS: f64 = 0.4;
const FEWEST_TRIALS: u32 = 6;

/// The plan of the second load: points, windows and scale are those of the first.
///
/// # Errors
/// Where the workload is not known, a fault of ours.
pub fn plan(first: &Plan) -> anyhow::Result<Plan> {
    let mut workload = workload::find(&[WORKLOAD])?;
    workload.scale = first.workload.scale;
    workload.protocol.clone_from(&first.workload.protocol);
    Ok(Plan {
        workload,
        trials: ((f64::from(first.trials) * SHARE_OF_TRIALS).ceil() as u32).max(FEWEST_TRIALS),
        // Another order than the first's, and known from it.
        seed: first.seed.wrapping_add(1),
        ..first.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::point::Point;

    #[test]
    fn keeps_what_makes_the_two_comparable() {
        let mut select_only = workload::find(&["select-only"]).expect("registered");
        select_only.scale = 7;
        let first = Plan {
            workload: select_only,
            points: vec![Point {
                clients: 2,
                threads: 1,
                variant: 0,
            }],
            trials: 20,
            warmup_ms: 100,
            window_ms: 900,
            seed: 5,
            disturbed_above: None,
        };
        let second = plan(&first).expect("a plan");
        assert_eq!(second.workload.name, "tpcb-like");
        assert!(second.workload.writes);
        assert_eq!(second.workload.scale, 7);
        assert_eq!((second.trials, second.window_ms), (8, 900));
        assert_eq!(second.points, first.points);
        assert_ne!(second.seed, first.seed);
        let few = plan(&Plan { trials: 7, ..first }).expect("a plan");
        assert_eq!(few.trials, 6);
    }
}
