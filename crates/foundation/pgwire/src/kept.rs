//! Questions that a session asks again and again: the server keeps them prepared, so that it plans them once.

use std::collections::BTreeMap;

use super::{QueryError, ResultSet, Session};

/// What a session says of a prepared statement that it does not have, has already, or that gives other columns than it did
/// (manual, "PostgreSQL Error Codes").
const REFUSED: &[&str] = &["26000", "42P05", "0A000"];

/// What the server keeps for a session.
#[derive(Debug, Default)]
pub(super) enum Kept {
    /// Nobody has asked anything yet.
    #[default]
    Unasked,
    /// Names by text.
    Keeps(BTreeMap<String, String>),
    /// Nothing: behind a pooler what is prepared would stay in a connection that others are given, and one with such a
    /// name may have gone.
    Nothing,
}

impl Kept {
    /// What asks this: the question itself, or by its name, once with what prepares it.
    fn text(&mut self, sql: &str) -> String {
        let Self::Keeps(names) = self else {
            return sql.to_owned();
        };
        if let Some(name) = names.get(sql) {
            return format!("EXECUTE {name}");
        }
        let name = format!("pgassay_kept_{}", names.len());
        let text = format!("PREPARE {name} AS {sql}; EXECUTE {name}");
        names.insert(sql.to_owned(), name);
        text
    }
}

impl Session {
    /// Asks one question as [`Self::read_only`] does. It must be the same each time.
    ///
    /// # Errors
    /// What the server says, or why nothing came back.
    pub fn ask_again(&mut self, before: &str, sql: &str) -> Result<Vec<ResultSet>, QueryError> {
        if matches!(self.kept, Kept::Unasked) {
            self.kept = match self.is_direct()? {
                true => Kept::Keeps(BTreeMap::new()),
                false => Kept::Nothing,
            };
        }
        let text = self.kept.text(sql);
        let answer = self.read_only(before, &text);
        let state = answer.as_ref().err().and_then(QueryError::sqlstate);
        if matches!(self.kept, Kept::Keeps(_)) && state.is_some_and(|s| REFUSED.contains(&s)) {
            self.kept = Kept::Nothing;
            return self.read_only(before, sql);
        }
        answer
    }

    /// Whether the backend that answers is the one that let us in, and no pooler stands between.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn is_direct(&mut self) -> Result<bool, QueryError> {
        let announced = self.backend_pid().to_string();
        // Two transactions: in between a pooler may turn to another backend.
        for _ in 0..2 {
            let answers = self.read_only("", "SELECT pg_catalog.pg_backend_pid()")?;
            let row = answers
                .into_iter()
                .find_map(|answer| answer.rows.into_iter().next());
            if row.and_then(|row| row.into_iter().next()?) != Some(announced.clone()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_prepared_once_where_the_server_keeps_it() {
        let mut kept = Kept::Keeps(BTreeMap::new());
        assert_eq!(
            kept.text("SELECT 1"),
            "PREPARE pgassay_kept_0 AS SELECT 1; EXECUTE pgassay_kept_0"
        );
        assert_eq!(
            kept.text("SELECT 2"),
            "PREPARE pgassay_kept_1 AS SELECT 2; EXECUTE pgassay_kept_1"
        );
        assert_eq!(kept.text("SELECT 1"), "EXECUTE pgassay_kept_0");
        assert_eq!(Kept::Nothing.text("SELECT 1"), "SELECT 1");
    }
}
