//! Who held what sessions queued for: a look now and then, whenever some session waits for a lock.

use serde::{Deserialize, Serialize};

/// The lock that all who notify take before they commit, whatever their database (async.c).
pub const NOTIFY: &str = "the queue of NOTIFY";

/// What was seen of those that hold others up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockerRecord {
    /// Looks at who holds whom up.
    pub looks: u64,
    /// Those who held others up, by what they did; those most often seen first.
    pub holders: Vec<Holder>,
    /// Why nobody was asked any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// Sessions that held others up while they did the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Holder {
    /// What those behind it waited for: `transactionid`, `tuple`, `relation` …
    pub awaited: String,
    /// What is locked, where its lock names it: `public.job`, or the lock that NOTIFY commits under
    /// ([`NOTIFY`]); empty for rows, and where nothing was seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// Its state as pg_stat_activity has it, or `prepared transaction`.
    pub state: String,
    /// What it waited for itself, `Lock:relation`; empty where it did not wait.
    pub waits_at: String,
    /// Its statement without literals, or the last one of a transaction that is idle.
    pub statement: String,
    /// The strongest lock on a table that it held: `AccessExclusiveLock`; empty for none that keeps
    /// readers or writers away.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// `application_name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub application: String,
    /// Pairs of a session that waits and one that holds it up, summed over the looks.
    pub pairs: u64,
    /// The age of its transaction in seconds, the largest seen; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_s: Option<f64>,
}

impl Holder {
    /// Whether it waits for a lock itself: then it is no root.
    pub fn is_link(&self) -> bool {
        self.waits_at.starts_with("Lock:")
    }

    /// Whether its transaction is open with nothing to do.
    pub fn is_idle(&self) -> bool {
        self.state.starts_with("idle in transaction")
    }

    fn is_same(&self, other: &Self) -> bool {
        let key = |of: &Self| {
            (
                of.awaited.clone(),
                of.object.clone(),
                of.state.clone(),
                of.waits_at.clone(),
                of.statement.clone(),
                of.mode.clone(),
                of.application.clone(),
            )
        };
        key(self) == key(other)
    }
}

/// Holders of one record that are kept.
const KEPT: usize = 50;

impl BlockerRecord {
    /// Takes in what a look showed.
    pub fn add(&mut self, seen: Vec<Holder>) {
        self.looks += 1;
        self.join(seen);
    }

    /// Adds holders of other looks.
    pub fn join(&mut self, seen: Vec<Holder>) {
        for holder in seen {
            let room = self.holders.len() < KEPT;
            match self.holders.iter_mut().find(|known| known.is_same(&holder)) {
                Some(known) => {
                    known.pairs += holder.pairs;
                    known.oldest_s = known
                        .oldest_s
                        .into_iter()
                        .chain(holder.oldest_s)
                        .reduce(f64::max);
                }
                None if room => self.holders.push(holder),
                None => {}
            }
        }
        self.holders
            .sort_by_key(|holder| std::cmp::Reverse(holder.pairs));
    }

    /// Pairs in all.
    pub fn pairs(&self) -> u64 {
        self.holders.iter().map(|holder| holder.pairs).sum()
    }
}
