//! What observing cost, from its own record.

use std::collections::BTreeMap;

use pgassay_model::observed::Observed;
use serde::{Deserialize, Serialize};

/// The CPU time of the observers over all windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostAnalysis {
    /// Seconds observed.
    pub seconds: f64,
    /// By observer: CPUs kept busy by pgassay's thread and by the server's process that answers.
    pub observers: Vec<ObserverCost>,
    /// All of them as a share of the machine's CPU time, 0 to 1; none where its CPUs are not known.
    pub machine_share: Option<f64>,
}

/// What one observer kept busy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObserverCost {
    /// Its name.
    pub observer: String,
    /// CPUs that its own thread kept busy on average.
    pub own_cpus: f64,
    /// CPUs that the server kept busy for it.
    pub server_cpus: f64,
}

/// Adds the costs of windows of so many nanoseconds up.
pub fn analyse<'r>(
    windows: impl Iterator<Item = (&'r Observed, u64)>,
    cpus: Option<u32>,
) -> Option<CostAnalysis> {
    let mut ns = 0u64;
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (observed, window_ns) in windows {
        ns += window_ns;
        for cost in &observed.costs {
            let sum = sums.entry(&cost.observer).or_default();
            sum.0 += cost.own_ns;
            sum.1 += cost.server_ns;
        }
    }
    if ns == 0 || sums.is_empty() {
        return None;
    }
    let share = |part: u64| part as f64 / ns as f64;
    let observers: Vec<ObserverCost> = sums
        .into_iter()
        .map(|(name, (own, server))| ObserverCost {
            observer: name.to_owned(),
            own_cpus: share(own),
            server_cpus: share(server),
        })
        .collect();
    let all: f64 = observers.iter().map(|o| o.own_cpus + o.server_cpus).sum();
    Some(CostAnalysis {
        seconds: ns as f64 / 1e9,
        observers,
        machine_share: cpus.filter(|n| *n > 0).map(|n| all / f64::from(n)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::observed::Cost;

    #[test]
    fn costs_are_shares_of_the_machine() {
        let observed = Observed {
            costs: vec![Cost {
                observer: "waits".into(),
                own_ns: 4_000_000,
                server_ns: 6_000_000,
                statements: 20,
            }],
            ..Observed::default()
        };
        let cost = analyse([(&observed, 1_000_000_000)].into_iter(), Some(2)).unwrap();
        assert!((cost.machine_share.unwrap() - 0.005).abs() < 1e-12);
        assert_eq!(cost.observers[0].observer, "waits");
        assert_eq!(observed.server_ns(), 6_000_000);
        assert_eq!(analyse([].into_iter(), None), None);
    }
}
