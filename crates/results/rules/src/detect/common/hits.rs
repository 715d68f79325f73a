//! Something wrong with statements that take much of the time: one finding of all that have it, the part
//! of the time that it accounts for, and what of that the remedy leaves.

use crate::detect::tenths;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Finding, Observation, Severity, StepKind};
use crate::wait_events::{READS, is_of};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_evidence::profile::Class;
use pgassay_model::observed::plans::Plan;

/// The share of the sessions' time from which on a statement is looked at.
const NOTABLE: f64 = 0.1;
/// The share from which on what is wrong with it decides how fast the server is.
const MUCH: f64 = 0.3;
/// A statement with less of the CPU time is taken to have this much.
const LEAST_CPU: f64 = 0.01;

/// CPU time for each execution of a statement, however much it has to do: its messages, its plan, the locks
/// on its tables, its transaction.
const AROUND: &[Class] = &[
    Class::HeavyLock,
    Class::KernelNetwork,
    Class::ParseAndPlan,
    Class::Protocol,
    Class::Transaction,
];

/// Microseconds of CPU time that all of these but parsing and planning take for an execution at most, and for each row
/// that is sent. (26 to 35 a short statement in all, on one EPYC.) More is work on rows: a cast to text is output, too.
const AROUND_US: f64 = 200.0;
const A_ROW_SENT_US: f64 = 2.0;

/// The part of a statement that something accounts for, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// Of its time, on a CPU and waiting.
    pub time: f64,
    /// Of its CPU time.
    pub cpu: f64,
    /// The share of all CPU samples of the server by which that is known; 0 where it is known otherwise.
    pub sampled: f64,
}

impl Part {
    /// Nobody knows.
    pub const UNKNOWN: Self = Self {
        time: 0.0,
        cpu: 0.0,
        sampled: 0.0,
    };

    /// Of all that the statement does, evenly.
    pub fn of_all(part: f64) -> Self {
        let part = part.clamp(0.0, 1.0);
        Self {
            time: part,
            cpu: part,
            sampled: 0.0,
        }
    }

    /// Of what it executes, evenly. What each execution takes before and after stays; CPU samples tell how
    /// much that is.
    pub fn of_work(evidence: &Evidence, statement: &StatementTime, part: f64) -> Self {
        Self::without(evidence, statement, part, |_| true)
    }

    /// Of all that goes with its text: what parses, plans and executes it, and the memory that these take. Its messages,
    /// the locks on its tables and its transaction stay.
    pub fn of_text(evidence: &Evidence, statement: &StatementTime) -> Self {
        Self::without(evidence, statement, 1.0, |class| {
            class != Class::ParseAndPlan
        })
    }

    /// The same, with those of the classes around it staying that `stays` picks.
    fn without(
        evidence: &Evidence,
        statement: &StatementTime,
        part: f64,
        stays: impl Fn(Class) -> bool,
    ) -> Self {
        let stays = evidence.profile.map_or(0.0, |profile| {
            let of = |planning: bool| -> f64 {
                let around = AROUND.iter().filter(|class| stays(**class));
                let of = around.filter(|class| (**class == Class::ParseAndPlan) == planning);
                of.map(|class| profile.class(*class)).sum()
            };
            let most = call_us(evidence, statement)
                .map(|(us, rows)| (AROUND_US + A_ROW_SENT_US * rows) / us.max(f64::MIN_POSITIVE));
            (of(true) + of(false).min(most.unwrap_or(1.0))).min(1.0)
        });
        let part = part.clamp(0.0, 1.0);
        Self {
            time: part * (1.0 - stays * statement.running),
            cpu: part * (1.0 - stays),
            sampled: 0.0,
        }
    }

    /// Of its CPU time, and of the time that it waits for CPUs.
    pub fn of_cpu(statement: &StatementTime, part: f64) -> Self {
        let cpu = part.clamp(0.0, 1.0);
        Self {
            time: cpu * statement.running,
            cpu,
            sampled: 0.0,
        }
    }

    /// Of its CPU time, by a share of all CPU samples of the server: the most that can be this statement's.
    pub fn of_samples(statement: &StatementTime, share: f64) -> Self {
        Self {
            sampled: share,
            ..Self::of_cpu(statement, share / statement.cpu_share.max(LEAST_CPU))
        }
    }

    /// The same where statements with this share of the CPU time together have the samples in common:
    /// each of them has its part by its CPU time.
    fn of_common(self, statement: &StatementTime, together: f64) -> Self {
        let of = |cpu: f64| Self::of_cpu(statement, self.sampled / cpu.max(LEAST_CPU));
        let (alone, common) = (of(statement.cpu_share), of(together));
        Self {
            time: (self.time - (alone.time - common.time)).max(0.0),
            cpu: (self.cpu - (alone.cpu - common.cpu)).max(0.0),
            ..self
        }
    }

    /// Its waits at the events that `at` picks by their names.
    pub fn of_waits(statement: &StatementTime, at: impl Fn(&str) -> bool) -> Self {
        let waits = statement.waits.iter().filter(|w| at(&w.name));
        let sessions: f64 = waits.map(|w| w.sessions).sum();
        let time = match statement.sessions > 0.0 {
            true => (sessions / statement.sessions).min(1.0),
            false => 0.0,
        };
        Self {
            time,
            ..Self::UNKNOWN
        }
    }

    /// Both, which are different times.
    pub fn and(self, other: Self) -> Self {
        Self {
            time: (self.time + other.time).min(1.0),
            cpu: (self.cpu + other.cpu).min(1.0),
            sampled: self.sampled + other.sampled,
        }
    }
}

/// Microseconds of CPU time that an execution of a statement takes of the server, and rows that it gives or writes; none where
/// they are not counted.
fn call_us(evidence: &Evidence, statement: &StatementTime) -> Option<(f64, f64)> {
    let run = evidence.run?;
    let seconds = run.observed?.growth_seconds()?;
    let counted = statement.counters.as_ref()?;
    let us = 1e6 * run.server_cpus() * seconds * statement.cpu_share / counted.calls;
    (us.is_finite() && us > 0.0).then_some((us, counted.rows.unwrap_or(0.0)))
}

/// The part of a scan that goes by its pages and not by its rows, where no CPU samples tell.
const OF_PAGES: f64 = 0.7;

/// The part of a scan's time that goes by the pages that it reads: waits for them, and what finding each in the cache or
/// copying it there takes of the CPU.
pub fn of_pages(evidence: &Evidence, statement: &StatementTime) -> f64 {
    let Some(profile) = evidence.profile else {
        return OF_PAGES;
    };
    let by_pages = [
        Class::BufferMapping,
        Class::ContentLock,
        Class::Io,
        Class::Lwlock,
        Class::PageFaults,
        Class::Pin,
    ];
    let on_cpu: f64 = by_pages.iter().map(|class| profile.class(*class)).sum();
    let read = |name: &str| {
        let (kind, event) = name.split_once(':').unwrap_or((name, ""));
        is_of(kind, event, READS)
    };
    (statement.running * on_cpu + Part::of_waits(statement, read).time).min(1.0)
}

/// What the remedy leaves of the part that something accounts for, and how that is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Left {
    /// 0 to 1 of the part.
    pub of_part: f64,
    /// What it rests on, in a few words.
    pub rests_on: String,
}

impl Left {
    pub fn new(of_part: f64, rests_on: impl Into<String>) -> Option<Self> {
        Some(Self {
            of_part: of_part.clamp(0.0, 1.0),
            rests_on: rests_on.into(),
        })
    }
}

/// Something wrong with a statement.
pub struct Hit<'s> {
    pub statement: &'s StatementTime,
    /// The part of it that it accounts for.
    pub part: Part,
    /// What the remedy leaves of that; none where only the bound is known.
    pub left: Option<Left>,
    pub saw: String,
    pub confidence: Confidence,
    pub evidence: Vec<String>,
    pub steps: Vec<(StepKind, String)>,
}

impl Hit<'_> {
    fn share(&self) -> f64 {
        self.statement.share * self.part.time
    }
}

/// Something found under its own name: the entry, the name, what was seen.
pub struct Named {
    /// The entry.
    pub entry: &'static str,
    /// `Lock:advisory`, `libfoo.so`; none where the entry says it all.
    pub subject: Option<String>,
    /// Its title.
    pub title: String,
    /// What was seen.
    pub seen: Observation,
}

/// Whether a finding is about a statement.
pub fn is_about(finding: &Finding, statement: &StatementTime) -> bool {
    finding.subjects.statements.contains(&statement.id)
}

/// The statements that matter, by their time.
pub fn weighty<'a>(run: &RunEvidence<'a>) -> impl Iterator<Item = &'a StatementTime> {
    let seen = run
        .observed
        .and_then(|observed| observed.statements.as_ref());
    let all = seen.into_iter().flat_map(|seen| &seen.statements);
    // A handful of sightings is chance.
    all.filter(|s| s.share >= NOTABLE && s.sightings >= 10)
}

/// Those that matter and whose plans are known, as far as something is wrong with them.
pub fn with_plans<'a>(
    run: &RunEvidence<'a>,
    mut look: impl FnMut(&'a StatementTime, &'a Plan) -> Option<Hit<'a>>,
) -> Vec<Hit<'a>> {
    // No index, statistics or setting for the catalogues is the user's: what is wrong is that they are asked.
    weighty(run)
        .filter(|statement| !asks_catalogues(statement))
        .filter_map(|statement| look(statement, statement.plan.as_ref()?))
        .collect()
}

/// Whether a statement asks the catalogues what tables look like, and nothing else.
pub fn asks_catalogues(statement: &StatementTime) -> bool {
    let Some(plan) = &statement.plan else {
        return false;
    };
    let all = plan.root.all();
    let of_catalogue = |table: &str| {
        ["pg_catalog.", "information_schema."]
            .iter()
            .any(|schema| table.starts_with(schema))
            && table != "pg_catalog.pg_largeobject"
    };
    let mut tables = all.iter().filter_map(|(_, n)| n.relation.as_deref());
    let some = tables.clone().next().is_some();
    // Views of counters and of sessions are built by functions, and are asked for something else.
    let counters = all
        .iter()
        .any(|(_, n)| n.function.as_deref().is_some_and(|f| f.starts_with("pg_")))
        || statement.text.contains("pg_stat");
    let reads = !all.iter().any(|(_, n)| n.writes());
    some && reads && !counters && tables.all(of_catalogue)
}

/// Samples do not say of which statement they are: hits that go by the same ones have them in common, by
/// their CPU time, so that none counts twice.
fn divide_samples(hits: &mut [Hit]) {
    let sampled = hits.iter().filter(|hit| hit.part.sampled > 0.0);
    let together: f64 = sampled.map(|hit| hit.statement.cpu_share).sum();
    for hit in hits.iter_mut().filter(|hit| hit.part.sampled > 0.0) {
        hit.part = hit.part.of_common(hit.statement, together);
    }
}

/// One finding of all the statements that have it, the one with the most time leading.
pub fn joined(run: &RunEvidence, mut hits: Vec<Hit>) -> Option<Observation> {
    divide_samples(&mut hits);
    hits.sort_by(|a, b| b.share().total_cmp(&a.share()));
    let share: f64 = hits.iter().map(Hit::share).sum();
    let cpu: f64 = hits
        .iter()
        .map(|h| h.statement.cpu_share * h.part.cpu)
        .sum();
    let left_of = |hit: &Hit| hit.left.as_ref().map_or(0.0, |left| left.of_part);
    let won: f64 = hits.iter().map(|h| h.share() * (1.0 - left_of(h))).sum();
    let statements: Vec<&StatementTime> = hits.iter().map(|hit| hit.statement).collect();
    let mut hits = hits.into_iter();
    let first = hits.next()?;
    let known = (share > 0.0).then_some(share.min(1.0));
    let mut seen = Observation::measured(Basis::Statements, known, first.saw)
        .of_statements(statements)
        .of_cpu(cpu.min(1.0))
        .confidence(first.confidence)
        .severity(match share {
            _ if first.confidence == Confidence::Low => Severity::Low,
            MUCH.. => Severity::High,
            _ => Severity::Medium,
        })
        .seen(format!(
            "{} of {} goes to: {}",
            tenths(first.statement.share),
            run.whole(),
            first.statement.named()
        ))
        .all_seen(first.evidence);
    if let Some(left) = first.left.filter(|_| share > 0.0) {
        seen = seen.expects(won / share, left.rests_on);
    }
    for (kind, step) in first.steps {
        seen = seen.step(kind, step);
    }
    Some(seen.all_seen(hits.map(|hit| {
        format!(
            "also: {} ({} of the time: {})",
            hit.saw.trim_end_matches('.'),
            tenths(hit.statement.share),
            hit.statement.named()
        )
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::{QUIET, Seen, looked_at};
    use pgassay_evidence::observed::counters::ServerCounters;
    use pgassay_evidence::observed::statements::{Counters, StatementWait};

    fn statement(cpu_share: f64) -> StatementTime {
        StatementTime {
            cpu_share,
            running: 0.5,
            ..StatementTime::default()
        }
    }

    fn hit(statement: &StatementTime, part: Part) -> Hit<'_> {
        Hit {
            statement,
            part,
            left: None,
            saw: String::new(),
            confidence: Confidence::High,
            evidence: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn cpu(hits: &[Hit]) -> f64 {
        let of = |hit: &Hit| hit.statement.cpu_share * hit.part.cpu;
        hits.iter().map(of).sum()
    }

    /// A cast to text is output, of each row: 6 % of 12 ms were taken for the way to the client.
    #[test]
    fn what_surrounds_an_execution_does_not_grow_with_its_work() {
        let seen = Seen {
            listing: "    60.00%  postgres  postgres  [.] ExecScan\n    40.00%  postgres  postgres  [.] printtup\n",
            ..QUIET
        };
        let left = |calls: f64, rows: f64| {
            let statement = StatementTime {
                counters: Some(Counters {
                    calls,
                    rows: Some(rows),
                    ..Counters::default()
                }),
                ..statement(0.8)
            };
            looked_at(
                &seen,
                |observed| {
                    observed.counters = Some(ServerCounters {
                        seconds: 10.0,
                        ..ServerCounters::default()
                    });
                },
                |evidence| 1.0 - Part::of_work(evidence, &statement, 1.0).cpu,
            )
        };
        // Of half a CPU for ten seconds, 4 us a call, and 4 ms.
        let near = |left: f64, expected: f64| (left - expected).abs() < 1e-9;
        assert!(near(left(1e6, 1.0), 0.4), "{}", left(1e6, 1.0));
        assert!(
            near(left(1000.0, 1.0), 202.0 / 4000.0),
            "{}",
            left(1000.0, 1.0)
        );
        assert!(near(left(1000.0, 1e6), 0.4), "{}", left(1000.0, 1e6));
    }

    #[test]
    fn pages_cost_what_is_seen_of_them() {
        let statement = StatementTime {
            running: 0.6,
            sessions: 10.0,
            waits: [
                ("IO:DataFileRead", 2.0),
                ("LWLockTranche:buffer_mapping", 1.0),
                ("IO:BufFileRead", 1.0),
            ]
            .map(|(name, sessions)| StatementWait {
                name: name.to_owned(),
                sessions,
            })
            .to_vec(),
            ..StatementTime::default()
        };
        let of = |listing: &'static str| {
            let seen = Seen { listing, ..QUIET };
            looked_at(&seen, |_| {}, |evidence| of_pages(evidence, &statement))
        };
        // No samples.
        assert!((of("") - OF_PAGES).abs() < 1e-9);
        let listing = "    20.00%  postgres  postgres  [.] BufTableLookup\n    80.00%  postgres  postgres  [.] ExecScan\n";
        let part = of(listing);
        assert!((part - (0.6 * 0.2 + 0.3)).abs() < 1e-9, "{part}");
    }

    #[test]
    fn samples_that_statements_have_in_common_count_once() {
        let (one, other) = (statement(0.4), statement(0.4));
        let sampled = |s| Part::of_samples(s, 0.3);
        let mut hits = [hit(&one, sampled(&one)), hit(&other, sampled(&other))];
        divide_samples(&mut hits);
        assert!((cpu(&hits) - 0.3).abs() < 1e-9, "{}", cpu(&hits));
        assert!((hits[0].part.time - 0.375 * 0.5).abs() < 1e-9);

        // What is known otherwise stays.
        let waiting = Part {
            time: 0.2,
            ..Part::UNKNOWN
        };
        let mut hits = [
            hit(&one, waiting.and(sampled(&one))),
            hit(&other, sampled(&other)),
            hit(&other, Part::of_all(0.5)),
        ];
        divide_samples(&mut hits);
        assert!((cpu(&hits[..2]) - 0.3).abs() < 1e-9);
        assert!((hits[0].part.time - (0.2 + 0.375 * 0.5)).abs() < 1e-9);
        assert_eq!(hits[2].part, Part::of_all(0.5));

        let mut alone = [hit(&one, sampled(&one))];
        divide_samples(&mut alone);
        assert_eq!(alone[0].part, sampled(&one));
    }
}
