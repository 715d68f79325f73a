//! Questions to the catalogues about a plan. What a question that fails would have shown is not observed, and the reason is
//! kept.

use std::fmt::Display;

use pgassay_pgwire::{QueryError, Session, TransactionStatus};

/// A session that asks, and why something was not observed.
pub(super) struct Catalogues<'a> {
    pub session: &'a mut Session,
    pub not_observed: &'a mut Vec<String>,
}

impl<'a> Catalogues<'a> {
    pub fn new(session: &'a mut Session, not_observed: &'a mut Vec<String>) -> Self {
        Self {
            session,
            not_observed,
        }
    }

    /// The rows of an answer, of `N` columns each; none where it fails. `about` says what is asked about.
    pub fn rows<const N: usize>(&mut self, about: &str, sql: &str) -> Vec<[Option<String>; N]> {
        let answer = self.answer(sql);
        let rows = self.noted(about, answer).into_iter().flatten();
        let rows = rows.map(<[Option<String>; N]>::try_from);
        let rows: Result<Vec<_>, _> = rows.collect();
        let rows = rows.map_err(|row| format!("an answer of {} columns", row.len()));
        self.noted(about, rows).unwrap_or_default()
    }

    /// The value of an answer of one row and column; none where it is NULL, or where the question fails.
    pub fn value(&mut self, about: &str, sql: &str) -> Option<String> {
        let [value] = self.rows(about, sql).into_iter().next()?;
        value
    }

    /// What came well; else the reason is kept.
    pub fn noted<T>(&mut self, about: &str, came: Result<T, impl Display>) -> Option<T> {
        came.map_err(|why| self.not_observed.push(format!("{about}: {why}")))
            .ok()
    }

    /// Asks. In a transaction, a question that fails leaves it as it was.
    fn answer(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, QueryError> {
        let open = self.session.transaction_status() == TransactionStatus::Open;
        if open {
            self.session.execute("SAVEPOINT pgassay_catalogue")?;
        }
        let answer = self.session.catalog_rows(sql);
        if open && answer.is_err() {
            // Where this fails, too, the next question says so.
            let _ = self
                .session
                .execute("ROLLBACK TO SAVEPOINT pgassay_catalogue");
        }
        Ok(answer?.rows)
    }
}
