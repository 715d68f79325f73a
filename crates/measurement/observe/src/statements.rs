//! Statements that sessions were seen in: told apart by their text without literals, whatever
//! the server tells of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pgassay_model::observed::statements::{SeenStatement, StatementRecord};
use pgassay_model::observed::waits::WaitKey;

use pgassay_text::normalise::{Normalised, normalise};

/// Statements of a window that are kept.
const KEPT: usize = 60;
/// Different statements that are told apart; a session that never sends the same twice has no end
/// of them.
const TOLD_APART: usize = 2000;
/// Texts that are asked for at a time.
const ASKED: usize = 20;

/// What a session was in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `query_id`, where the server computes it.
    pub number: Option<i64>,
    /// The text, where there is no number.
    pub text: Option<String>,
    /// The database's oid.
    pub database: Option<u32>,
    /// The role's oid.
    pub role: Option<u32>,
}

/// A statement as somebody sent it. Never written down: it has its literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The text, as far as the server keeps it.
    pub sql: String,
    /// What it is without literals.
    pub normalised: Normalised,
    /// The database's oid.
    pub database: Option<u32>,
    /// The role's oid.
    pub role: Option<u32>,
}

/// The statements of a window, and what is known of statements of earlier ones.
#[derive(Debug, Default)]
pub struct Sightings {
    looks: u64,
    others: u64,
    seen: BTreeMap<String, SeenStatement>,
    /// Which statement a number is; none while its text is not known.
    numbers: HashMap<i64, Option<String>>,
    examples: HashMap<String, Example>,
    /// The role whose examples are kept where others sent the same statement.
    preferred: Option<u32>,
}

impl Sightings {
    /// A window begins.
    pub fn begin(&mut self) {
        self.looks = 0;
        self.others = 0;
        self.seen.clear();
    }

    /// A look at all sessions.
    pub fn look(&mut self, within: Vec<(Origin, WaitKey, u32)>) {
        self.looks += 1;
        for (origin, key, count) in within {
            let count = u64::from(count);
            let Some((id, number)) = self.id_of(origin) else {
                self.others += count;
                continue;
            };
            if self.seen.len() >= TOLD_APART && !self.seen.contains_key(&id) {
                self.others += count;
                continue;
            }
            let statement = self.seen.entry(id).or_default();
            if let Some(number) = number
                && !statement.query_ids.contains(&number)
            {
                statement.query_ids.push(number);
            }
            statement.add(&key.kind, &key.event, count);
        }
    }

    /// Which statement it is, and its number.
    fn id_of(&mut self, origin: Origin) -> Option<(String, Option<i64>)> {
        if let Some(number) = origin.number {
            let room = self.numbers.len() < TOLD_APART;
            let known = match self.numbers.get(&number) {
                Some(known) => known.clone(),
                None if room => {
                    self.numbers.insert(number, None);
                    None
                }
                None => return None,
            };
            return Some((known.unwrap_or_else(|| unnamed(number)), Some(number)));
        }
        let sql = origin.text?;
        let normalised = normalise(&sql);
        let id = normalised.id.clone();
        self.keep(Example {
            sql,
            normalised,
            database: origin.database,
            role: origin.role,
        });
        Some((id, None))
    }

    fn keep(&mut self, example: Example) {
        let id = example.normalised.id.clone();
        let replaces = match self.examples.get(&id) {
            Some(kept) => kept.role != self.preferred && example.role == self.preferred,
            None => self.examples.len() < TOLD_APART,
        };
        if replaces {
            self.examples.insert(id, example);
        }
    }

    /// Sets the role (an OID) whose examples are kept where others sent the same statement: only these are planned.
    pub fn prefer(&mut self, role: Option<u32>) {
        self.preferred = role;
    }

    /// The role whose examples are kept.
    pub fn preferred(&self) -> Option<u32> {
        self.preferred
    }

    /// Numbers whose texts are not known yet.
    pub fn unknown(&self) -> Vec<i64> {
        let unknown = self.numbers.iter().filter(|(_, known)| known.is_none());
        unknown.map(|(number, _)| *number).take(ASKED).collect()
    }

    /// The text of a number.
    pub fn learn(&mut self, number: i64, sql: &str, database: Option<u32>, role: Option<u32>) {
        let normalised = normalise(sql);
        let id = normalised.id.clone();
        self.keep(Example {
            sql: sql.to_owned(),
            normalised,
            database,
            role,
        });
        self.numbers.insert(number, Some(id.clone()));
        // What was seen of it before goes by its text, too.
        if let Some(before) = self.seen.remove(&unnamed(number)) {
            let statement = self.seen.entry(id).or_default();
            for at in &before.at {
                statement.add(&at.kind, &at.event, at.count);
            }
            let numbers: BTreeSet<i64> = std::mem::take(&mut statement.query_ids)
                .into_iter()
                .chain(before.query_ids)
                .collect();
            statement.query_ids = numbers.into_iter().collect();
        }
    }

    /// A statement as somebody sent it.
    pub fn example(&self, id: &str) -> Option<&Example> {
        self.examples.get(id)
    }

    /// The window is over: what was seen in it, the most first.
    pub fn end(&mut self) -> StatementRecord {
        let mut statements: Vec<SeenStatement> = std::mem::take(&mut self.seen)
            .into_iter()
            .map(|(id, mut statement)| {
                if let Some(example) = self.examples.get(&id) {
                    statement.text.clone_from(&example.normalised.text);
                }
                statement.id = id;
                statement
            })
            .collect();
        statements.sort_by(|a, b| b.sightings().cmp(&a.sightings()).then(a.id.cmp(&b.id)));
        let beyond = statements.split_off(statements.len().min(KEPT));
        self.others += beyond.iter().map(SeenStatement::sightings).sum::<u64>();
        StatementRecord {
            looks: self.looks,
            statements,
            others: self.others,
        }
    }
}

/// What stands for the id of a statement whose text is not known.
fn unnamed(number: i64) -> String {
    format!("query_id {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(event: &str) -> WaitKey {
        WaitKey {
            backend: "client backend".into(),
            state: "active".into(),
            kind: if event.is_empty() { "" } else { "IO" }.into(),
            event: event.into(),
        }
    }

    fn origin(number: Option<i64>, text: Option<&str>) -> Origin {
        Origin {
            number,
            text: text.map(str::to_owned),
            database: Some(5),
            role: Some(10),
        }
    }

    #[test]
    fn statements_are_the_same_by_number_and_by_text() {
        let mut sightings = Sightings::default();
        sightings.begin();
        sightings.look(vec![
            (origin(Some(-3), None), key(""), 2),
            (origin(None, Some("SELECT 17")), key("WALSync"), 1),
        ]);
        assert_eq!(sightings.unknown(), [-3]);
        sightings.learn(-3, "select 4", Some(5), Some(10));
        assert!(sightings.unknown().is_empty());
        sightings.look(vec![(origin(Some(-3), None), key(""), 1)]);
        let record = sightings.end();
        assert_eq!((record.looks, record.others), (2, 0));
        let [one] = record.statements.as_slice() else {
            panic!("{record:?}");
        };
        assert_eq!((one.sightings(), one.query_ids.as_slice()), (4, &[-3][..]));
        assert!(one.text.eq_ignore_ascii_case("select $1"), "{one:?}");
        assert!(!format!("{record:?}").contains("17"), "{record:?}");
        assert_eq!(sightings.example(&one.id).unwrap().database, Some(5));
        // A window later its text is still known.
        sightings.begin();
        sightings.look(vec![(origin(Some(-3), None), key(""), 1)]);
        assert_eq!(sightings.end().statements[0].id, one.id);
    }

    #[test]
    fn no_end_of_statements_is_kept() {
        let mut sightings = Sightings::default();
        sightings.begin();
        for i in 0..3000 {
            let text = format!("SELECT a{i}");
            sightings.look(vec![(origin(None, Some(&text)), key(""), 1)]);
        }
        let record = sightings.end();
        assert_eq!(record.statements.len(), KEPT);
        assert_eq!(record.others, 3000 - KEPT as u64);
    }
}
