//! The first screen: the grade of the measurement and the figures at the peaks.

use pgassay_analysis::Analysis;
use pgassay_analysis::levels::PointLevels;
use pgassay_analysis::measured::PointAnalysis;
use pgassay_analysis::metrics::STEAL;
use pgassay_analysis::quality::{Grade, Quality};
use pgassay_analysis::stats::{Level, summarize_positive};
use pgassay_model::run::RunState;
use pgassay_model::warning::Warning;

use super::{all, fixture, observed, plain};

fn graded(spoil: impl FnOnce(&mut Analysis)) -> Quality {
    let mut analysis = fixture::complete();
    for point in &mut analysis.stages[0].arms[0].points {
        point.others_share = Some(0.01);
        point.throughput_tps.warnings.clear();
    }
    spoil(&mut analysis);
    let points = &analysis.stages[0].arms[0].points;
    Quality::of(points, &analysis.run, &analysis.warnings).expect("points")
}

#[test]
fn a_run_is_graded_by_what_disturbed_it_most() {
    assert_eq!(graded(|_| ()).grade, Grade::Good);
    assert_eq!(graded(|_| ()).why(), "");

    let others = graded(|a| a.stages[0].arms[0].points[0].others_share = Some(0.48));
    assert_eq!(others.grade, Grade::Poor);
    assert_eq!(others.why(), "other work took up to 48 % of the CPU time");

    let steal = |share: f64| {
        graded(|a| {
            let metrics = &mut a.stages[0].arms[0].points[0].metrics;
            if let Some(estimate) = metrics.get_mut(&STEAL) {
                estimate.estimate = share;
            }
        })
    };
    assert_eq!(steal(0.03).grade, Grade::Fair);
    assert_eq!(steal(0.2).grade, Grade::Poor);

    let trials = |n: usize| graded(|a| a.stages[0].arms[0].points[1].trials.truncate(n));
    assert_eq!(trials(5).grade, Grade::Fair);
    assert_eq!(trials(1).why(), "one trial at a point");

    let cut = graded(|a| {
        a.run.state = RunState::Interrupted;
        a.stages[0].arms[0].points[0].others_share = Some(0.06);
    });
    assert_eq!((cut.grade, cut.reasons.len()), (Grade::Poor, 2));
    assert_eq!(cut.reasons[1].grade, Grade::Fair, "the worst first");

    let company = graded(|a| a.warnings.push(Warning::new("not-alone", "two at once")));
    assert_eq!(company.grade, Grade::Poor);
}

#[test]
fn a_peak_at_several_levels_shows_one_that_was_measured() {
    let mut analysis = fixture::complete();
    let points = &mut analysis.stages[0].arms[0].points;
    let rate = |point: &PointAnalysis| point.throughput_tps.estimate;
    let peak = (0..points.len())
        .max_by(|a, b| rate(&points[*a]).total_cmp(&rate(&points[*b])))
        .unwrap();
    let level = |at: f64, members: Vec<usize>| Level {
        estimate: summarize_positive(&vec![at; members.len()]).unwrap(),
        members,
    };
    points[peak].levels = Some(PointLevels {
        levels: vec![
            level(15_000.0, (0..12).collect()),
            level(47_000.0, (12..20).collect()),
        ],
        separated_by: Vec::new(),
    });
    let quality = Quality::of(&*points, &analysis.run, &[]).unwrap();
    assert!(
        quality
            .why()
            .contains("throughput lies at several levels at 1 of "),
        "{}",
        quality.why()
    );
    let answer = pgassay_report::answer(&analysis, &plain(100));
    let answer: Vec<&str> = answer.split_whitespace().collect();
    let answer = answer.join(" ");
    assert!(answer.contains("47,000"), "{answer}");
    assert!(
        answer.contains("at levels of 47,000 (8 trials) and 15,000 (12 trials)"),
        "{answer}"
    );
}

#[test]
fn the_answer_begins_a_page_and_ends_a_text() {
    let mut analysis = fixture::complete();
    analysis.quality = Some(graded(|a| {
        a.stages[0].arms[0].points[0].others_share = Some(0.48)
    }));
    let text = pgassay_report::text(&analysis, &plain(100));
    let answer = pgassay_report::answer(&analysis, &plain(100));
    let (_, below_title) = answer.split_once('\n').unwrap();
    assert!(text.ends_with(below_title), "{text}");
    let markdown = pgassay_report::markdown(&analysis);
    let first: Vec<&str> = markdown.lines().take(10).collect();
    for said in [answer, first.join("\n")] {
        assert!(
            said.contains("measurement: poor (other work took"),
            "{said}"
        );
        assert!(said.contains("select-only, peak"), "{said}");
        assert!(said.contains("p99 latency"), "{said}");
    }
    let page = pgassay_report::html(&analysis);
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(at("<nav") < at("class=\"bad\""));
    assert!(at("class=\"bad\"") < at("class=\"tiles\""));
    assert!(at("class=\"tiles\"") < at("class=\"limit\""));
    assert!(at("class=\"limit\"") < at("id=\"figure-throughput\""));
    assert!(at("id=\"figure-throughput\"") < at("class=\"chapter\""));
}

/// The last 25 lines of a command are its answer; the path of the page and what can be done next
/// follow.
#[test]
fn an_answer_fits_a_terminal() {
    for (name, analysis) in all() {
        let answer = pgassay_report::answer(&analysis, &plain(80));
        let lines = answer.lines().count();
        assert!(lines <= 20, "{name}: {lines} lines:\n{answer}");
        assert!(!answer.trim().is_empty(), "{name}");
    }
}

#[test]
fn what_to_do_first_stands_before_the_evidence_and_once() {
    let analysis = fixture::checked();
    let page = pgassay_report::html(&analysis);
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(at("class=\"tiles\"") < at("Do these first"));
    assert!(at("Do these first") < at("<main"));
    let answer = pgassay_report::answer(&analysis, &plain(100));
    let first = answer.lines().find(|line| line.starts_with("What to do?"));
    let first = first.expect("a remedy");
    assert!(first.ends_with("1. Durability switched off"), "{answer}");
    assert!(
        answer.contains("\n     ALTER SYSTEM SET fsync = on;"),
        "{answer}"
    );
    let markdown = pgassay_report::markdown(&analysis);
    assert!(
        markdown.contains("## Do these first\n\n1. **"),
        "{markdown}"
    );
}

/// The bars of a single load stood on the first screen and again beside their table.
#[test]
fn a_picture_of_the_first_screen_is_not_drawn_again() {
    let page = pgassay_report::html(&observed::budgets());
    assert_eq!(page.matches("<figure id=\"figure-budget-").count(), 1);
    assert_eq!(page.matches("<figure id=\"figure-throughput\"").count(), 1);
    // Of two loads it has the ends only; each load's table is below.
    let mut two = observed::budgets();
    two.stages.push(two.stages[0].clone());
    let page = pgassay_report::html(&two);
    assert_eq!(page.matches("<figure id=\"figure-budget-").count(), 1);
}
