//! What an observed load looks like, made by hand: where its sessions' time went.

use pgassay_analysis::Analysis;
use pgassay_analysis::observed::analysis::Scheduling;
use pgassay_analysis::observed::budget::{Budget, OffCpu, Wait};
use pgassay_analysis::observed::{ArmObserved, PointObserved};

use crate::fixture::assay;

/// A load that was observed: at each client count, where its sessions' time went.
pub fn budgets() -> Analysis {
    let mut analysis = assay(&[1, 4, 16], 6);
    let points = analysis.main().arms[0].points.iter().map(|point| {
        let sessions = f64::from(point.point.clients);
        let (on_cpu, waiting) = (sessions.min(7.0) * 0.8, 0.1 * (sessions - 1.0));
        let wait = |event: &str, share: f64| Wait {
            kind: "LWLock".to_owned(),
            event: event.to_owned(),
            sessions: share * waiting,
            ..Wait::default()
        };
        let off_cpu = sessions - on_cpu - waiting;
        PointObserved {
            own_load: false,
            load: None,
            clients: point.point.clients,
            waits: None,
            budget: Some(Budget {
                sessions,
                on_cpu,
                ready: waiting,
                off_cpu,
                off: Some(OffCpu {
                    waits: vec![wait("BufferContent", 0.6), wait("WALWrite", 0.2)],
                    client: 0.25 * off_cpu,
                    idle: 0.75 * off_cpu - 0.8 * waiting,
                    ..OffCpu::default()
                }),
                ..Budget::default()
            }),
            no_budget: None,
            statements: None,
            growth: None,
            counters: None,
            blockers: None,
            scheduling: Scheduling::default(),
            backends: None,
            profile: None,
            stacks: None,
            ..PointObserved::default()
        }
    });
    let points = points.collect();
    analysis.stages[0].arms[0].observed = Some(ArmObserved {
        points,
        profile: None,
        flame: None,
        callers: None,
        cost: None,
        unavailable: vec![],
    });
    analysis
}
