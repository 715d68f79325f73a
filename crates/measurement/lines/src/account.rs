//! The account of a transaction: lines by what taking them costs others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::gathered::{Counts, Gathered, rounded};
use crate::meetings::{Meeting, meetings};
use crate::sampled::Sampled;
use crate::sampled::beside::{Beside, Counted};
use crate::segment::{Region, Segment};
use crate::sequence::Sequence;
use crate::transfers::Transfers;

/// The document's schema.
pub const SCHEMA: &str = "pgassay/lines/1";
/// Lines told one by one in the account; the rest is in the groups.
const LINES: usize = 200;
/// Of each region so many are told, wherever they stand.
const OF_A_REGION: usize = 16;
/// Sites told for a line.
const SITES: usize = 6;

/// Which shared cache lines a transaction takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Account {
    /// `pgassay/lines/1`.
    pub schema: String,
    /// When it was recorded, UTC, RFC 3339; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recorded: String,
    /// The server.
    pub target: String,
    /// Its version in its own words.
    pub version: String,
    /// What was executed.
    pub workload: String,
    /// How it was recorded.
    pub method: String,
    /// Sessions that were recorded, one after the other.
    pub sessions: usize,
    /// Transactions of each; of the first where they differ.
    pub transactions: u64,
    /// Transactions of each session, where stepping stopped before some had all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transactions_by_session: Vec<u64>,
    /// Seed of the first session's random numbers; the next have the next.
    pub seed: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Instructions in user mode, a transaction.
    pub instructions: f64,
    /// Microseconds of CPU time of a transaction in the server, measured over others that were not
    /// stepped; none where it could not be read.
    pub cpu_us: Option<f64>,
    /// Instructions stepped in a second.
    pub steps_per_second: f64,
    /// All accesses to shared memory, a transaction.
    pub total: Counts,
    /// The share of the accesses that have a name, of all.
    pub named_share: f64,
    /// Where those without a name lie, with their share of all.
    pub unnamed: Vec<Share>,
    /// Lines taken a transaction: different lines that are written.
    pub lines_taken: f64,
    /// By kind of memory, the most taken first.
    pub groups: Vec<Group>,
    /// Line by line, the most taken first: 200, and of each region the first 16.
    pub lines: Vec<Line>,
    /// The shared memory by address: what lies where, and how it is used. Empty in documents of
    /// releases before there was a map.
    #[serde(default)]
    pub regions: Vec<Region>,
    /// Functions that take lines, the most first.
    pub takers: Vec<Taker>,
    /// Lines on which unrelated things meet.
    pub meetings: Vec<Meeting>,
    /// What the model of N sessions says.
    pub transfers: Vec<Transfers>,
    /// What could not be seen or believed.
    pub doubts: Vec<String>,
    /// What a processor's sampling saw of the same lines, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Box<Beside>>,
}

/// A share of all accesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// Of what.
    pub name: String,
    /// 0 to 1.
    pub share: f64,
}

/// Memory of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// What it is.
    pub name: String,
    /// Whether it is the session's own.
    pub own: bool,
    /// Accesses.
    pub counts: Counts,
    /// Different lines of it that were used.
    pub lines: usize,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Its address in the server's processes, in hexadecimal; above user addresses for segments that
    /// lie elsewhere in each process.
    pub address: String,
    /// What is taken most on it.
    pub name: String,
    /// Whether all that was used of it is the session's own.
    pub own: bool,
    /// Accesses.
    pub counts: Counts,
    /// What lies on it and was used.
    pub parts: Vec<Part>,
    /// The code that takes it.
    pub takers: Vec<Taker>,
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Accesses.
    pub counts: Counts,
}

/// Code that takes lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Taker {
    /// The function.
    pub function: String,
    /// Its callers, innermost first.
    pub callers: Vec<String>,
    /// Accesses.
    pub counts: Counts,
}

/// What the account is of.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// When it was recorded, UTC.
    pub recorded: String,
    /// The server.
    pub target: String,
    /// Its version.
    pub version: String,
    /// The workload.
    pub workload: String,
    /// How it was recorded.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// Bytes of a line, a power of two.
    pub line_bytes: u64,
    /// Microseconds of CPU time of an unstepped transaction.
    pub cpu_us: Option<f64>,
    /// What could not be believed.
    pub doubts: Vec<String>,
}

impl Account {
    /// What was recorded, in words.
    pub fn sessions_in_words(&self) -> String {
        let each: Vec<String> = self
            .transactions_by_session
            .iter()
            .map(u64::to_string)
            .collect();
        match each.is_empty() {
            true => format!(
                "{} sessions of {} transactions each",
                self.sessions, self.transactions
            ),
            false => format!(
                "{} sessions of {} transactions",
                self.sessions,
                each.join(" and ")
            ),
        }
    }

    /// Puts samples beside it; `one_server` says that they are of the same server since its start.
    pub fn put_beside(&mut self, sampled: Sampled, one_server: bool) {
        let lines = self.lines.iter().map(|line| Counted {
            key: line.address.clone(),
            name: line.name.clone(),
            own: line.own,
            takes: line.counts.takes(),
        });
        let groups = self.groups.iter().map(|group| Counted {
            key: group.name.clone(),
            name: group.name.clone(),
            own: group.own,
            takes: group.counts.takes(),
        });
        self.beside = Some(Box::new(match one_server {
            true => Beside::lines(lines, sampled),
            false => Beside::groups(groups, sampled),
        }));
    }
}

/// The account of sessions' recorded transactions. What is a session's own is counted of the first;
/// what all share, of all.
pub fn account(sequences: &[Sequence], subject: Subject, transfers: Vec<Transfers>) -> Account {
    let line = subject.line_bytes.clamp(16, 256);
    let first = sequences.first();
    let transactions = first.map_or(0, |s| s.transactions);
    let mut by_session: Vec<u64> = sequences.iter().map(|s| s.transactions).collect();
    if by_session.iter().all(|count| *count == transactions) {
        by_session.clear();
    }
    let mut lines: HashMap<u64, Gathered> = HashMap::new();
    let mut total = Counts::default();
    let mut unnamed: BTreeMap<String, f64> = BTreeMap::new();
    let mut groups: BTreeMap<(String, bool), (Counts, BTreeSet<u64>)> = BTreeMap::new();
    let mut taken = 0.0;
    let mut segment = Segment::new(first.map(|s| s.areas.clone()).unwrap_or_default(), line);
    for (number, sequence) in sequences.iter().enumerate() {
        let each = 1.0 / (sequence.transactions.max(1) as f64);
        let of_all = each / sequences.len() as f64;
        for one in &sequence.uses {
            let name = sequence.name(one);
            total.add(one.kind, of_all);
            if !name.known {
                *unnamed.entry(name.structure.clone()).or_default() += of_all;
            }
            let at = one.address / line;
            let own = name.own.is_some();
            let group = groups.entry((name.group.clone(), own)).or_default();
            group.0.add(one.kind, of_all);
            group.1.insert(at);
            let gathered = lines.entry(at).or_default();
            gathered.note_bytes(number, one.address % line, one.size, one.kind, line);
            gathered.own |= own;
            gathered.shared |= !own;
            if own && number > 0 {
                continue;
            }
            let weight = if own { each } else { of_all };
            gathered.counts.add(one.kind, weight);
            gathered.region = segment.note(one.address, own, one.kind, weight);
            gathered
                .parts
                .entry(name.line())
                .or_default()
                .add(one.kind, weight);
            let kind = (name.group.clone(), name.field.clone());
            gathered
                .kinds
                .entry(kind)
                .or_default()
                .add(one.kind, weight);
            if one.kind.owns() {
                let site = &sequence.sites[one.site as usize];
                let key = (site.function.clone(), site.callers.clone());
                gathered
                    .takers
                    .entry(key)
                    .or_default()
                    .add(one.kind, weight);
                if let Some(row) = name.own.filter(|row| row.shared_by.is_none()) {
                    let start = one.address - (one.address - row.base) % row.stride.max(1);
                    if at * line < start || (at + 1) * line > start + row.stride {
                        gathered.rows.insert((name.structure.clone(), row.stride));
                    }
                }
            }
        }
        for window in sequence.boundaries.windows(2) {
            let written: BTreeSet<u64> = sequence.uses[window[0]..window[1]]
                .iter()
                .filter(|one| one.kind.owns())
                .map(|one| one.address / line)
                .collect();
            let whole = (sequence.boundaries.len() - 1) as f64;
            taken += written.len() as f64 / whole / sequences.len() as f64;
        }
    }
    let all = total.all().max(f64::MIN_POSITIVE);
    let unnamed_sum: f64 = unnamed.values().sum();
    let mut sorted: Vec<(u64, Gathered)> = lines.into_iter().collect();
    sorted.sort_by(|a, b| {
        let key = |g: &Gathered| (g.counts.takes(), g.counts.loads);
        let ((x, y), (v, w)) = (key(&a.1), key(&b.1));
        v.total_cmp(&x).then(w.total_cmp(&y)).then(a.0.cmp(&b.0))
    });
    let meetings = meetings(&sorted, line);
    let takers = takers(&sorted);
    let seconds: f64 = sequences.iter().map(|s| s.seconds).sum();
    let instructions: u64 = sequences.iter().map(|s| s.instructions).sum();
    let transactions_all: u64 = sequences.iter().map(|s| s.transactions).sum();
    let mut doubts = subject.doubts;
    let unresolved: u64 = sequences.iter().map(|s| s.unresolved).sum();
    if unresolved > 0 {
        doubts.push(format!(
            "{unresolved} instructions whose addresses are not seen are not counted: gathers, scatters, blocks \
             zeroed at once; whether their memory is shared is not known"
        ));
    }
    let unseen: u64 = sequences.iter().map(|s| s.unseen_calls).sum();
    if unseen > 0 {
        doubts.push(format!("{unseen} calls of io_uring are not looked into: reads into shared buffers by it are not counted"));
    }
    Account {
        schema: SCHEMA.to_owned(),
        recorded: subject.recorded,
        target: subject.target,
        version: subject.version,
        workload: subject.workload,
        method: subject.method,
        sessions: sequences.len(),
        transactions,
        transactions_by_session: by_session,
        seed: subject.seed,
        line_bytes: line,
        instructions: instructions as f64 / transactions_all.max(1) as f64,
        cpu_us: subject.cpu_us,
        steps_per_second: if seconds > 0.0 {
            instructions as f64 / seconds
        } else {
            0.0
        },
        total: total.rounded(),
        named_share: (1.0 - unnamed_sum / all).clamp(0.0, 1.0),
        unnamed: shares(unnamed, all),
        lines_taken: rounded(taken),
        groups: sorted_groups(groups),
        lines: worth_telling(sorted)
            .map(|(at, gathered)| told(gathered, at * line))
            .collect(),
        regions: segment.regions(),
        takers,
        meetings,
        transfers,
        doubts,
        beside: None,
    }
}

/// The first of all, and the first of each region.
fn worth_telling(sorted: Vec<(u64, Gathered)>) -> impl Iterator<Item = (u64, Gathered)> {
    let mut of_region: HashMap<Option<usize>, usize> = HashMap::new();
    let numbered = sorted.into_iter().enumerate();
    numbered.filter_map(move |(rank, (at, gathered))| {
        let before = of_region.entry(gathered.region).or_default();
        *before += 1;
        (rank < LINES || *before <= OF_A_REGION).then_some((at, gathered))
    })
}

fn shares(of: BTreeMap<String, f64>, all: f64) -> Vec<Share> {
    let mut shares: Vec<Share> = of
        .into_iter()
        .map(|(name, count)| Share {
            name,
            share: count / all,
        })
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

fn sorted_groups(groups: BTreeMap<(String, bool), (Counts, BTreeSet<u64>)>) -> Vec<Group> {
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|((name, own), (counts, lines))| Group {
            name,
            own,
            counts: counts.rounded(),
            lines: lines.len(),
        })
        .collect();
    groups.sort_by(|a, b| {
        let takes = b.counts.takes().total_cmp(&a.counts.takes());
        takes.then(b.counts.loads.total_cmp(&a.counts.loads))
    });
    groups
}

fn takers(lines: &[(u64, Gathered)]) -> Vec<Taker> {
    let mut sums: BTreeMap<&(String, Vec<String>), Counts> = BTreeMap::new();
    for (_, gathered) in lines {
        for (site, counts) in &gathered.takers {
            sums.entry(site).or_default().sum(counts);
        }
    }
    sorted_takers(
        sums.into_iter()
            .map(|(site, counts)| (site.clone(), counts)),
        LINES,
    )
}

fn sorted_takers(
    takers: impl Iterator<Item = ((String, Vec<String>), Counts)>,
    most: usize,
) -> Vec<Taker> {
    let mut takers: Vec<Taker> = takers
        .map(|((function, callers), counts)| Taker {
            function,
            callers,
            counts: counts.rounded(),
        })
        .collect();
    takers.sort_by(|a, b| b.counts.takes().total_cmp(&a.counts.takes()));
    takers.truncate(most);
    takers
}

/// A line as it is told.
fn told(gathered: Gathered, address: u64) -> Line {
    let mut parts: Vec<Part> = gathered
        .parts
        .into_iter()
        .map(|(name, counts)| Part {
            name,
            counts: counts.rounded(),
        })
        .collect();
    parts.sort_by(|a, b| {
        let takes = b.counts.takes().total_cmp(&a.counts.takes());
        takes.then(b.counts.loads.total_cmp(&a.counts.loads))
    });
    Line {
        address: format!("{address:#x}"),
        name: parts
            .first()
            .map(|part| part.name.clone())
            .unwrap_or_default(),
        own: gathered.own && !gathered.shared,
        counts: gathered.counts.rounded(),
        parts,
        takers: sorted_takers(gathered.takers.into_iter(), SITES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Name, Own};
    use crate::recording::Kind;
    use crate::sequence::{CodeSite, Use};

    /// One transaction of accesses of four bytes.
    fn sequence(uses: &[(u64, Kind)]) -> Sequence {
        let mut names: Vec<Name> = Vec::new();
        let uses = uses.iter().map(|(address, kind)| {
            let name = Name {
                known: true,
                field: format!("at {address}"),
                ..Name::unknown("thing")
            };
            let index = names.iter().position(|n| *n == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            Use {
                step: 0,
                address: *address,
                size: 4,
                kind: *kind,
                name: index as u32,
                site: 0,
            }
        });
        let uses: Vec<Use> = uses.collect();
        let site = CodeSite {
            function: "PinBuffer".to_owned(),
            callers: vec!["ReadBuffer".to_owned()],
        };
        Sequence {
            boundaries: vec![0, uses.len()],
            uses,
            names,
            sites: vec![site],
            transactions: 1,
            instructions: 100,
            seconds: 0.5,
            ..Sequence::default()
        }
    }

    fn of(sequences: &[Sequence]) -> Account {
        let subject = Subject {
            line_bytes: 64,
            ..Subject::default()
        };
        account(sequences, subject, Vec::new())
    }

    #[test]
    fn transactions_are_counted_by_session_where_they_differ() {
        let whole = |transactions| Sequence {
            transactions,
            ..sequence(&[(640, Kind::Load)])
        };
        let alike = of(&[whole(3), whole(3)]);
        assert_eq!(
            alike.sessions_in_words(),
            "2 sessions of 3 transactions each"
        );
        let account = of(&[whole(3), whole(5)]);
        assert_eq!(
            account.sessions_in_words(),
            "2 sessions of 3 and 5 transactions"
        );
        // 200 instructions of 8 transactions.
        assert_eq!(account.instructions, 25.0);
    }

    #[test]
    fn lines_by_what_they_cost_others() {
        let account = of(&[sequence(&[
            (640, Kind::Load),
            (640, Kind::Atomic),
            (644, Kind::Atomic),
            (1280, Kind::Store),
            (6400, Kind::Load),
        ])]);
        assert_eq!(account.lines.len(), 3);
        assert_eq!(account.lines[0].address, "0x280");
        assert_eq!(account.lines[0].counts.atomics, 2.0);
        assert_eq!(account.lines[0].takers[0].callers, ["ReadBuffer"]);
        assert_eq!((account.lines_taken, account.total.all()), (2.0, 5.0));
        assert_eq!(
            (account.named_share, account.steps_per_second),
            (1.0, 200.0)
        );
        let meeting = &account.meetings;
        assert!(meeting.is_empty(), "{meeting:?}");
    }

    #[test]
    fn false_sharing_needs_two_sessions_and_different_bytes() {
        let kinds = |other: u64, kind| {
            let account = of(&[sequence(&[(640, Kind::Atomic)]), sequence(&[(other, kind)])]);
            account
                .meetings
                .iter()
                .map(|m| m.kind.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(648, Kind::Atomic), ["false-sharing"]);
        assert_eq!(kinds(648, Kind::Load), ["false-sharing"]);
        // The same word is shared in earnest; another line is not shared.
        assert!(kinds(640, Kind::Atomic).is_empty());
        assert!(kinds(704, Kind::Atomic).is_empty());
    }

    #[test]
    fn what_is_only_read_beside_what_is_written() {
        let mut one = sequence(&[(640, Kind::Atomic), (672, Kind::Load)]);
        assert!(
            of(&[one.clone()]).meetings.is_empty(),
            "members of one structure"
        );
        one.names[1].group = "other".to_owned();
        let account = of(&[one]);
        assert_eq!(account.meetings[0].kind, "read-beside-written");
        assert_eq!(
            account.meetings[0].parts,
            ["written: thing: at 640", "read: other: at 672"]
        );
    }

    #[test]
    fn sessions_parts_that_end_within_a_line() {
        let row = |stride, address| {
            let mut one = sequence(&[(address, Kind::Store)]);
            let own = Own {
                base: 640,
                stride,
                shared_by: None,
            };
            one.names[0].own = Some(own);
            of(&[one])
                .meetings
                .iter()
                .map(|m| m.kind.clone())
                .collect::<Vec<_>>()
        };
        // Of 100 bytes, the second line of 64 holds the end of one and the beginning of the next.
        assert!(row(100, 640).is_empty());
        assert_eq!(row(100, 704), ["neighbours"]);
        assert_eq!(row(8, 640), ["neighbours"]);
        assert!(row(128, 704).is_empty());
    }

    #[test]
    fn memory_without_a_name_has_its_share() {
        let mut one = sequence(&[(640, Kind::Load), (704, Kind::Load)]);
        one.names[1].known = false;
        let account = of(&[one]);
        assert_eq!(account.named_share, 0.5);
        assert_eq!(account.unnamed[0].share, 0.5);
    }
}
