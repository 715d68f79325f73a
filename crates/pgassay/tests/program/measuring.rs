//! The commands beside "do these first" are ones that the program takes.

use std::collections::BTreeMap;

use pgassay::cli::{self, args::Command, compare::CompareArgs};
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::bottlenecks::{
    Basis, Cause, Compared, Confidence, Counterpart, Differs, ENTRIES, Entry, Finding, SeenBy,
    Values, major,
};
use pgassay_analysis::measured::{
    ArmAnalysis, LatencyRange, PointAnalysis, ServerSummary, StageArm,
};
use pgassay_analysis::server::{Setting, SettingsOf};
use pgassay_analysis::stats::Estimate;
use pgassay_analysis::{Analysis, analyse, measuring};
use pgassay_engine::workload::{self, inserver};
use pgassay_model::point::Point;
use pgassay_model::record::RecordedRun;
use pgassay_model::server::Origin;

const OWN: &[(&str, &str)] = &[
    ("shared_buffers", "16MB"),
    ("fsync", "off"),
    ("huge_pages", "try"),
];

fn launched() -> Origin {
    Origin::Launched {
        bin_dir: "/usr/lib/postgresql/13/bin".to_owned(),
        stand_in: false,
        prepared: false,
    }
}

fn server(origin: Origin) -> ServerSummary {
    let setting = |(name, value): &(&str, &str)| Setting {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
        source: "default".to_owned(),
    };
    ServerSummary {
        origin,
        version: "PostgreSQL 13.4 (Debian 13.4-1) on x86_64".to_owned(),
        version_num: Some(130_004),
        executable: String::new(),
        settings: Vec::new(),
        all_settings: OWN.iter().map(setting).collect(),
        place: SettingsOf::default(),
    }
}

/// An assay of select-only over one server.
fn assay(origin: Origin, typed: &str, settings: &[(&str, &str)]) -> Analysis {
    let asked = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let arm = ArmAnalysis {
        label: "A".to_owned(),
        target: typed.to_owned(),
        typed: typed.to_owned(),
        settings: settings.iter().map(asked).collect(),
        confinement: Default::default(),
        axes: Vec::new(),
        server: Some(server(origin)),
        binary: Err(String::new()),
        verdict: None,
        commit_check: None,
    };
    let throughput = Estimate {
        estimate: 1000.0,
        low: 990.0,
        high: 1010.0,
        level: 0.95,
        n: 8,
        warnings: Vec::new(),
    };
    let point = PointAnalysis {
        levels: None,
        point: Point {
            clients: 8,
            threads: 1,
            variant: 0,
        },
        throughput_tps: throughput,
        metrics: BTreeMap::new(),
        latency_us: LatencyRange {
            count: 1,
            mean: 1.0,
            max: 1.0,
        },
        client_calls_per_transaction: None,
        client_gathered_share: None,
        others_share: None,
        other_cpus: None,
        failures: Vec::new(),
        ceiling_tps: None,
        detail: None,
        trials: Vec::new(),
        warnings: Vec::new(),
    };
    let mut stage = StageAnalysis {
        arms: vec![StageArm {
            points: vec![point],
            ..StageArm::default()
        }],
        ..StageAnalysis::default()
    };
    stage.plan.workload.name = "select-only".to_owned();
    stage.plan.workload.scale = 10;
    Analysis {
        arms: vec![arm],
        stages: vec![stage],
        ..analyse(&RecordedRun::default())
    }
}

/// Each counterpart that an entry may have; settings of a remedy are some that need quotes.
fn counterparts(entry: &Entry) -> Vec<Counterpart> {
    let values = |a: Option<&str>, b: &str| Values {
        a: a.map(str::to_owned),
        b: Some(b.to_owned()),
    };
    let differs = entry.compare.iter().map(|by| match by {
        Compared::Settings => Differs::Settings(BTreeMap::from([
            ("shared_buffers".to_owned(), values(None, "6026MB")),
            ("x.y".to_owned(), values(None, "a b'c, \"d\"")),
            ("fsync".to_owned(), Values::default()),
        ])),
        Compared::Setting { name, a, b } => {
            Differs::Settings(BTreeMap::from([((*name).to_owned(), values(*a, b))]))
        }
        Compared::Release => {
            let newest = entry.changes.last().expect("a release that changed it");
            Differs::Release(major(newest.since))
        }
        Compared::Build(variant) => Differs::Build((*variant).to_owned()),
    });
    let with_workload = |differs| Counterpart {
        differs,
        workload: entry.compare_under.map(str::to_owned),
    };
    differs.map(with_workload).collect()
}

fn command(analysis: &Analysis, counterpart: Counterpart) -> Option<Vec<String>> {
    let finding = Finding {
        id: "x".to_owned(),
        title: String::new(),
        family: ENTRIES[0].family,
        severity: ENTRIES[0].severity,
        confidence: Confidence::High,
        basis: Basis::State,
        saw: String::new(),
        evidence: Vec::new(),
        gain_at_most: None,
        gain_expected: None,
        gain_rests_on: None,
        time_share: None,
        limited_by_cpus: false,
        budget_share: None,
        symptom_of: None,
        cause: None,
        subjects: Default::default(),
        why: String::new(),
        impact: String::new(),
        remedy: Vec::new(),
        counterpart: Some(counterpart),
        sources: Vec::new(),
    };
    let cause = Cause {
        id: "x".to_owned(),
        seen_by: SeenBy::Audit,
        workload: None,
        what: String::new(),
        remedy: String::new(),
        measure: None,
        confidence: Confidence::High,
        expected_gain: 0.1,
    };
    measuring::command(analysis, &cause, &finding)
}

/// What the program's own command line makes of the words.
fn parsed(words: &[String]) -> CompareArgs {
    match cli::parse(words.iter().map(Into::into)) {
        Ok(args) => match args.command {
            Command::Compare(compare) => *compare,
            other => panic!("{words:?}: {other:?}"),
        },
        Err(error) => panic!("{words:?}: {error}"),
    }
}

#[test]
fn every_command_that_would_measure_a_finding_is_understood() {
    let mut commands = 0;
    for analysis in [
        assay(launched(), "temp:13", &[("fsync", "off")]),
        assay(launched(), "", &[]),
        assay(Origin::Running, "host=/run/postgresql dbname=app", &[]),
    ] {
        for entry in ENTRIES {
            for counterpart in counterparts(entry) {
                let Some(words) = command(&analysis, counterpart) else {
                    panic!("{}: no command", entry.id);
                };
                let args = parsed(&words);
                commands += 1;
                assert_eq!(args.targets.len(), 2, "{words:?}");
                let targets = args.targets.iter();
                for target in targets {
                    let spec: Result<pgassay_server::TargetSpec, _> = target.parse();
                    assert!(spec.is_ok_and(|spec| spec.is_launched()), "{words:?}");
                }
                let (name, way) = args
                    .workload
                    .split_once(':')
                    .unwrap_or((&args.workload, ""));
                let known = inserver::names().contains(&name)
                    || (name, way) == ("scattered-read", "sequential")
                    || workload::find(&[name]).is_ok();
                assert!(known, "{words:?}");
            }
        }
    }
    assert!(commands > 60, "{commands}");
}

#[test]
fn what_differs_is_what_the_remedy_changes_and_nothing_else() {
    let settings = |name: &str, a: Option<&str>, b: Option<&str>| Counterpart {
        differs: Differs::Settings(BTreeMap::from([(
            name.to_owned(),
            Values {
                a: a.map(str::to_owned),
                b: b.map(str::to_owned),
            },
        )])),
        workload: None,
    };
    let line = |analysis: &Analysis, counterpart| {
        command(analysis, counterpart).map(|words| words.join(" "))
    };
    let load = "--workload select-only --clients 8 --scale 10";
    let launched = assay(launched(), "temp:13", &[("fsync", "off"), ("jit", "on")]);
    assert_eq!(
        line(&launched, settings("shared_buffers", None, Some("1GB"))).unwrap(),
        format!(
            "pgassay compare temp:13 temp:13 --set fsync=off --set jit=on --set-b shared_buffers=1GB {load}"
        )
    );
    // What was asked for stands on A's side, and a default on B's needs no flag.
    assert_eq!(
        line(&launched, settings("fsync", None, None)).unwrap(),
        format!("pgassay compare temp:13 temp:13 --set jit=on --set-a fsync=off {load}")
    );
    // A running server's own value is given to its likeness.
    let running = assay(Origin::Running, "host=db1 dbname=app", &[]);
    assert_eq!(
        line(&running, settings("shared_buffers", None, Some("1GB"))).unwrap(),
        format!(
            "pgassay compare temp:13 temp:13 --set-a shared_buffers=16MB --set-b shared_buffers=1GB {load}"
        )
    );
    assert_eq!(
        line(&launched, settings("huge_pages", Some("off"), Some("on"))).unwrap(),
        format!(
            "pgassay compare temp:13 temp:13 --set fsync=off --set jit=on --set-a huge_pages=off --set-b huge_pages=on {load}"
        )
    );
    // It has the value already; or nobody knows which.
    assert_eq!(
        line(&launched, settings("shared_buffers", None, Some("16MB"))),
        None
    );
    assert_eq!(line(&launched, settings("work_mem", None, None)), None);
    let mut scripts = launched.clone();
    scripts.stages[0].plan.workload.name = "mine.sql".to_owned();
    assert_eq!(line(&scripts, settings("fsync", None, None)), None);
}
