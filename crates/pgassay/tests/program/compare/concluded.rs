//! What is concluded from made-up comparisons, and how every format says it.

use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::metrics::{self, MetricId, SERVER_CPU};
use pgassay_analysis::stats::Verdict;
use pgassay_analysis::stats::paired::Unit;
use pgassay_model::comparison::Phase;
use pgassay_model::observed::Observed;
use pgassay_model::observed::stacks::{ObjectSymbols, StackRecord, SymbolTable};
use pgassay_model::observed::waits::{WaitKey, WaitRecord};
use pgassay_model::reading::Reading;
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EndState, Event, EventKind};
use pgassay_model::warning::Warning;
use pgassay_report::TextStyle;
use serde_json::Value;

use super::fixture::Made;
use crate::schema::assert_schema;

fn concluded(run: &RecordedRun) -> Compare {
    let compare = compare::conclude(run).expect("pairs were measured");
    let json: Value = serde_json::from_str(&pgassay_report::json(&compare)).expect("JSON");
    assert_schema(&json, "compare-1.json");
    compare
}

fn warned(compare: &Compare, id: &str) -> bool {
    compare.warnings.iter().any(|w| w.id == id)
}

#[test]
fn the_four_verdicts_are_reached_and_said() {
    let verdict = |effect: f64, noise: f64, pairs: u32| {
        let made = Made {
            effects: vec![effect],
            noise,
            pairs,
            ..Made::default()
        };
        let compare = concluded(&made.run());
        (compare.verdict, compare.headline[0].clone())
    };
    let (slower, said) = verdict(-0.05, 0.02, 60);
    assert_eq!(slower, Verdict::Slower);
    assert!(said.starts_with("B is slower: throughput −5."), "{said}");
    assert!(said.contains(" %, 4 clients (−"), "{said}");
    let (faster, said) = verdict(0.05, 0.02, 60);
    assert_eq!(faster, Verdict::Faster);
    assert!(said.starts_with("B is faster: throughput +"), "{said}");
    let (equivalent, said) = verdict(0.0, 0.01, 120);
    assert_eq!(equivalent, Verdict::Equivalent, "{said}");
    assert!(said.starts_with("B equals A within 1 %: "), "{said}");
    let (inconclusive, said) = verdict(0.0, 0.08, 20);
    assert_eq!(inconclusive, Verdict::Inconclusive);
    assert!(said.contains("pairs to detect 1 %"), "{said}");
}

/// The verdict, its words and its direction follow the metric; throughput stands beside it.
#[test]
fn any_metric_can_be_compared() {
    let by = |metric: MetricId, made: Made| concluded(&Made { metric, ..made }.run());
    let longer = Made {
        latency: 0.15,
        ..Made::default()
    };
    let worse = by(metrics::P99, longer.clone());
    assert_eq!(worse.verdict, Verdict::Slower);
    let said = &worse.headline[0];
    assert!(said.starts_with("B is worse: p99 latency +1"), "{said}");
    assert!(said.contains(" %, 4 clients"), "{said}");
    assert!(
        worse.headline[1].starts_with("B's throughput: "),
        "{:?}",
        worse.headline
    );
    let result = &worse.results[0];
    assert!(!result.others.contains_key(&metrics::P99));
    assert!(result.others.contains_key(&metrics::THROUGHPUT));
    let a = result.a.as_ref().expect("A was measured").estimate;
    assert!((380.0..420.0).contains(&a), "p99 in µs: {a}");
    // The same run by throughput: nothing that a metric of latency says is in its verdict.
    assert_ne!(
        by(metrics::THROUGHPUT, longer.clone()).verdict,
        Verdict::Slower
    );
    let shorter = Made {
        latency: -0.15,
        ..longer.clone()
    };
    let better = by(metrics::P99, shorter);
    assert_eq!(better.verdict, Verdict::Faster);
    assert!(
        better.headline[0].starts_with("B is better: p99 latency −1"),
        "{:?}",
        better.headline
    );
    let markdown = pgassay_report::markdown(&worse);
    assert!(
        markdown.contains("verdict: **worse**") || markdown.contains("worse"),
        "{markdown}"
    );
    let csv = pgassay_report::csv(&worse).expect("it has rows");
    let header = csv.lines().next().expect("a header");
    assert!(header.contains("a_p99,b_p99"), "{header}");
    let rows = csv.lines().filter(|line| line.contains(",pair,")).count();
    assert_eq!(rows, 60);
    // A comparison needs more pairs for what varies more: the forecast is the metric's own.
    let floor = result.noise_floor().expect("equal servers were measured");
    assert!(floor.pair_spread > 0.01, "{floor:?}");
}

#[test]
fn five_pairs_are_told_that_they_show_nothing() {
    let made = Made {
        effects: vec![-0.5],
        pairs: 5,
        ..Made::default()
    };
    let compare = concluded(&made.run());
    assert_eq!(compare.verdict, Verdict::Inconclusive);
    assert!(
        compare.headline[0].contains("5 pairs can't show anything"),
        "{:?}",
        compare.headline
    );
}

#[test]
fn launches_are_the_unit_where_there_are_several() {
    let made = Made {
        effects: vec![0.0],
        launches: 8,
        pairs: 10,
        luck: 0.05,
        ..Made::default()
    };
    let compare = concluded(&made.run());
    let result = &compare.results[0];
    assert_eq!(
        (result.compared.unit, result.compared.ratio.n),
        (Unit::Launch, 8)
    );
    let spread = result.compared.launch_spread.expect("several launches");
    assert!(spread.between > 0.03 && spread.within < 0.05, "{spread:?}");
    // the floor is over launches, too: the luck is in it
    assert!(result.noise_floor().expect("a floor").pair_spread > 0.03);
    assert!(!warned(&compare, "one-launch"));
    // taken as one launch, the same luck would be called a difference
    let single = Made {
        launches: 1,
        pairs: 80,
        ..made
    };
    assert!(warned(&concluded(&single.run()), "one-launch"));
}

#[test]
fn several_points_and_arms_are_one_family() {
    let made = Made {
        effects: vec![-0.04, 0.0],
        clients: vec![1, 8],
        ..Made::default()
    };
    let compare = concluded(&made.run());
    assert_eq!(compare.results.len(), 4);
    assert!(
        compare
            .results
            .iter()
            .all(|r| r.compared.p_family.is_some())
    );
    assert_eq!(compare.verdict, Verdict::Slower);
    assert!(
        compare.headline[0].starts_with("B is slower: "),
        "{:?}",
        compare.headline
    );
    let of_c: Vec<Verdict> = compare
        .results
        .iter()
        .filter(|r| r.label == "C")
        .map(|r| r.compared.verdict)
        .collect();
    assert!(
        of_c.iter()
            .all(|v| *v != Verdict::Slower && *v != Verdict::Faster),
        "{of_c:?}"
    );
    // few counts: no scaling law, and it says why
    assert_eq!(compare.scaling.len(), 2);
    assert!(compare.scaling[0].refused.is_some());
}

#[test]
fn cpu_time_stands_beside_time() {
    let made = Made {
        effects: vec![-0.10],
        ..Made::default()
    };
    let compare = concluded(&made.run());
    let cpu = compare.results[0]
        .others
        .get(&SERVER_CPU)
        .expect("it was seen");
    assert_eq!(cpu.verdict, Verdict::Slower);
    assert!((cpu.ratio.estimate - 1.0 / 0.9).abs() < 0.01, "{cpu:?}");
    assert!(
        compare
            .headline
            .iter()
            .any(|s| s.starts_with("B's server CPU per transaction: +"))
    );
}

#[test]
fn misses_beyond_the_plan_take_the_verdict_away() {
    let made = Made {
        effects: vec![-0.30],
        reads: vec![0.0, 1.2, 0.0],
        ..Made::default()
    };
    let compare = concluded(&made.run());
    assert_eq!(compare.verdict, Verdict::NotComparable);
    assert!(
        compare.headline[0].contains("blocks read for each transaction"),
        "{:?}",
        compare.headline
    );
    // smaller buffers were asked for: then the misses are what is compared
    let asked = Made {
        settings: vec![
            vec!["shared_buffers=1GB".into()],
            vec!["shared_buffers=16MB".into()],
            vec![],
            vec![],
        ],
        ..made
    };
    let compare = concluded(&asked.run());
    assert_eq!(compare.verdict, Verdict::Slower);
    assert!(
        compare
            .differences
            .iter()
            .any(|d| d.name == "shared_buffers" && d.planned)
    );
}

#[test]
fn settings_and_plans_beyond_the_plan_take_it_away_too() {
    let made = Made {
        effects: vec![0.05],
        ..Made::default()
    };
    let mut run = made.run();
    let settings = "[{\"name\": \"jit\", \"setting\": \"off\", \"unit\": null, \"source\": \"configuration file\"}]";
    run.servers.get_mut(&1).expect("B").settings = Reading::Text(settings.into());
    let compare = concluded(&run);
    assert_eq!(compare.verdict, Verdict::NotComparable);
    assert!(
        compare.headline[0].contains("jit is on in A and off"),
        "{:?}",
        compare.headline
    );

    let mut run = made.run();
    let plan = |node: &str| {
        format!(
            "[{{\"statement\": \"SELECT 1\", \"plan\": [{{\"Plan\": {{\"Node Type\": \"{node}\"}}}}]}}]"
        )
    };
    for (arm, node) in [(0, "Index Scan"), (1, "Seq Scan")] {
        run.arm_facts.get_mut(&arm).expect("an arm").plans = Reading::Text(plan(node));
    }
    let compare = concluded(&run);
    assert_eq!(compare.verdict, Verdict::NotComparable);
    assert!(
        compare.headline[0].contains("Seq Scan"),
        "{:?}",
        compare.headline
    );

    let mut run = made.run();
    run.events.push(Event {
        at: String::new(),
        what: EventKind::Warned {
            warning: Warning::new("setting-not-in-force", "in B a setting is not in force: x."),
        },
    });
    assert_eq!(concluded(&run).verdict, Verdict::NotComparable);
}

#[test]
fn an_aa_run_says_that_it_is_one() {
    let made = Made {
        same: true,
        ..Made::default()
    };
    let compare = concluded(&made.run());
    assert!(warned(&compare, "same-target"));
    assert!(
        compare.headline.iter().any(|s| s.contains("an A/A run")),
        "{:?}",
        compare.headline
    );
}

#[test]
fn an_interrupted_comparison_is_told_as_such() {
    let mut run = Made::default().run();
    run.trials.truncate(24 + 40);
    run.end.as_mut().expect("an end").state = EndState::ServerDied;
    let compare = concluded(&run);
    assert_eq!(compare.results[0].pairs.len(), 20);
    assert!(warned(&compare, "incomplete"));
    let remedy = compare.warnings.iter().find_map(|w| w.remedy.as_deref());
    assert!(
        remedy
            .expect("a remedy")
            .contains("pgassay compare --resume"),
        "{remedy:?}"
    );
    // without a pair there is nothing to conclude
    run.trials.truncate(24);
    assert!(compare::conclude(&run).is_none());
    assert!(compare::spread_so_far(&run).is_some_and(|s| s > 0.01 && s < 0.06));
}

#[test]
fn a_sequential_comparison_stops_at_a_look_and_between_looks_decides_nothing() {
    let made = Made {
        effects: vec![-0.10],
        ..Made::default()
    };
    let mut run = made.run();
    run.comparison.as_mut().expect("a comparison").looks = vec![20, 40, 60];
    let of_pairs = |run: &RecordedRun, pairs: usize| {
        let mut part = run.clone();
        let comparison = part.comparison.clone().expect("a comparison");
        let slices = comparison.slices(part.plan(), 0, Phase::Pairs, pairs as u32);
        part.trials.retain(|t| {
            comparison.phase_of(t.slice.round) == Phase::Noise || slices.contains(&t.slice)
        });
        part
    };
    assert_eq!(compare::may_stop(&of_pairs(&run, 10)), Ok(false));
    assert_eq!(
        concluded(&of_pairs(&run, 10)).verdict,
        Verdict::Inconclusive
    );
    assert_eq!(compare::may_stop(&of_pairs(&run, 20)), Ok(true));
    let stopped = concluded(&of_pairs(&run, 20));
    assert_eq!(stopped.verdict, Verdict::Slower);
    assert!(
        stopped.results[0]
            .compared
            .ratio
            .warnings
            .iter()
            .any(|w| w.id == "stopped-early")
    );
}

#[test]
fn every_format_shows_the_verdict_and_every_pair() {
    let made = Made {
        effects: vec![-0.05],
        clients: vec![1, 4],
        ..Made::default()
    };
    let compare = concluded(&made.run());
    let style = TextStyle {
        width: 80,
        color: false,
        unicode: true,
    };
    let text = pgassay_report::text(&compare, &style);
    assert!(
        text.contains("B is slower: ") && text.contains("slower"),
        "{text}"
    );
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    for width in [20, 40, 200] {
        let narrow = pgassay_report::text(&compare, &TextStyle { width, ..style });
        assert!(
            narrow.lines().all(|l| l.chars().count() <= width),
            "{width}: {narrow}"
        );
    }
    let html = pgassay_report::html(&compare);
    assert!(html.contains("figure-pairs") && html.contains("figure-course-1-4"));
    assert!(
        html.contains("class=\"scroll turned\""),
        "the verdict's rows are not side by side on a phone"
    );
    let markdown = pgassay_report::markdown(&compare);
    assert!(markdown.contains("slower"), "{markdown}");
    let csv = pgassay_report::csv(&compare).expect("pairs are rows");
    // two points of 60 pairs and 12 noise pairs, and the header
    assert_eq!(csv.lines().count(), 1 + 2 * 72);
}

#[test]
fn what_observers_saw_of_the_arms_stands_side_by_side() {
    let made = Made {
        effects: vec![-0.05],
        clients: vec![4],
        ..Made::default()
    };
    let mut run = made.run();
    for trial in &mut run.trials {
        // Of four sessions none waits on A, one on B, whose CPU time went into locks.
        let waiting = trial.slice.arm;
        let key = |kind: &str, event: &str| WaitKey {
            backend: "client backend".to_owned(),
            state: "active".to_owned(),
            kind: kind.to_owned(),
            event: event.to_owned(),
        };
        let mut waits = WaitRecord {
            rate_hz: 25.0,
            ..WaitRecord::default()
        };
        waits.add(
            0,
            [(key("", ""), 4 - waiting), (key("Lock", "tuple"), waiting)],
        );
        trial.observed = Some(Observed {
            waits: Some(waits),
            stacks: Some(StackRecord {
                frequency_hz: 99,
                objects: vec!["abcd".to_owned()],
                frames: vec![(0, 0x110), (0, 0x210)],
                chains: vec![vec![0], vec![1]],
                seconds: vec![vec![(0, 3), (1, 1 + 4 * waiting)]],
                ..StackRecord::default()
            }),
            ..Observed::default()
        });
    }
    for arm in 0..2 {
        let functions = vec![
            (0x100, 0x200, "ExecScan".to_owned()),
            (0x200, 0x300, "s_lock".to_owned()),
        ];
        let path = "/usr/bin/postgres".to_owned();
        let symbols = SymbolTable {
            objects: [("abcd".to_owned(), ObjectSymbols { path, functions })].into(),
        };
        run.symbols.insert(arm, symbols);
    }
    let compare = concluded(&run);
    let markdown = pgassay_report::markdown(&compare);
    let row = |name: &str| -> Vec<String> {
        let line = markdown
            .lines()
            .find(|l| l.contains(name) && l.contains('|'));
        let line = line.unwrap_or_else(|| panic!("no row {name}: {markdown}"));
        let cells = line.split('|').map(|cell| cell.trim().to_owned());
        cells.filter(|cell| !cell.is_empty()).collect()
    };
    assert_eq!(row("Lock:tuple"), ["Lock:tuple", "0.00", "1.00", "+1.00"]);
    assert_eq!(
        row("running, or ready"),
        ["running, or ready to run", "4.00", "3.00", "−1.00"]
    );
    let lock = row("spinlock");
    let figure = |at: usize| -> f64 { lock[at].replace('−', "-").parse().expect("a figure") };
    assert!(figure(2) > 2.0 * figure(1), "{lock:?}");
    assert!(
        (figure(3) - (figure(2) - figure(1))).abs() < 0.05,
        "{lock:?}"
    );
    let html = pgassay_report::html(&compare);
    assert!(
        html.contains("against A") && html.contains("before 25.0%"),
        "{html}"
    );
    for width in [40, 80] {
        let style = TextStyle {
            width,
            color: false,
            unicode: true,
        };
        let text = pgassay_report::text(&compare, &style);
        assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
    }
}
