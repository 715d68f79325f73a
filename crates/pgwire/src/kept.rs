//! Questions that a session asks again and again: the server keeps them prepared, so that it plans them once.

use std::collections::BTreeMap;

use super::{QueryError, ResultSet, Session};

/// What the server keeps for a session.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Names by text.
    names: BTreeMap<String, String>,
    /// Whether an error came of it: a pooler may have given the next transaction another server's session.
    refused: bool,
}

impl Kept {
    /// What asks this: the question itself, once with what prepares it.
    fn text(&mut self, sql: &str) -> String {
        if self.refused {
            return sql.to_owned();
        }
        if let Some(name) = self.names.get(sql) {
            return format!("EXECUTE {name}");
        }
        let name = format!("pgassay_kept_{}", self.names.len());
        let text = format!("PREPARE {name} AS {sql}; EXECUTE {name}");
        self.names.insert(sql.to_owned(), name);
        text
    }
}

impl Session {
    /// Asks one question in a transaction of its own that only reads and is rolled back, so that it is no commit among
    /// those that are counted. `before` stands before it: settings, each with its semicolon. It must be the same each
    /// time.
    ///
    /// # Errors
    /// What the server says, or why nothing came back.
    pub fn ask_again(&mut self, before: &str, sql: &str) -> Result<Vec<ResultSet>, QueryError> {
        let text = self.kept.text(sql);
        let answer = self.rolled_back(before, &text);
        if matches!(answer, Err(QueryError::Server(_))) && !self.kept.refused {
            self.kept.refused = true;
            return self.rolled_back(before, sql);
        }
        answer
    }

    fn rolled_back(&mut self, before: &str, text: &str) -> Result<Vec<ResultSet>, QueryError> {
        let answer = self.query(&format!("BEGIN READ ONLY; {before}{text}; ROLLBACK"));
        if matches!(answer, Err(QueryError::Server(_))) {
            let _ = self.execute("ROLLBACK");
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_prepared_once_and_asked_plainly_after_an_error() {
        let mut kept = Kept::default();
        assert_eq!(
            kept.text("SELECT 1"),
            "PREPARE pgassay_kept_0 AS SELECT 1; EXECUTE pgassay_kept_0"
        );
        assert_eq!(
            kept.text("SELECT 2"),
            "PREPARE pgassay_kept_1 AS SELECT 2; EXECUTE pgassay_kept_1"
        );
        assert_eq!(kept.text("SELECT 1"), "EXECUTE pgassay_kept_0");
        kept.refused = true;
        assert_eq!(kept.text("SELECT 1"), "SELECT 1");
    }
}
