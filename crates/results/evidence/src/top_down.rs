//! Where the processor's slots went: the first level of the top-down method.

use pgassay_readings::pmu::Counts;

/// Shares of the processor's slots, 0 to 1: the first level of the top-down method (A. Yasin, A Top-Down
/// Method for Performance Analysis and Counters Architecture, ISPASS 2014).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopDown {
    /// Instructions that were completed.
    pub retiring: f64,
    /// Work that a wrong prediction made useless.
    pub bad_speculation: f64,
    /// The front end delivered nothing.
    pub frontend: f64,
    /// The back end took nothing.
    pub backend: f64,
}

/// Where the slots went, by whichever events the processor has for it; none where it has none.
pub fn top_down(counts: &Counts) -> Option<TopDown> {
    let parts = by_metrics(counts)
        .or_else(|| by_slots(counts))
        .or_else(|| by_stalls(counts))?;
    let TopDown {
        retiring,
        bad_speculation,
        frontend,
        backend,
    } = parts;
    let plausible = |share: &f64| share.is_finite() && (-0.05..=1.05).contains(share);
    let all = [retiring, bad_speculation, frontend, backend];
    if !all.iter().all(plausible) {
        return None;
    }
    Some(TopDown {
        retiring: retiring.clamp(0.0, 1.0),
        bad_speculation: bad_speculation.clamp(0.0, 1.0),
        frontend: frontend.clamp(0.0, 1.0),
        backend: backend.clamp(0.0, 1.0),
    })
}

/// The processor divides its slots by itself: Intel's from Ice Lake on (Linux,
/// tools/perf/Documentation/topdown.txt).
fn by_metrics(counts: &Counts) -> Option<TopDown> {
    let of = |name: &str| counts.count(&format!("topdown/{name}"));
    let (retiring, bad) = (of("retiring")?, of("bad-spec")?);
    let (front, back) = (of("fe-bound")?, of("be-bound")?);
    let all = retiring + bad + front + back;
    (all > 0.0).then(|| TopDown {
        retiring: retiring / all,
        bad_speculation: bad / all,
        frontend: front / all,
        backend: back / all,
    })
}

/// From counted slots: Intel's before (the same text).
fn by_slots(counts: &Counts) -> Option<TopDown> {
    let of = |name: &str| counts.count(&format!("topdown-slots/{name}"));
    let total = of("total").filter(|total| *total > 0.0)?;
    let (issued, retired) = (of("issued")?, of("retired")?);
    let frontend = of("fetch-bubbles")? / total;
    let bad_speculation = (issued - retired + of("recovery-bubbles")?) / total;
    let retiring = retired / total;
    Some(TopDown {
        retiring,
        bad_speculation,
        frontend,
        backend: 1.0 - retiring - bad_speculation - frontend,
    })
}

/// From stalled slots: Arm's (Arm Architecture Reference Manual, STALL_SLOT and its parts; the slots a cycle
/// are those of PMMIR).
fn by_stalls(counts: &Counts) -> Option<TopDown> {
    let of = |name: &str| counts.count(&format!("topdown-stalls/{name}"));
    let total = of("cycles")? * counts.slots?;
    let speculated = of("op-spec").filter(|speculated| *speculated > 0.0)?;
    if total <= 0.0 {
        return None;
    }
    let useful = (of("op-retired")? / speculated).min(1.0);
    let filled = 1.0 - of("stall-slot")? / total;
    Some(TopDown {
        retiring: useful * filled,
        bad_speculation: (1.0 - useful) * filled,
        frontend: of("stall-slot-frontend")? / total,
        backend: of("stall-slot-backend")? / total,
    })
}

#[cfg(test)]
mod tests {
    use pgassay_readings::pmu;

    use super::*;

    #[test]
    fn shares_that_can_not_be_are_not_told() {
        let counted = |count| pmu::Counted {
            count,
            share: 1.0,
            kernel: true,
        };
        let mut counts = Counts::default();
        let parts = [
            ("total", 100.0),
            ("issued", 90.0),
            ("retired", 30.0),
            ("fetch-bubbles", 80.0),
            ("recovery-bubbles", 0.0),
        ];
        for (name, count) in parts {
            counts
                .events
                .insert(format!("topdown-slots/{name}"), counted(count));
        }
        // Together 1.7: events that were counted at different times.
        assert_eq!(top_down(&counts), None);
    }
}
