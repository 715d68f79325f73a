//! What becomes of captured rows: `\gset` and `\aset` put them into variables.

use super::client::Client;
use super::wire::Captured;
use super::worker::Worker;
use crate::script::{Capture, Command, Var, valid_name};

impl Worker<'_> {
    /// Goes on from a statement that succeeded, its rows stored.
    pub(super) fn statement_done(&mut self, i: usize, captured: &[Captured]) {
        let shared = self.shared;
        let client = &self.clients[i];
        let command = &shared.program.scripts()[client.script].commands[client.command];
        if let Command::Sql(sql) = command
            && let Some(capture) = &sql.capture
            && let Err(refused) = self.store(i, capture, captured)
        {
            let Client {
                id,
                script,
                command,
                ..
            } = &self.clients[i];
            let place = format!("client {id} script {script} command {command}");
            if let Some(what) = &refused.what {
                self.say_why(what);
            }
            self.say_why(&format!("{place} query {}: {}", refused.query, refused.why));
            let why = refused.what.as_ref().unwrap_or(&refused.why);
            let why = format!("\\{}: {why}", capture.name());
            self.give_up(i, &why);
            return;
        }
        self.command_done(i);
    }

    /// Puts captured rows into variables.
    fn store(
        &mut self,
        i: usize,
        capture: &Capture,
        results: &[Captured],
    ) -> Result<(), NotStored> {
        let symbols = self.shared.program.symbols();
        let (prefix, gset) = match capture {
            Capture::Gset(prefix) => (prefix, true),
            Capture::Aset(prefix) => (prefix, false),
        };
        for (query, result) in results.iter().enumerate() {
            if gset && query + 1 < results.len() {
                continue;
            }
            if gset && (!result.has_rows || result.rows != 1) {
                let why = format!("expected one row, got {}", result.rows);
                let what = None;
                return Err(NotStored { query, what, why });
            }
            if result.rows == 0 {
                continue;
            }
            for (column, value) in result.columns.iter().zip(&result.last_row) {
                let name = format!("{prefix}{column}");
                if !valid_name(&name) {
                    let command = capture.name();
                    let what = Some(format!("{command}: invalid variable name: \"{name}\""));
                    let why = format!("error storing into variable {name}");
                    return Err(NotStored { query, what, why });
                }
                // A name that no script uses needs no storing.
                if let Some(slot) = symbols.find(&name) {
                    // libpq gives NULL as an empty text.
                    let text = value.as_deref().unwrap_or("");
                    self.clients[i].vars[slot as usize] = Var::Text(text.into());
                }
            }
        }
        if gset && results.is_empty() {
            return Err(NotStored {
                query: 0,
                what: None,
                why: "no results".to_owned(),
            });
        }
        Ok(())
    }
}

/// Why rows were not stored.
struct NotStored {
    /// Of which of the statements that were sent together.
    query: usize,
    /// What is said beforehand.
    what: Option<String>,
    why: String,
}
