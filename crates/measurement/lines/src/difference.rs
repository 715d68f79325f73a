//! What lies between the accounts of two servers.

use std::collections::BTreeMap;

use pgassay_report::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use pgassay_report::{Document, Report, Rows, number};
use serde::Serialize;

use crate::account::Account;
use crate::gathered::Counts;

/// The document's schema.
pub const SCHEMA: &str = "pgassay/lines-difference/1";
/// Differences below this many accesses a transaction are not shown.
const SHOWN: f64 = 0.05;
/// Rows of a table.
const ROWS: usize = 30;

/// Two accounts of one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// `pgassay/lines-difference/1`.
    pub schema: String,
    /// Memory by kind, the largest difference in lines taken first.
    pub groups: Vec<Pair>,
    /// Functions, likewise.
    pub takers: Vec<Pair>,
    /// The first account.
    pub a: Account,
    /// The second.
    pub b: Account,
}

/// The same thing in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// What it is.
    pub name: String,
    /// Whether it is the session's own.
    pub own: bool,
    /// Its accesses in A.
    pub a: Counts,
    /// And in B.
    pub b: Counts,
}

impl Pair {
    /// What B takes more than A, a transaction.
    fn more(&self) -> f64 {
        self.b.takes() - self.a.takes()
    }
}

impl Difference {
    /// Holds B against A.
    pub fn of(a: Account, b: Account) -> Self {
        let mut groups = BTreeMap::new();
        let mut takers = BTreeMap::new();
        for (second, account) in [(false, &a), (true, &b)] {
            for group in &account.groups {
                add(
                    &mut groups,
                    (group.name.clone(), group.own),
                    second,
                    &group.counts,
                );
            }
            for taker in &account.takers {
                add(
                    &mut takers,
                    (taker.function.clone(), false),
                    second,
                    &taker.counts,
                );
            }
        }
        Self {
            schema: SCHEMA.to_owned(),
            groups: sorted(groups),
            takers: sorted(takers),
            a,
            b,
        }
    }
}

fn add(
    into: &mut BTreeMap<(String, bool), (Counts, Counts)>,
    key: (String, bool),
    second: bool,
    counts: &Counts,
) {
    let pair = into.entry(key).or_default();
    let side = if second { &mut pair.1 } else { &mut pair.0 };
    side.sum(counts);
}

fn sorted(pairs: BTreeMap<(String, bool), (Counts, Counts)>) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = pairs
        .into_iter()
        .map(|((name, own), (a, b))| Pair { name, own, a, b })
        .collect();
    pairs.sort_by(|x, y| {
        let by_takes = y.more().abs().total_cmp(&x.more().abs());
        let loads = |pair: &Pair| (pair.b.loads - pair.a.loads).abs();
        by_takes.then(loads(y).total_cmp(&loads(x)))
    });
    pairs
}

impl Report for Difference {
    fn document(&self) -> Document {
        let (a, b) = (&self.a, &self.b);
        let sentence = |what: &str, of: &dyn Fn(&Account) -> f64| {
            format!(
                "{what}: {:.1} in A, {:.1} in B ({}).",
                of(a),
                of(b),
                number::signed(of(b) - of(a), 1)
            )
        };
        let mut headline = vec![
            sentence("Atomics a transaction", &|x| x.total.atomics),
            sentence("Cache lines taken a transaction", &|x| x.lines_taken),
            sentence("Accesses to shared memory a transaction", &|x| {
                x.total.all()
            }),
        ];
        if let (Some(x), Some(y)) = (a.transfers.last(), b.transfers.last()) {
            let (x, y) = (&x.per_transaction, &y.per_transaction);
            headline.push(format!(
                "Transfers a transaction at {} sessions, by the model: {:.1} ({:.1} to {:.1}) in A, \
                 {:.1} ({:.1} to {:.1}) in B.",
                a.transfers.last().map_or(0, |last| last.sessions),
                x.estimate, x.low, x.high, y.estimate, y.low, y.high
            ));
        }
        let target = |label: &str, account: &Account| {
            Fact::new(label, &account.target).remark(&account.version)
        };
        let mut facts = vec![target("A", a), target("B", b)];
        for (label, account) in [("doubt about A", a), ("doubt about B", b)] {
            facts.extend(account.doubts.iter().map(|doubt| Fact::new(label, doubt)));
        }
        let recorded = match (a.sessions_in_words(), b.sessions_in_words()) {
            (a, b) if a == b => a,
            (a, b) => format!("{a} of A, {b} of B"),
        };
        let table = |pairs: &[Pair], what: &str, caption: &str| table(pairs, what, caption);
        Document {
            title: format!("{}: shared cache lines of A and B", a.workload),
            provenance: format!(
                "{}; {recorded}, seed {}; pgassay {}",
                a.method,
                a.seed,
                env!("CARGO_PKG_VERSION")
            ),
            alarms: Vec::new(),
            headline,
            sections: vec![
                Section {
                    id: "difference",
                    title: "What differs",
                    depth: Depth::Summary,
                    blocks: vec![
                        Block::Facts(facts),
                        Block::Table(table(
                            &self.groups,
                            "memory",
                            "Memory by kind, in accesses a transaction: atomics and stores take the \
                             line.",
                        )),
                    ],
                },
                Section {
                    id: "functions",
                    title: "Functions that take lines",
                    depth: Depth::Titled,
                    blocks: vec![Block::Table(table(
                        &self.takers,
                        "function",
                        "Functions that write to shared memory, in accesses a transaction.",
                    ))],
                },
            ],
            notes: Notes::default().into_notes(),
            ..Document::default()
        }
    }

    /// One row for each kind of memory.
    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new([
            "memory",
            "own",
            "a_loads",
            "a_stores",
            "a_atomics",
            "b_loads",
            "b_stores",
            "b_atomics",
        ]);
        for pair in &self.groups {
            let mut row = vec![pair.name.clone(), pair.own.to_string()];
            for side in [&pair.a, &pair.b] {
                row.extend([side.loads, side.stores, side.atomics].map(|x| format!("{x:.4}")));
            }
            rows.push(row);
        }
        Some(rows)
    }
}

fn table(pairs: &[Pair], what: &str, caption: &str) -> Table {
    let columns = vec![
        Column::prose(what),
        Column::figures("atomics A", "", 0),
        Column::figures("B", "", 0),
        Column::figures("stores A", "", 1),
        Column::figures("B", "", 1),
        Column::figures("loads A", "", 2),
        Column::figures("B", "", 2),
    ];
    let differs = |pair: &&Pair| {
        let loads = (pair.a.loads - pair.b.loads).abs();
        let atomics = (pair.a.atomics - pair.b.atomics).abs();
        pair.more().abs() >= SHOWN || loads >= SHOWN || atomics >= SHOWN
    };
    let rows = pairs.iter().filter(differs).take(ROWS).map(|pair| {
        let whose = if pair.own { " (the session's)" } else { "" };
        let mut row = vec![Cell::plain(format!("{}{whose}", pair.name))];
        let figures = [
            (pair.a.atomics, pair.b.atomics),
            (
                pair.a.stores + pair.a.kernel_stores,
                pair.b.stores + pair.b.kernel_stores,
            ),
            (pair.a.loads, pair.b.loads),
        ];
        for (a, b) in figures {
            row.extend([a, b].map(|value| Cell::plain(format!("{value:.1}"))));
        }
        row
    });
    Table::new(caption, columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Group, Subject, account};

    #[test]
    fn what_only_one_has_counts_from_nothing() {
        let mut a = account(&[], Subject::default(), Vec::new());
        let mut b = a.clone();
        let group = |name: &str, atomics| Group {
            name: name.to_owned(),
            own: false,
            counts: Counts {
                atomics,
                ..Counts::default()
            },
            lines: 1,
        };
        a.groups = vec![group("descriptor", 4.0), group("LWLock", 2.0)];
        b.groups = vec![
            group("descriptor", 3.0),
            group("new", 5.0),
            group("LWLock", 2.0),
        ];
        let difference = Difference::of(a, b);
        let found: Vec<_> = difference
            .groups
            .iter()
            .map(|p| (p.name.as_str(), p.more()))
            .collect();
        assert_eq!(found, [("new", 5.0), ("descriptor", -1.0), ("LWLock", 0.0)]);
        let text = pgassay_report::markdown(&difference);
        assert!(
            text.contains("descriptor") && !text.contains("| LWLock"),
            "{text}"
        );
    }
}
