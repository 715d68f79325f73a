//! CPU time of each statement in the server, as a session measured it after each slice with no load beside it.

use pgassay_model::comparison::{ComparisonPlan, Phase};
use pgassay_model::record::RecordedRun;
use pgassay_model::trial::{StatementRecord, Trial};
use pgassay_model::warning::Warning;
use pgassay_readings::samples::TICKS_PER_SECOND;

use super::super::model::{StatementCpu, StatementResult, StatementsCpu};
use super::super::pairs;
use super::super::plans::PlanPair;
use super::{by_launch, compared};
use crate::stats::summarize_positive;
use crate::trial_view::{Server, TrialView};

/// Statements that account for less or more of the server's CPU time than this are told to do so: caches, locks and
/// the server's other processes make the two differ, but not by such factors.
const ACCOUNTED: std::ops::RangeInclusive<f64> = 0.5..=1.3;

/// The trials of a pair, A's first, and its round.
type Beside<'r> = (u32, [&'r Trial; 2]);

/// Whether either server was to run a statement by parallel workers, A's first.
pub(super) fn parallel<'p>(planned: impl Iterator<Item = &'p PlanPair>) -> (bool, bool) {
    planned.fold((false, false), |(a, b), pair| {
        let gathers = |nodes: &str| nodes.contains("Gather");
        (a || gathers(&pair.a), b || gathers(&pair.b))
    })
}

/// One statement's CPU time on both sides; none where it was never measured. What ended beside it is taken
/// for its parallel workers where its plan has any, and for other work where not.
pub(super) fn of_statement(
    comparison: &ComparisonPlan,
    (trials, noise): (&[Beside<'_>], &[Beside<'_>]),
    place: (u32, u32),
    parallel: (bool, bool),
) -> Option<StatementCpu> {
    let micros = |workers: bool, record: &StatementRecord| {
        let cpu = record.cpu.filter(|cpu| cpu.executions > 0)?;
        let ended = match workers {
            true => cpu.ended_ticks as f64 * 1e9 / TICKS_PER_SECOND,
            false => 0.0,
        };
        let each = (cpu.own_ns as f64 + ended) / cpu.executions as f64 / 1000.0;
        (each > 0.0).then_some(each)
    };
    let mut executions = [0, 0];
    let mut all = [Vec::new(), Vec::new()];
    let launches = by_launch(comparison, trials, place, &mut |side, record| {
        let each = micros([parallel.0, parallel.1][side], record)?;
        executions[side] += record.cpu.map_or(0, |cpu| cpu.executions);
        all[side].push(each);
        Some(each)
    });
    // Of equal servers both are A's.
    let noise = by_launch(comparison, noise, place, &mut |_, record| {
        micros(parallel.0, record)
    });
    let [a, b] = all;
    (!a.is_empty() || !b.is_empty()).then(|| StatementCpu {
        a: summarize_positive(&a),
        b: summarize_positive(&b),
        compared: compared(&launches, &noise, comparison),
        executions: (executions[0], executions[1]),
    })
}

/// All statements' CPU time against the server's in the same slices; none where statements were not measured.
pub(in crate::compare) fn held(
    run: &RecordedRun,
    comparison: &ComparisonPlan,
    (arm, point): (u32, u32),
    statements: &[StatementResult],
) -> Option<StatementsCpu> {
    if statements.is_empty() {
        return None;
    }
    let trials = pairs::side_by_side(run, comparison, Phase::Pairs, arm, point);
    let whys = trials.iter().flat_map(|(_, sides)| sides);
    let unavailable = whys.filter_map(|trial| trial.not_metered.clone()).next();
    let measured = statements.iter().any(|statement| statement.cpu.is_some());
    if !measured && unavailable.is_none() {
        return None;
    }
    let of = |side: usize| {
        let server: Option<f64> = trials
            .iter()
            .map(|(_, sides)| server_us(run, sides[side]))
            .sum();
        let each = statements.iter().map(|statement| {
            let calls = [statement.calls.0, statement.calls.1][side];
            if calls == 0 {
                return Some(0.0);
            }
            let cpu = statement.cpu.as_ref()?;
            let each = [&cpu.a, &cpu.b][side].as_ref()?;
            Some(each.estimate * calls as f64)
        });
        let all: Option<f64> = each.sum();
        Some(all? / server.filter(|us| *us > 0.0)?)
    };
    let mut held = StatementsCpu {
        accounted: (of(0), of(1)),
        unavailable,
        warnings: Vec::new(),
    };
    held.warnings.extend(held.warning());
    Some(held)
}

/// CPU time of the server within a trial's window, microseconds.
fn server_us(run: &RecordedRun, trial: &Trial) -> Option<f64> {
    let server = Server::of(run, trial.slice.arm);
    let view = TrialView::of(trial, server);
    Some(view.server_cpus? * view.seconds * 1e6)
}

impl StatementsCpu {
    /// Said where the statements one at a time account for much less or more than the server used under the load.
    fn warning(&self) -> Option<Warning> {
        let shares = [self.accounted.0, self.accounted.1];
        let far = |share: &Option<f64>| share.is_some_and(|share| !ACCOUNTED.contains(&share));
        shares.iter().any(far).then(|| {
            let text = format!(
                "{}: beside other clients their CPU time is another than the one in the table",
                self.in_words()
            );
            Warning::new("statements-cpu-not-the-servers", text)
        })
    }

    /// How much of the server's CPU time the statements account for.
    pub fn in_words(&self) -> String {
        let share = |share: Option<f64>| match share {
            Some(share) => format!("{:.0}%", 100.0 * share),
            None => "an unknown share".to_owned(),
        };
        let (a, b) = self.accounted;
        format!(
            "One at a time, the statements take {} (A) and {} (the other) of the CPU time that the server used under \
             this load",
            share(a),
            share(b)
        )
    }
}
