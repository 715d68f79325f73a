//! What follows from failures: another try, the next transaction, or the client's end; and what is
//! said of it.

use super::client::{Client, Phase, Prepared, Wait};
use super::encode::{self, Protocol};
use super::failure::Failure;
use super::options::OnError;
use super::wire::{Keep, TxStatus};
use super::worker::Worker;
use crate::script::{Command, Sql};

impl Worker<'_> {
    /// The text that a statement's failure points into, where it is known.
    pub(super) fn sent_text(&self, i: usize, sql: &Sql) -> Option<String> {
        match self.shared.options.protocol {
            Protocol::Simple => {
                let mut text = Vec::new();
                encode::substitute(sql, &self.clients[i].vars, &mut text);
                Some(String::from_utf8_lossy(&text).into_owned())
            }
            Protocol::Prepared if self.shared.options.prepare_apart => None,
            Protocol::Extended | Protocol::Prepared => Some(sql.parametrized.clone()),
        }
    }

    /// All that the server said about the failure of the command at which the client is.
    pub(super) fn failure_in_full(&self, i: usize, failure: &Failure) -> String {
        let Client {
            script, command, ..
        } = self.clients[i];
        let commands = &self.shared.program.scripts()[script].commands;
        let statement = match commands.get(command) {
            Some(Command::Sql(sql)) => self.sent_text(i, sql),
            _ => None, // a pipeline
        };
        failure.in_full(statement.as_deref())
    }

    /// A statement or a pipeline failed, after `query` of its statements had ended.
    pub(super) fn failed(&mut self, i: usize, failure: &Failure, query: u32) {
        let now = self.now();
        let options = &self.shared.options;
        let client = &mut self.clients[i];
        if !options.prepare_apart {
            for prepared in &mut client.prepared {
                *prepared = match *prepared {
                    Prepared::No => Prepared::No,
                    // Only what was sent in this exchange is in doubt, but the rest loses little.
                    _ => Prepared::Unknown,
                };
            }
        }
        client.in_pipeline = false;
        let repeatable = matches!(failure.code(), "40001" | "40P01");
        let tries_left = options.max_tries == 0 || client.tries < options.max_tries;
        let in_time = options
            .latency_limit
            .is_none_or(|limit| now.saturating_sub(client.intended) <= limit.as_nanos() as u64);
        let retry = repeatable && tries_left && in_time && !self.is_over();
        let Client {
            id,
            script,
            command,
            ..
        } = self.clients[i];
        self.tally.command_failure(script, command, retry);
        let stops = !repeatable && options.on_error == OnError::Abort;
        if options.says.failures && !stops {
            let error = self.failure_in_full(i, failure);
            self.say(&format!(
                "client {id} got an error in command {command} (SQL) of script {script}; {error}"
            ));
        }
        if !retry {
            let program = &self.shared.program;
            self.count_failure(i, failure.code(), || {
                format!("{}: {failure}", program.scripts()[script].place(command))
            });
            if stops {
                let error = self.failure_in_full(i, failure);
                self.say_why(&format!(
                    "client {id} script {script} aborted in command {command} query {query}: {error}"
                ));
                self.remove(i, &failure.to_string());
                return;
            }
        }
        if self.clients[i].status == TxStatus::Idle {
            self.after_failure(i, retry);
        } else {
            self.rollback(i, retry);
        }
    }

    /// Leaves the transaction block of a failed transaction.
    pub(super) fn rollback(&mut self, i: usize, retry: bool) {
        match postgres_protocol::message::frontend::query("ROLLBACK", &mut self.out) {
            Ok(()) => {
                self.clients[i].wire.expect(Keep::Nothing);
                self.clients[i].phase = Phase::Waiting(Wait::Rollback { retry });
            }
            Err(error) => self.remove(i, &error.to_string()),
        }
    }

    pub(super) fn after_failure(&mut self, i: usize, retry: bool) {
        let now = self.now();
        if self.shared.options.says.failures {
            self.say(&self.what_becomes(i, retry, now));
        }
        let client = &mut self.clients[i];
        if retry {
            client.tries += 1;
            client.random = client.random_at_begin.clone();
            client.command = 0;
            client.command_started = now;
            client.phase = Phase::Command;
        } else {
            client.done += 1;
            client.phase = Phase::Next;
            if self.shared.options.reconnect {
                client.detach();
            }
        }
    }

    /// What becomes of a failed transaction, in pgbench's words.
    fn what_becomes(&self, i: usize, retry: bool, now: u64) -> String {
        let options = &self.shared.options;
        let Client {
            id,
            tries,
            intended,
            ..
        } = self.clients[i];
        let next = match retry {
            true => "repeats the transaction after the error",
            false => "ends the failed transaction",
        };
        let most = match options.max_tries {
            0 => String::new(),
            most => format!("/{most}"),
        };
        let used = options.latency_limit.map_or(String::new(), |limit| {
            let share = 100.0 * now.saturating_sub(intended) as f64 / limit.as_nanos() as f64;
            format!(", {share:.3}% of the maximum time of tries was used")
        });
        format!("client {id} {next} (try {tries}{most}{used})")
    }

    /// Stops the client at the end of its script; pgbench counts a transaction whose block is open.
    pub(super) fn end_early(&mut self, i: usize, why: &str, counts: bool) {
        self.say_why(&format!("client {} aborted: {why}", self.clients[i].id));
        if counts {
            self.count_success(i);
            let why = format!("{}: {why}", self.place(i));
            self.stop_in_script(i, &why);
        } else {
            self.give_up(i, why);
        }
    }

    /// Stops the client in the command `name`: its script can't go on. `what` is said before it.
    pub(super) fn abort(&mut self, i: usize, name: &str, what: Option<&str>, why: &str) {
        if let Some(what) = what {
            self.say_why(what);
        }
        let Client {
            id,
            script,
            command,
            ..
        } = self.clients[i];
        self.say_why(&format!(
            "client {id} aborted in command {command} ({name}) of script {script}; {why}"
        ));
        match what {
            Some(what) => self.give_up(i, what),
            None => self.give_up(i, why),
        }
    }

    /// Stops the client, whose script can't go on.
    pub(super) fn give_up(&mut self, i: usize, why: &str) {
        let why = format!("{}: {why}", self.place(i));
        self.count_failure(i, "script", || why.clone());
        self.stop_in_script(i, &why);
    }

    /// The command at which the client is: script, line and text. The listener's words have pgbench's numbers in its
    /// place.
    fn place(&self, i: usize) -> String {
        let Client {
            script, command, ..
        } = self.clients[i];
        self.shared.program.scripts()[script].place(command)
    }
}
