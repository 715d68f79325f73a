//! Transactions of the same statements counted, with a sample of the values that they had together.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::template::{Seen, Template};

/// Most kinds of transactions that are told apart.
const MOST_KINDS: usize = 20_000;
/// Bytes of memory for the values that are kept of all kinds together.
const MOST_BYTES: usize = 512 << 20;
/// Bytes of a row beside its values.
const ROW: usize = size_of::<Vec<Seen>>() + 16;

/// A statement with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The statement.
    pub template: Template,
    /// Its values, by variable.
    pub values: Vec<Seen>,
    /// It came by the extended protocol.
    pub prepared: bool,
}

impl Step {
    /// A statement without values: BEGIN, COMMIT.
    pub fn plain(text: String) -> Self {
        Self {
            template: Template::plain(text),
            values: Vec::new(),
            prepared: false,
        }
    }

    /// Whether it is more than the begin or end of a transaction.
    pub fn is_work(&self) -> bool {
        !matches!(
            self.template.words().next().as_deref(),
            Some("begin" | "start" | "commit" | "end")
        )
    }
}

/// A transaction as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// Its statements, BEGIN and COMMIT among them if they were sent.
    pub steps: Vec<Step>,
    /// Microseconds in the server.
    pub took_us: u64,
    /// Microseconds between the transaction before it in its session and its begin.
    pub think_us: Option<u64>,
}

/// Transactions of one kind.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Their statements.
    pub steps: Vec<Template>,
    /// How many statements came by the extended protocol.
    pub prepared: u64,
    /// How many of them there were.
    pub count: u64,
    /// Microseconds of all of them in the server.
    pub took_us: u64,
    /// Values of some of them, all statements' values of a transaction side by side.
    pub rows: Vec<Vec<Seen>>,
    thinks: u64,
    thought_us: f64,
}

impl Entry {
    /// The mean time between the transaction before and this one, in microseconds.
    pub fn mean_think_us(&self) -> Option<f64> {
        (self.thinks > 0).then(|| self.thought_us / self.thinks as f64)
    }

    /// Its statements with the values of a row in their texts.
    pub fn filled(&self, row: &[Seen]) -> Option<Vec<Template>> {
        let mut rest = row;
        let mut filled = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let (own, others) = rest.split_at_checked(step.variables())?;
            filled.push(step.filled(own)?);
            rest = others;
        }
        Some(filled)
    }

    /// Statements beside BEGIN and COMMIT.
    pub fn work(&self) -> usize {
        let plain = |template: &&Template| {
            !matches!(
                template.words().next().as_deref(),
                Some("begin" | "start" | "commit" | "end")
            )
        };
        self.steps.iter().filter(plain).count()
    }
}

/// All kinds of transactions.
#[derive(Debug)]
pub struct Mix {
    places: HashMap<Vec<Template>, usize>,
    entries: Vec<Entry>,
    samples: usize,
    most_bytes: usize,
    bytes: usize,
    random: Xoshiro256PlusPlus,
}

impl Mix {
    /// None yet; of each kind the values of at most so many transactions are kept.
    pub fn new(seed: u64, samples: usize) -> Self {
        Self {
            places: HashMap::new(),
            entries: Vec::new(),
            samples: samples.max(1),
            most_bytes: MOST_BYTES,
            bytes: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Adds a transaction; the place of its kind, or none where there are too many kinds already.
    pub fn add(&mut self, transaction: Transaction) -> Option<usize> {
        let Transaction {
            steps,
            took_us,
            think_us,
        } = transaction;
        let prepared = steps.iter().filter(|step| step.prepared).count() as u64;
        let (templates, values): (Vec<Template>, Vec<Vec<Seen>>) = steps
            .into_iter()
            .map(|step| (step.template, step.values))
            .unzip();
        let place = match self.places.get(&templates) {
            Some(place) => *place,
            None if self.entries.len() == MOST_KINDS => return None,
            None => {
                self.entries.push(Entry {
                    steps: templates.clone(),
                    prepared: 0,
                    count: 0,
                    took_us: 0,
                    rows: Vec::new(),
                    thinks: 0,
                    thought_us: 0.0,
                });
                self.places.insert(templates, self.entries.len() - 1);
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[place];
        entry.count += 1;
        entry.prepared += prepared;
        entry.took_us += took_us;
        if let Some(think) = think_us {
            entry.thinks += 1;
            entry.thought_us += think as f64;
        }
        let mut row: Vec<Seen> = values.into_iter().flatten().collect();
        row.shrink_to_fit();
        if row.is_empty() {
            return Some(place);
        }
        // A sample without replacement of a stream of unknown length (Vitter's algorithm R).
        let full = entry.rows.len() >= self.samples
            || (self.bytes > self.most_bytes && !entry.rows.is_empty());
        let bytes = |row: &[Seen]| ROW + row.iter().map(Seen::bytes).sum::<usize>();
        let size = bytes(&row);
        if !full {
            self.bytes += size;
            entry.rows.push(row);
        } else {
            let at = self.random.random_range(0..entry.count) as usize;
            if let Some(there) = entry.rows.get_mut(at) {
                self.bytes = self.bytes + size - bytes(there);
                *there = row;
            }
        }
        Some(place)
    }

    /// The kinds, in the order in which they were first seen.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The kinds themselves, for there is not room for their values twice; afterwards there are none.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        self.places.clear();
        self.bytes = 0;
        std::mem::take(&mut self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_take_the_memory_that_they_take() {
        let mut mix = Mix::new(1, 1000);
        mix.most_bytes = 100_000;
        for n in 0..20_000_u32 {
            let step = Step {
                template: Template::plain(format!("SELECT {}", n % 50)),
                values: vec![Seen::Number("7".to_owned()), Seen::Text("ab".to_owned())],
                prepared: false,
            };
            mix.add(Transaction {
                steps: vec![step],
                took_us: 1,
                think_us: None,
            });
        }
        let kept = |entry: &Entry| entry.rows.len();
        // A row takes at least three allocations of 24 bytes and their three descriptions of as many.
        let rows: usize = mix.entries().iter().map(kept).sum();
        assert!(rows * 144 <= 110_000, "{rows}");
        assert!(mix.entries().iter().all(|entry| kept(entry) > 0));
        assert_eq!(
            mix.entries().iter().map(|entry| entry.count).sum::<u64>(),
            20_000
        );
    }
}
