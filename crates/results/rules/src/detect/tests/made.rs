//! A run that is made up, and what is found in it: for the tests of detectors.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pgassay_model::observed::growth::{Grown, GrowthRecord};
use pgassay_model::observed::plans::{Node, Plan, RelationFacts};
use pgassay_model::server::Origin;
use pgassay_model::storage::{Directory, Storage};
use pgassay_model::workload::{ScriptPlan, WorkloadPlan};
use pgassay_readings::profile::Profile;

use crate::evidence::{Evidence, RunEvidence};
use crate::finding::Finding;
use crate::load;
use pgassay_analysis::{Analysis, analyse};
use pgassay_evidence::measured::{ReadsAnalysis, ServerSummary};
use pgassay_evidence::metrics;
use pgassay_evidence::observed::PointObserved;
use pgassay_evidence::observed::budget::{Budget, OffCpu, Wait};
use pgassay_evidence::observed::counters::ServerCounters;
use pgassay_evidence::observed::statements::{StatementAnalysis, StatementTime};
use pgassay_evidence::observed::waits::{WaitAnalysis, WaitEvent};
use pgassay_evidence::profile::summarise;
use pgassay_evidence::server::{Setting, SettingsOf};
use pgassay_stats::Estimate;

/// What happened with 8 sessions, by the kernel's account and by samples.
pub(in crate::detect) struct Seen {
    pub on_cpu: f64,
    pub ready: f64,
    pub idle: f64,
    pub unnamed: f64,
    pub waits: &'static [(&'static str, &'static str, f64)],
    /// Of two CPUs.
    pub busy: f64,
    /// CPUs that a quota kept from the server.
    pub held_back: f64,
    /// A memory limit that was reached, and the pages a second that came back.
    pub memory_limit: Option<(f64, f64)>,
    /// Blocks of a hundred that are not in shared buffers.
    pub misses: Option<f64>,
    pub listing: &'static str,
    /// The clients' script.
    pub script: &'static str,
    /// The directories of its files.
    pub directories: Vec<Directory>,
    /// Settings of the server: name, value, source; of the role `app` in the database `shop`.
    pub settings: &'static [(&'static str, &'static str, &'static str)],
}

pub(in crate::detect) const QUIET: Seen = Seen {
    on_cpu: 0.5,
    ready: 0.1,
    idle: 0.4,
    unnamed: 0.0,
    waits: &[],
    busy: 0.8,
    held_back: 0.0,
    memory_limit: None,
    misses: None,
    listing: "",
    script: "SELECT 1;",
    directories: Vec::new(),
    settings: &[],
};

/// A run made up by the law of scaling, analysed once: the same for all tests.
static RUN: LazyLock<Analysis> =
    LazyLock::new(|| analyse(&pgassay_evidence::fixtures::run(0.0, |_| 0.8)));

pub(super) fn estimate(value: f64) -> Estimate {
    Estimate {
        estimate: value,
        low: value,
        high: value,
        ..RUN.stages[0].arms[0].points[0].throughput_tps.clone()
    }
}

pub(super) fn found(seen: &Seen) -> Vec<Finding> {
    found_as(seen, |_| {})
}

/// What is found in a load with these waits of 8 sessions, and whatever else `edit` says was seen.
pub(in crate::detect) fn found_with(
    waits: Vec<(&'static str, &'static str, f64)>,
    edit: impl FnOnce(&mut PointObserved),
) -> Vec<Finding> {
    let seen = Seen {
        waits: waits.leak(),
        ..QUIET
    };
    found_as(&seen, edit)
}

/// The same with settings, and without waits.
pub(in crate::detect) fn found_with_settings(
    settings: &'static [(&'static str, &'static str, &'static str)],
    edit: impl FnOnce(&mut PointObserved),
) -> Vec<Finding> {
    found_as(&Seen { settings, ..QUIET }, edit)
}

/// What is found with these waits where the server's files lie in these directories.
pub(in crate::detect) fn found_in_directories(
    waits: &'static [(&'static str, &'static str, f64)],
    directories: Vec<Directory>,
    edit: impl FnOnce(&mut PointObserved),
) -> Vec<Finding> {
    let seen = Seen {
        waits,
        directories,
        ..QUIET
    };
    found_as(&seen, edit)
}

/// What is found in CPU samples, beside settings.
pub(in crate::detect) fn found_in_samples(
    listing: &'static str,
    settings: &'static [(&'static str, &'static str, &'static str)],
) -> Vec<Finding> {
    let seen = Seen {
        listing,
        settings,
        ..QUIET
    };
    found_as(&seen, |_| {})
}

/// What is found in CPU samples, beside statements.
pub(in crate::detect) fn found_in_samples_of(
    listing: &'static str,
    statements: Vec<StatementTime>,
) -> Vec<Finding> {
    let seen = Seen { listing, ..QUIET };
    found_as(&seen, |observed| {
        observed.growth = Some(Default::default());
        observed.statements = Some(StatementAnalysis {
            looks: 100,
            sightings: 100,
            statements,
            ..StatementAnalysis::default()
        });
    })
}

/// What is found with these waits where so many of two CPUs are busy, all but a tenth of one with the server, by these
/// CPU samples.
pub(in crate::detect) fn found_on_cpus(
    busy: f64,
    waits: &'static [(&'static str, &'static str, f64)],
    listing: &'static str,
    edit: impl FnOnce(&mut PointObserved),
) -> Vec<Finding> {
    let seen = Seen {
        waits,
        on_cpu: busy - 0.1,
        busy,
        listing,
        ..QUIET
    };
    found_as(&seen, edit)
}

/// The same on two full CPUs, on which the server's sessions keep 1.9 and 4 wait for one.
pub(in crate::detect) fn found_on_full_cpus(edit: impl FnOnce(&mut PointObserved)) -> Vec<Finding> {
    let full = Seen {
        on_cpu: 1.9,
        ready: 4.0,
        idle: 0.0,
        busy: 2.0,
        ..QUIET
    };
    found_as(&full, edit)
}

pub(super) fn found_as(seen: &Seen, edit: impl FnOnce(&mut PointObserved)) -> Vec<Finding> {
    looked_at(seen, edit, load)
}

/// What `look` makes of it.
pub(in crate::detect) fn looked_at<T>(
    seen: &Seen,
    edit: impl FnOnce(&mut PointObserved),
    look: impl FnOnce(&Evidence) -> T,
) -> T {
    let mut analysis = RUN.clone();
    analysis.host.cpus = Some(2);
    if !seen.settings.is_empty() {
        let all_settings = seen.settings.iter().map(|(name, value, source)| Setting {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            source: (*source).to_owned(),
        });
        analysis.arms[0].server = Some(ServerSummary {
            origin: Origin::Running,
            version: String::new(),
            version_num: Some(180_000),
            executable: String::new(),
            settings: Vec::new(),
            all_settings: all_settings.collect(),
            place: SettingsOf {
                role: Some("app".into()),
                database: Some("shop".into()),
            },
        });
    }
    let mut did = analysis.stages.remove(0).arms.remove(0);
    did.reads = Some(ReadsAnalysis {
        storage: Storage {
            directories: seen.directories.clone(),
            ..Storage::default()
        },
        block_size_bytes: 8192,
        unseen: Vec::new(),
    });
    let mut observed = did.observed.take().unwrap().points.pop().unwrap();
    let waiting: f64 = seen.waits.iter().map(|(_, _, sessions)| sessions).sum();
    let off_cpu = waiting + seen.idle + seen.unnamed;
    let wait = |(kind, event, sessions): &(&str, &str, f64)| Wait {
        kind: (*kind).to_owned(),
        event: (*event).to_owned(),
        sessions: *sessions,
        least: *sessions,
        most: *sessions,
        woken: 0.0,
    };
    observed.budget = Some(Budget {
        sessions: seen.on_cpu + seen.ready + off_cpu,
        on_cpu: seen.on_cpu,
        ready: seen.ready,
        off_cpu,
        off: Some(OffCpu {
            waits: seen.waits.iter().map(wait).collect(),
            idle: seen.idle,
            unnamed: seen.unnamed,
            ..OffCpu::default()
        }),
        ..Budget::default()
    });
    // Samples see few of those that run.
    let events = seen.waits.iter().map(wait).map(|w| WaitEvent {
        backend: String::new(),
        kind: w.kind,
        event: w.event,
        sessions: w.sessions,
    });
    observed.waits = Some(WaitAnalysis {
        samples: 200,
        active_sessions: waiting + seen.unnamed + 0.1,
        running_sessions: seen.unnamed + 0.1,
        idle_sessions: seen.idle + seen.on_cpu + seen.ready - 0.1,
        events: events.collect(),
        ..WaitAnalysis::default()
    });
    edit(&mut observed);
    let mut point = did.points.last().unwrap().clone();
    point.point.clients = 8;
    point.other_cpus = Some((seen.busy - seen.on_cpu - 0.1).max(0.0));
    point.metrics.extend([
        (metrics::MACHINE_CPUS, estimate(seen.busy)),
        (metrics::SERVER_CPUS, estimate(seen.on_cpu)),
        (metrics::CLIENT_CPUS, estimate(0.1)),
        (metrics::CPU_THROTTLED, estimate(seen.held_back)),
    ]);
    if let Some(misses) = seen.misses {
        point.metrics.extend([
            (metrics::BUFFER_MISSES, estimate(misses)),
            (metrics::BUFFER_HITS, estimate(100.0 - misses)),
        ]);
    }
    if let Some((limit, back)) = seen.memory_limit {
        point.metrics.extend([
            (metrics::MEMORY_LIMIT, estimate(limit)),
            (metrics::MEMORY_REFAULTS, estimate(back)),
        ]);
    }
    let profile =
        (!seen.listing.is_empty()).then(|| summarise(&Profile::parse(seen.listing).unwrap()));
    let ours = WorkloadPlan {
        scripts: vec![ScriptPlan {
            text: seen.script.to_owned(),
            ..ScriptPlan::default()
        }],
        ..WorkloadPlan::default()
    };
    look(&Evidence {
        version: Some(180_000),
        profile: profile.as_ref(),
        run: Some(RunEvidence {
            workload: "mine.sql",
            ours: Some(&ours),
            host: &analysis.host,
            arm: &analysis.arms[0],
            load: &did,
            point: &point,
            observed: Some(&observed),
            scaling: None,
        }),
    })
}

pub(in crate::detect) fn one<'f>(findings: &'f [Finding], id: &str) -> &'f Finding {
    let found = findings.iter().find(|f| f.id == id);
    found.unwrap_or_else(|| panic!("{id} is not among {findings:#?}"))
}

pub(in crate::detect) fn counters(of: &[(&str, f64)]) -> Option<ServerCounters> {
    Some(ServerCounters {
        seconds: 4.0,
        database: of.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
        ..ServerCounters::default()
    })
}

pub(in crate::detect) fn statement(text: &str, plan: Option<Plan>) -> StatementAnalysis {
    StatementAnalysis {
        looks: 100,
        sightings: 100,
        statements: vec![StatementTime {
            text: text.into(),
            sightings: 80,
            share: 0.8,
            cpu_share: 0.8,
            running: 0.7,
            sessions: 6.0,
            plan,
            ..StatementTime::default()
        }],
        other_sessions: 0.0,
        elsewhere: None,
    }
}

pub(in crate::detect) fn grown(name: &str, counters: &[(&str, f64)]) -> Grown {
    Grown {
        name: name.into(),
        grown: counters
            .iter()
            .map(|(k, v)| ((*k).to_owned(), *v))
            .collect(),
        ..Grown::default()
    }
}

/// Returns a statement that takes most of the time, writing `public.t`, of which this is known.
pub(in crate::detect) fn writing(operation: &str, facts: RelationFacts) -> StatementTime {
    let plan = Plan {
        root: Node {
            kind: "ModifyTable".into(),
            operation: Some(operation.into()),
            relation: Some("public.t".into()),
            cost: 8.0,
            ..Node::default()
        },
        relations: BTreeMap::from([("public.t".to_owned(), facts)]),
        ..Plan::default()
    };
    StatementTime {
        text: format!("{operation} t"),
        sightings: 90,
        share: 0.9,
        cpu_share: 0.9,
        running: 1.0,
        plan: Some(plan),
        ..StatementTime::default()
    }
}

/// Returns what is found about such a statement, where tables grew like this.
pub(in crate::detect) fn found_writing(
    operation: &str,
    facts: RelationFacts,
    tables: Vec<Grown>,
) -> Vec<Finding> {
    found_writing_beside(operation, facts, tables, |_| {})
}

pub(in crate::detect) fn found_writing_beside(
    operation: &str,
    facts: RelationFacts,
    tables: Vec<Grown>,
    edit: impl FnOnce(&mut PointObserved),
) -> Vec<Finding> {
    let statement = writing(operation, facts);
    found_with(vec![], move |observed: &mut PointObserved| {
        observed.statements = Some(StatementAnalysis {
            looks: 100,
            sightings: 100,
            statements: vec![statement],
            other_sessions: 0.0,
            elsewhere: None,
        });
        observed.growth = Some(GrowthRecord {
            tables,
            ..GrowthRecord::default()
        });
        edit(observed);
    })
}
