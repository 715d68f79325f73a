//! Where a line stops a workload: a bound on throughput that needs no fit.
//!
//! A line that each transaction must own V times, after another processor did, is handed on V times
//! a transaction, one after the other; so no more than 1 / (V × c) transactions a second go through
//! it, where c is the time of one transfer. Reads are left out: several processors can read at once.
//!
//! Whether two accesses of a processor that follow each other within c are one visit or two is the
//! hardware's to decide: another processor's request needs that long to take the line away. A loop
//! that uses a line every 40 ns does so several times a transfer, and is not bounded by it at all
//! (`bench/walls.py` shows it). So V is counted twice: visits, between which the line could have been
//! elsewhere, give the bound; accesses give what is left if the line is handed on each time.
//!
//! That no more are possible does not say that so many are: what a processor does while it has the
//! line, retries and sleeping come on top.

use pgassay_model::Failure;
use pgassay_report::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use pgassay_report::{Document, Report, Rows};
use serde::Serialize;

use crate::account::Account;

use crate::timed::Costs;
use crate::transfers::{Interval, Timed};

/// The document's schema.
pub const SCHEMA: &str = "pgassay/walls/1";
/// Lines that are told.
const SHOWN: usize = 6;
/// The share of all time from which on waiting for a line is told.
const WORTH: f64 = 0.05;
/// Published times of a transfer.
const MAPS: &str = include_str!("../maps.csv");

/// How long a line takes from one processor to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Map {
    /// The processor, as it is named on the command line.
    pub name: String,
    /// The same in full.
    pub title: String,
    /// Nanoseconds between processors that are near each other, where that was published.
    pub near_ns: Option<f64>,
    /// Between two processors of one socket, typically.
    pub typical_ns: f64,
    /// Between sockets or far parts of one, where that was published.
    pub far_ns: Option<f64>,
    /// Where it was published.
    pub source: String,
}

/// The published maps.
pub fn maps() -> Vec<Map> {
    MAPS.lines().filter_map(|line| map(line).ok()).collect()
}

/// The map of a processor.
///
/// # Errors
/// If there is none of this name.
pub fn published(name: &str) -> Result<Map, Failure> {
    let all = maps();
    let known: Vec<&str> = all.iter().map(|map| map.name.as_str()).collect();
    let failure = Failure::usage(format!("no times of transfers are known for `{name}`"))
        .with_remedy(format!("one of {}; or --transfer-ns", known.join(", ")));
    all.iter()
        .find(|map| map.name == name)
        .cloned()
        .ok_or(failure)
}

fn map(line: &str) -> Result<Map, ()> {
    let fields: Vec<&str> = line.splitn(6, ',').collect();
    let [name, title, near, typical, far, source] = fields.as_slice() else {
        return Err(());
    };
    let number = |text: &str| text.parse::<f64>().ok();
    Ok(Map {
        name: (*name).to_owned(),
        title: (*title).to_owned(),
        near_ns: number(near),
        typical_ns: number(typical).ok_or(())?,
        far_ns: number(far),
        source: (*source).to_owned(),
    })
}

/// Where the lines of a workload stop it on one processor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Walls {
    /// `pgassay/walls/1`.
    pub schema: String,
    /// What was executed.
    pub workload: String,
    /// The server that was recorded, and its version.
    pub target: String,
    /// Its version.
    pub version: String,
    /// The processor's times.
    pub map: Map,
    /// Microseconds of CPU time of a transaction in the server, unstepped; where it is known.
    pub cpu_us: Option<f64>,
    /// What the lines allow at each number of sessions.
    pub bounds: Vec<Bound>,
}

/// What the lines allow at a number of sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bound {
    /// Sessions, each on a processor of its own.
    pub sessions: usize,
    /// Transactions a second that the processors' time allows: sessions / CPU time.
    pub processors_tps: Option<f64>,
    /// The lines, the narrowest first.
    pub lines: Vec<Wall>,
    /// What the sessions get through by the replay with time; where CPU time is known.
    pub timed: Option<Timed>,
}

/// A line as a wall.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wall {
    /// The line.
    pub name: String,
    /// Times a transaction that a processor comes back to it after longer than a transfer takes, and
    /// another one has owned it meanwhile.
    pub visits: Interval,
    /// Transactions a second at most, by visits at the typical time of a transfer.
    pub at_most_tps: Interval,
    /// The same at the time between near processors, which no placement can better.
    pub near_tps: Option<f64>,
    /// Times a transaction that it goes to another owner if every access hands it on.
    pub owned: Interval,
    /// Transactions a second by these, at the typical time of a transfer.
    pub tps: Interval,
}

/// Instructions a nanosecond, more than processors execute of PostgreSQL: what follows from it is a
/// bound on slower ones, too.
const FASTEST: f64 = 5.0;

/// A processor on which transactions are replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct Processor {
    /// Nanoseconds that a line takes from one processor to another, typically.
    pub transfer_ns: f64,
    /// Microseconds of CPU time of a transaction on it, where that is not the measured one.
    pub cpu_us: Option<f64>,
    /// How many times longer that is from so many sessions on.
    pub slower: Vec<(usize, f64)>,
}

impl Processor {
    /// How many instructions it executes at most in the time of a transfer.
    pub fn within_a_transfer(&self) -> u64 {
        (self.transfer_ns * FASTEST).ceil() as u64
    }

    /// The costs, at so many sessions, of a transaction that took so much CPU time where it was recorded.
    pub fn costs(&self, sessions: usize, measured_us: Option<f64>) -> Option<Costs> {
        let from = self.slower.iter().filter(|(from, _)| *from <= sessions);
        let times = from.max_by_key(|(from, _)| *from).map_or(1.0, |of| of.1);
        self.cpu_us.or(measured_us).map(|cpu_us| Costs {
            transfer_ns: self.transfer_ns,
            cpu_us: cpu_us * times,
        })
    }
}

impl Walls {
    /// The walls of an account on a processor.
    pub fn of(account: &Account, map: Map, processor: &Processor) -> Self {
        let bounds = account.transfers.iter().map(|at| {
            let walls = at.owners.iter().filter_map(|line| {
                let visits = line.visits.unwrap_or(line.owned);
                let tps = |times: f64, ns: f64| 1e9 / (times * ns);
                let over = |times: Interval| Interval {
                    estimate: tps(times.estimate, map.typical_ns),
                    low: tps(times.high, map.typical_ns),
                    high: tps(times.low.max(1e-9), map.typical_ns),
                };
                (visits.estimate > 0.0).then(|| Wall {
                    name: line.name.clone(),
                    visits,
                    at_most_tps: over(visits),
                    near_tps: map.near_ns.map(|ns| tps(visits.estimate, ns)),
                    owned: line.owned,
                    tps: over(line.owned),
                })
            });
            let mut lines: Vec<Wall> = walls.collect();
            lines.sort_by(|a, b| a.at_most_tps.estimate.total_cmp(&b.at_most_tps.estimate));
            lines.truncate(SHOWN);
            let most = lines.first().map(|wall| wall.at_most_tps.high);
            Bound {
                sessions: at.sessions,
                processors_tps: processor
                    .costs(at.sessions, account.cpu_us)
                    .map(|costs| at.sessions as f64 * 1e6 / costs.cpu_us),
                lines,
                timed: at.timed.clone().map(|timed| timed.at_most(most)),
            }
        });
        Self {
            schema: SCHEMA.to_owned(),
            workload: account.workload.clone(),
            target: account.target.clone(),
            version: account.version.clone(),
            bounds: bounds.collect(),
            map,
            cpu_us: processor.cpu_us.or(account.cpu_us),
        }
    }

    /// The fewest sessions at which a line allows less than the processors' time does.
    pub fn first(&self) -> Option<&Bound> {
        self.bounds.iter().find(|bound| {
            let line = bound.lines.first().map(|wall| wall.at_most_tps.estimate);
            line.zip(bound.processors_tps)
                .is_some_and(|(line, all)| line < all)
        })
    }
}

fn tps(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1e4 => format!("{:.0} k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

impl Report for Walls {
    fn document(&self) -> Document {
        let map = &self.map;
        let facts = vec![
            Fact::new("processor", &map.title).remark(&map.source),
            Fact::new("a transfer", format!("{} ns", map.typical_ns)).remark(
                match (map.near_ns, map.far_ns) {
                    (Some(near), Some(far)) => format!("{near} near, {far} far"),
                    (Some(near), None) => format!("{near} near"),
                    (None, Some(far)) => format!("{far} far"),
                    (None, None) => String::new(),
                },
            ),
            Fact::new("server", &self.target).remark(&self.version),
        ];
        Document {
            title: format!("{}: where a cache line stops it", self.workload),
            provenance: format!(
                "Bounds, and a replay with time; pgassay {}",
                env!("CARGO_PKG_VERSION")
            ),
            alarms: Vec::new(),
            headline: headline(self),
            sections: vec![Section {
                id: "walls",
                title: "Replay and bounds",
                depth: Depth::Summary,
                blocks: vec![
                    Block::Facts(facts),
                    Block::Table(over_sessions(self)),
                    Block::Table(lines(self)),
                ],
            }],
            notes: Notes::default().into_notes(),
            ..Document::default()
        }
    }

    /// One row for each line at each number of sessions.
    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new([
            "sessions",
            "line",
            "visits",
            "tps_at_most",
            "owned",
            "tps_if_each_access",
            "processors_tps",
            "replayed_tps",
            "replayed_low",
            "replayed_high",
        ]);
        for bound in &self.bounds {
            for wall in &bound.lines {
                rows.push(vec![
                    bound.sessions.to_string(),
                    wall.name.clone(),
                    format!("{:.4}", wall.visits.estimate),
                    format!("{:.0}", wall.at_most_tps.estimate),
                    format!("{:.4}", wall.owned.estimate),
                    format!("{:.0}", wall.tps.estimate),
                    whole(bound.processors_tps),
                    whole(bound.timed.as_ref().map(|timed| timed.tps.estimate)),
                    whole(bound.timed.as_ref().map(|timed| timed.tps.low)),
                    whole(bound.timed.as_ref().map(|timed| timed.tps.high)),
                ]);
            }
        }
        Some(rows)
    }
}

fn whole(tps: Option<f64>) -> String {
    tps.map_or(String::new(), |tps| format!("{tps:.0}"))
}

fn headline(walls: &Walls) -> Vec<String> {
    let mut said = Vec::new();
    if let Some((bound, timed)) = walls
        .bounds
        .last()
        .and_then(|bound| bound.timed.as_ref().map(|timed| (bound, timed)))
    {
        let waits = timed.waits.first().filter(|wait| wait.share >= WORTH);
        said.push(format!(
            "At {} sessions, the replay with time gets through {} transactions a second ({} to {}){}.",
            bound.sessions,
            tps(timed.tps.estimate),
            tps(timed.tps.low),
            tps(timed.tps.high),
            waits.map_or(String::new(), |wait| format!(
                "; sessions wait {:.0}% of their time for {}",
                100.0 * wait.share,
                wait.name
            ))
        ));
    }
    match (walls.first(), walls.bounds.last()) {
        (Some(bound), _) => {
            if let Some(wall) = bound.lines.first() {
                said.push(format!(
                    "From {} sessions on or earlier, each on a processor of its own, {} allows fewer \
                     transactions than the processors have time for: at most {} a second.",
                    bound.sessions,
                    wall.name,
                    tps(wall.at_most_tps.estimate)
                ));
            }
        }
        (None, Some(last)) if last.processors_tps.is_some() => said.push(format!(
            "Up to {} sessions, no line allows fewer transactions than the processors have time for.",
            last.sessions
        )),
        _ => {}
    }
    if let Some([first, second, ..]) = walls.bounds.last().map(|bound| bound.lines.as_slice()) {
        said.push(format!(
            "At {} sessions, {} allows at most {} transactions a second; without it, {} would allow {}.",
            walls.bounds.last().map_or(0, |bound| bound.sessions),
            first.name,
            tps(first.at_most_tps.estimate),
            second.name,
            tps(second.at_most_tps.estimate)
        ));
    }
    said.push(
        "A server may stop well below these bounds: work under a lock, retries and sleeping are not in \
         them."
            .to_owned(),
    );
    said
}

fn over_sessions(walls: &Walls) -> Table {
    let columns = vec![
        Column::figures("sessions", "", 0),
        Column::figures("replayed", "1/s", 0),
        Column::figures("least", "1/s", 1),
        Column::figures("most", "1/s", 1),
        Column::figures("processors allow", "1/s", 0),
        Column::figures("the line allows", "1/s", 0),
        Column::prose("the narrowest line"),
        Column::figures("visits", "", 1),
    ];
    let rows = walls.bounds.iter().map(|bound| {
        let wall = bound.lines.first();
        let replayed = |of: fn(&Timed) -> f64| {
            Cell::plain_or_missing(bound.timed.as_ref().map(|timed| tps(of(timed))))
        };
        vec![
            Cell::plain(bound.sessions.to_string()),
            replayed(|timed| timed.tps.estimate),
            replayed(|timed| timed.tps.low),
            replayed(|timed| timed.tps.high),
            Cell::plain_or_missing(bound.processors_tps.map(tps)),
            Cell::plain_or_missing(wall.map(|wall| tps(wall.at_most_tps.estimate))),
            Cell::plain_or_missing(wall.map(|wall| wall.name.clone())),
            Cell::plain_or_missing(wall.map(|wall| format!("{:.2}", wall.visits.estimate))),
        ]
    });
    Table::new(
        "Transactions a second: what the recorded transactions get through when they are replayed with time, with the \
         hand-over of a line as given (least: a quarter longer; most: a quarter shorter); and at most, by the CPU \
         time of a transaction as it was measured where it was recorded, and by the line to which processors come back most often after another one owned it \
         (visits a transaction, by the model of coherent caches) at the typical time of a transfer.",
        columns,
        rows,
    )
}

fn lines(walls: &Walls) -> Table {
    let columns = vec![
        Column::prose("line"),
        Column::figures("visits", "", 0),
        Column::figures("at most", "1/s", 0),
        Column::figures("low", "1/s", 1),
        Column::figures("high", "1/s", 1),
        Column::figures("if all are near", "1/s", 1),
        Column::figures("accesses", "", 1),
        Column::figures("if each moves it", "1/s", 1),
    ];
    let last = walls.bounds.last();
    let rows = last.into_iter().flat_map(|bound| &bound.lines).map(|wall| {
        vec![
            Cell::plain(wall.name.clone()),
            Cell::plain(format!("{:.2}", wall.visits.estimate)),
            Cell::plain(tps(wall.at_most_tps.estimate)),
            Cell::plain(tps(wall.at_most_tps.low)),
            Cell::plain(tps(wall.at_most_tps.high)),
            Cell::plain_or_missing(wall.near_tps.map(tps)),
            Cell::plain(format!("{:.2}", wall.owned.estimate)),
            Cell::plain(tps(wall.tps.estimate)),
        ]
    });
    let sessions = last.map_or(0, |bound| bound.sessions);
    Table::new(
        format!(
            "The lines at {sessions} sessions, with the interval over interleavings. Accesses that follow each \
             other within the time of a transfer are one visit: the line may have stayed."
        ),
        columns,
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Subject, account};
    use crate::transfers::{LineOwners, Transfers};

    fn walls(cpu_us: Option<f64>) -> Walls {
        let even = |value| Interval {
            estimate: value,
            low: value,
            high: value,
        };
        let at = |sessions, owned: &[(&str, f64)]| Transfers {
            sessions,
            per_transaction: even(0.0),
            lines: Vec::new(),
            owners: owned
                .iter()
                .map(|(name, owned)| LineOwners {
                    name: (*name).to_owned(),
                    owned: even(*owned),
                    visits: Some(even(*owned / 2.0)),
                })
                .collect(),
            timed: Some(Timed {
                tps: even(12e6),
                waits: Vec::new(),
            }),
        };
        let transfers = vec![
            at(1, &[]),
            at(64, &[("root", 2.0), ("lock", 1.0)]),
            at(192, &[("root", 4.0), ("lock", 2.0)]),
        ];
        let account = account(&[], Subject::default(), transfers);
        let processor = Processor {
            transfer_ns: 47.0,
            cpu_us,
            slower: Vec::new(),
        };
        Walls::of(&account, published("graviton2").unwrap(), &processor)
    }

    #[test]
    fn a_bound_is_the_time_of_its_transfers() {
        let walls = walls(Some(17.0));
        assert!(walls.bounds[0].lines.is_empty());
        // Four transfers of 47 ns: the field's own example, 5.3 million a second; in two visits, twice as
        // many.
        let root = &walls.bounds[2].lines[0];
        assert!((root.tps.estimate - 5.319e6).abs() < 1e3, "{root:?}");
        assert!((root.at_most_tps.estimate - 10.638e6).abs() < 2e3);
        // A replay goes through no more than the narrowest line allows.
        let replayed = |at: usize| walls.bounds[at].timed.as_ref().unwrap().tps.estimate;
        assert_eq!(replayed(0), 12e6);
        assert!((replayed(2) - 10.638e6).abs() < 2e3, "{}", replayed(2));
        // 192 processors with 17 µs each have time for 11.3 million; 64 for 3.8.
        assert_eq!(walls.first().unwrap().sessions, 192);
        assert!(walls.bounds[1].processors_tps.unwrap() < 4e6);
    }

    #[test]
    fn without_cpu_time_there_is_no_first_wall() {
        let walls = walls(None);
        assert!(walls.first().is_none());
        let text = pgassay_report::markdown(&walls);
        assert!(text.contains("root allows at most 10.64 M"), "{text}");
        assert!(!text.contains("no line allows fewer"), "{text}");
    }

    #[test]
    fn every_published_map_is_whole() {
        let all = maps();
        assert_eq!(
            all.len(),
            MAPS.lines().filter(|line| !line.starts_with('#')).count()
        );
        for map in &all {
            assert!(map.typical_ns > 10.0 && !map.source.is_empty(), "{map:?}");
            assert!(
                map.near_ns.is_none_or(|near| near <= map.typical_ns),
                "{map:?}"
            );
            assert!(
                map.far_ns.is_none_or(|far| far >= map.typical_ns),
                "{map:?}"
            );
        }
        let error = published("z80").unwrap_err();
        assert!(error.remedy.unwrap().contains("graviton2"));
    }
}
