//! What the sessions of this process that observe have done, to be subtracted from what a server counts.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use pgassay_text::own::OBSERVER;

use super::{Conninfo, QueryError, ResultSet, Session};

/// What observing sessions did in one database of one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnTraffic {
    /// Sessions opened.
    pub sessions: u64,
    /// Transactions that committed, that of each session's start included.
    pub commits: u64,
    /// Transactions that were rolled back.
    pub rollbacks: u64,
}

/// A server as connection strings name it, and a database.
type Database = (String, String);

static DONE: LazyLock<Mutex<BTreeMap<Database, OwnTraffic>>> = LazyLock::new(Mutex::default);

/// The account of one session that observes.
pub(super) struct Own {
    database: Database,
    rolled_back: bool,
}

impl Own {
    /// That of a session that has just begun; none where it does not observe.
    pub fn of(conninfo: &Conninfo, server: &str) -> Option<Self> {
        let observes = conninfo.application_name == OBSERVER;
        let own = observes.then(|| Own {
            database: (server.to_owned(), conninfo.dbname.clone()),
            rolled_back: false,
        })?;
        own.count(|done| {
            done.sessions += 1;
            done.commits += 1;
        });
        Some(own)
    }

    /// Its transaction has failed, or was rolled back as it was asked to be.
    pub fn failed(&mut self) {
        self.rolled_back = true;
    }

    /// Its transaction is over.
    pub fn ended(&mut self) {
        match std::mem::take(&mut self.rolled_back) {
            true => self.count(|done| done.rollbacks += 1),
            false => self.count(|done| done.commits += 1),
        }
    }

    fn count(&self, add: impl FnOnce(&mut OwnTraffic)) {
        let mut all = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        add(all.entry(self.database.clone()).or_default());
    }
}

impl Session {
    /// What all observing sessions have done so far in this one's database; nothing where it does not observe.
    pub fn own_traffic(&self) -> OwnTraffic {
        let Some(own) = &self.own else {
            return OwnTraffic::default();
        };
        let all = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&own.database).copied().unwrap_or_default()
    }

    /// Asks in a transaction of its own that only reads. `before` stands before the question: settings, each with its
    /// semicolon. It ends with COMMIT, so that nobody takes it for a transaction that failed, and from version 15 on the
    /// server counts it at once rather than within a second: it can be subtracted exactly.
    ///
    /// # Errors
    /// What the server says, or why nothing came back.
    pub fn read_only(&mut self, before: &str, sql: &str) -> Result<Vec<ResultSet>, QueryError> {
        let counted = self.count_at_once();
        let answer = self.query(&format!("BEGIN READ ONLY; {before}{sql}; {counted}COMMIT"));
        if matches!(answer, Err(QueryError::Server(_))) {
            let _ = self.execute("ROLLBACK");
        }
        answer
    }

    /// The statement, with its semicolon, that makes the server count at the end of its transaction what this session
    /// has done; nothing before version 15, where there is none. What it returns is a last result.
    pub fn count_at_once(&self) -> &'static str {
        match self.major() {
            Some(15..) => "SELECT pg_catalog.pg_stat_force_next_flush(); ",
            _ => "",
        }
    }
}
