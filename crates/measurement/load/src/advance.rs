//! How a client goes on: the script's interpreter, and what follows from answers.

use std::time::Duration;

use super::client::{self, Phase, Prepared, Wait};
use super::encode::{self, Protocol};
use super::failure::Failure;
use super::wire::{Exchange, Keep, TxStatus};
use super::worker::Worker;
use crate::script::{Command, Var};

impl Worker<'_> {
    /// Lets a client run until it has to wait for something.
    pub(super) fn drive(&mut self, i: usize) {
        let mut rounds = 0;
        loop {
            match self.clients[i].phase {
                Phase::Next => {
                    // A script that never waits for the server must not keep the thread from the
                    // others.
                    rounds += 1;
                    if rounds > 1 {
                        self.forget_now();
                        let now = self.now();
                        self.wake_later(i, now, Phase::Next);
                        return;
                    }
                    self.choose_next(i);
                }
                Phase::Begin => self.begin_transaction(i),
                Phase::Command => self.run_command(i),
                Phase::Scheduled
                | Phase::Sleeping
                | Phase::Pausing
                | Phase::Resting
                | Phase::Waiting(_)
                | Phase::Parked
                | Phase::Gone => return,
            }
        }
    }

    /// Chooses the next transaction and its start.
    fn choose_next(&mut self, i: usize) {
        let now = self.now();
        if self.is_over() || self.has_done_its_share(i) {
            self.park(i);
            return;
        }
        let shared = self.shared;
        if let Some(replayer) = &shared.replayer {
            self.choose_recorded(i, replayer);
            return;
        }
        let only = self.clients[i].role.only;
        let script = only.unwrap_or_else(|| {
            let choose = self.clients[i].choose.as_mut().unwrap_or(&mut self.choose);
            self.shared.program.choose(choose)
        });
        self.clients[i].script = script;
        self.step(i, || {
            let name = &self.shared.program.scripts()[script].name;
            format!("executing script \"{name}\"")
        });
        let limit = self
            .shared
            .options
            .latency_limit
            .map(|limit| limit.as_nanos() as u64);
        self.drop_backlog(now);
        let start = loop {
            let keeps_to_none = self.starts.is_none() || only.is_some();
            if keeps_to_none && !self.shared.options.pauses.is_empty() {
                break self.after_pause(i, script, now);
            }
            let Some(starts) = self.starts.as_mut().filter(|_| only.is_none()) else {
                self.clients[i].phase = Phase::Begin;
                return;
            };
            let start = starts.next();
            if limit.is_none_or(|limit| start >= now.saturating_sub(limit)) {
                break start;
            }
            self.clients[i].done += 1;
            self.count_skip(i, start);
            if self.has_done_its_share(i) || start >= self.control.planned_end {
                self.park(i);
                return;
            }
        };
        if start >= self.control.planned_end {
            self.park(i);
            return;
        }
        self.clients[i].intended = start;
        if start > now {
            self.wake_later(i, start, Phase::Scheduled);
        } else {
            self.clients[i].phase = Phase::Begin;
        }
    }

    /// When a person has thought about the last transaction and typed the next one. Before the first
    /// of a slice a part of the typing is over, so that clients do not begin all at once.
    fn after_pause(&mut self, i: usize, script: usize, now: u64) -> u64 {
        let pauses = &self.shared.options.pauses;
        let of = |script: usize| pauses.get(script).copied().unwrap_or_default();
        let nanos = |time: Duration| time.as_nanos() as u64;
        let client = &mut self.clients[i];
        let keying = nanos(of(script).keying);
        let keying = match client.done {
            0 => (keying as f64 * client.random.unit()) as u64,
            _ => keying,
        };
        let last = client.thinks_about.replace(script).unwrap_or(script);
        let mean = nanos(of(last).thinking);
        let thinking = client.random.poisson_gap(mean as f64).max(0) as u64;
        now + keying + thinking.min(10 * mean)
    }

    fn begin_transaction(&mut self, i: usize) {
        if self.is_over() {
            if self.is_paced() && self.clients[i].role.only.is_none() {
                self.tally.result.behind += 1;
            }
            self.park(i);
            return;
        }
        let mut begun = self.now();
        if self.clients[i].transport.is_none() {
            if !self.reconnect(i) {
                return;
            }
            if self.shared.options.timed_once_connected {
                begun = self.now();
            }
        }
        let now = self.now();
        let keeps_to_schedule = self.starts.is_some() && self.clients[i].role.only.is_none();
        let scheduled = keeps_to_schedule
            || self.replayer().is_some()
            || !self.shared.options.pauses.is_empty();
        let client = &mut self.clients[i];
        // Who connects for a transaction waits for it as for any part of it.
        client.started = begun;
        if !scheduled {
            client.intended = begun;
        }
        client.tries = 1;
        client.random_at_begin = client.random.clone();
        if let Some(begun) = client.begun.get_mut(client.script) {
            *begun += 1;
        }
        client.command = 0;
        client.command_started = now;
        client.phase = Phase::Command;
    }

    /// Connects for one transaction; the thread waits for it, as pgbench's does.
    fn reconnect(&mut self, i: usize) -> bool {
        let before = self.shared.now();
        let outcome = client::connect(&self.shared.connector).and_then(|connection| {
            self.clients[i]
                .attach(connection)
                .map_err(|error| error.to_string())
        });
        let outcome = outcome.and_then(|()| self.watch(i).map_err(|error| error.to_string()));
        self.forget_now();
        match outcome {
            Ok(()) => {
                let took = self.now().saturating_sub(before);
                self.tally.result.connects.record(took);
                // Every transaction is its connection's first: none of them is apart.
                self.clients[i].fresh = false;
                true
            }
            Err(reason) => {
                self.say_why(&reason);
                let id = self.clients[i].id;
                self.say_why(&format!(
                    "client {id} aborted while establishing connection"
                ));
                self.lose(i, &reason);
                false
            }
        }
    }

    /// Runs the command at which the client is, or ends its transaction.
    fn run_command(&mut self, i: usize) {
        let shared = self.shared;
        let script = self.clients[i].script;
        let at = self.clients[i].command;
        let Some(command) = shared.program.scripts()[script].commands.get(at) else {
            self.end_of_script(i);
            return;
        };
        if self.pauses(i) {
            return;
        }
        if self.tally.per_command() {
            if let Some(journal) = &mut self.journal {
                journal.command_begins();
            }
            let now = self.now();
            self.clients[i].command_started = now;
        }
        if !matches!(command, Command::Sql(_)) {
            self.step(i, || {
                let line = &shared.program.scripts()[script].lines[at];
                format!("executing {}", told(command, line))
            });
        }
        self.execute(i);
    }

    /// Runs the command at which the client is, of which the preparations may have been made.
    fn execute(&mut self, i: usize) {
        let shared = self.shared;
        let (script, at) = (self.clients[i].script, self.clients[i].command);
        let Some(command) = shared.program.scripts()[script].commands.get(at) else {
            return; // it was there when it was begun
        };
        match command {
            Command::Sql(sql) => {
                if self.clients[i].in_pipeline
                    && let Some(capture) = &sql.capture
                {
                    let name = capture.name();
                    let why = format!("\\{name} is not allowed in pipeline mode");
                    self.abort(i, name, None, &why);
                    return;
                }
                if !self.clients[i].in_pipeline && self.prepare(i, script, at) {
                    return;
                }
                self.step(i, || {
                    let sending = match shared.options.protocol {
                        Protocol::Prepared => shared.names[script][at].name.clone(),
                        _ => self.sent_text(i, sql).unwrap_or_default(),
                    };
                    format!("sending {sending}")
                });
                if let Err(error) = self.statement(i, script, at) {
                    self.abort(
                        i,
                        "SQL",
                        None,
                        &format!("the statement can't be sent: {error}"),
                    );
                    return;
                }
                let client = &mut self.clients[i];
                if client.in_pipeline {
                    self.command_done(i);
                } else {
                    let keep = match (&sql.capture, sql.is_several) {
                        (Some(_), _) => Keep::Rows,
                        (None, true) => Keep::Count,
                        (None, false) => Keep::Nothing,
                    };
                    client.wire.expect(keep);
                    client.phase = Phase::Waiting(Wait::Statement);
                }
            }
            Command::SetMisnamed(name, expr) => {
                if self.evaluate(i, expr).is_some() {
                    let what = format!("set: invalid variable name: \"{name}\"");
                    self.abort(i, "set", Some(&what), "assignment of meta-command failed");
                }
            }
            Command::Set(slot, expr) => {
                let evaluated = self.evaluate(i, expr);
                if let Some(value) = evaluated {
                    self.clients[i].vars[*slot as usize] = Var::Value(value);
                    self.command_done(i);
                }
            }
            Command::Draw(draw) => {
                let simple = shared.options.protocol == Protocol::Simple;
                self.draw(i, draw, simple);
                self.command_done(i);
            }
            Command::Sleep(time) => {
                let Some(micros) = self.sleep_time(i, time) else {
                    return;
                };
                self.forget_now();
                let until = self.now().saturating_add(micros.max(0) as u64 * 1000);
                self.wake_later(i, until, Phase::Sleeping);
            }
            Command::SetShell(slot, words) => self.shell(i, words, Some(*slot)),
            Command::Shell(words) => self.shell(i, words, None),
            Command::If {
                condition,
                otherwise,
            } => self.test(i, condition, *otherwise),
            // Reached from above, the conditional is over.
            Command::Elif { end, .. } | Command::Else { end } => {
                self.clients[i].command = *end + 1;
            }
            Command::Endif => self.command_done(i),
            Command::StartPipeline => {
                let name = command.name();
                if shared.options.protocol == Protocol::Simple {
                    let why = "cannot use pipeline mode with the simple query protocol";
                    self.abort(i, name, None, why);
                } else if self.clients[i].in_pipeline {
                    self.abort(i, name, None, "already in pipeline mode");
                } else if !self.prepare_pipeline(i, script, at) {
                    self.clients[i].in_pipeline = true;
                    self.command_done(i);
                }
            }
            Command::SyncPipeline => {
                if self.clients[i].in_pipeline {
                    self.sync(i);
                    self.command_done(i);
                } else {
                    self.abort(i, command.name(), None, "not in pipeline mode");
                }
            }
            Command::EndPipeline => {
                if self.clients[i].in_pipeline {
                    self.sync(i);
                    self.clients[i].phase = Phase::Waiting(Wait::Pipeline);
                } else {
                    self.abort(i, command.name(), None, "not in pipeline mode");
                }
            }
        }
    }

    /// Prepares a statement in an exchange of its own, where that is wanted and not done yet; true
    /// if the client waits for it.
    fn prepare(&mut self, i: usize, script: usize, at: usize) -> bool {
        let shared = self.shared;
        if !shared.options.prepare_apart || shared.options.protocol != Protocol::Prepared {
            return false;
        }
        let Command::Sql(sql) = &shared.program.scripts()[script].commands[at] else {
            return false;
        };
        let statement = &shared.names[script][at];
        let prepared = self.clients[i].prepared_at(statement.index);
        match *prepared {
            Prepared::Yes => return false,
            Prepared::Failed => {
                *prepared = Prepared::No;
                return false;
            }
            Prepared::No | Prepared::Unknown => {}
        }
        self.step(i, || format!("preparing {}", statement.name));
        if let Err(error) = encode::parse(&statement.name, sql, &mut self.out) {
            self.abort(
                i,
                "SQL",
                None,
                &format!("the statement can't be sent: {error}"),
            );
            return true;
        }
        self.sync(i);
        self.clients[i].phase = Phase::Waiting(Wait::Prepare { at });
        true
    }

    /// The same for the statements of a pipeline, one after the other, before it begins.
    fn prepare_pipeline(&mut self, i: usize, script: usize, at: usize) -> bool {
        let shared = self.shared;
        let commands = &shared.program.scripts()[script].commands;
        for (place, command) in commands.iter().enumerate().skip(at + 1) {
            match command {
                Command::EndPipeline => break,
                Command::Sql(_) if self.prepare(i, script, place) => return true,
                _ => {}
            }
        }
        false
    }

    /// A statement was prepared, or was not.
    fn prepared(&mut self, i: usize, at: usize, failure: Option<Box<Failure>>) {
        let shared = self.shared;
        let script = self.clients[i].script;
        let index = shared.names[script][at].index;
        let outcome = match &failure {
            None => Prepared::Yes,
            Some(_) => Prepared::Failed,
        };
        *self.clients[i].prepared_at(index) = outcome;
        if let Some(failure) = failure
            && let Command::Sql(sql) = &shared.program.scripts()[script].commands[at]
        {
            // As in pgbench, it is the execution that fails the transaction.
            self.say_why(&failure.in_full(Some(&sql.parametrized)));
        }
        self.execute(i);
    }

    pub(super) fn command_done(&mut self, i: usize) {
        if self.tally.per_command() {
            self.forget_now();
            let now = self.now();
            let client = &self.clients[i];
            let took = now.saturating_sub(client.command_started);
            self.tally.command(client.script, client.command, took);
            if let Some(journal) = &mut self.journal {
                journal.command_ended(client.script, client.command);
            }
        }
        self.clients[i].command += 1;
        self.clients[i].phase = Phase::Command;
    }

    /// Writes a statement's messages.
    fn statement(&mut self, i: usize, script: usize, at: usize) -> std::io::Result<()> {
        let shared = self.shared;
        let client = &mut self.clients[i];
        let Command::Sql(sql) = &shared.program.scripts()[script].commands[at] else {
            return Ok(());
        };
        let out = &mut self.out;
        match shared.options.protocol {
            Protocol::Simple => {
                return encode::simple(sql, &client.vars, &mut self.text, out);
            }
            Protocol::Extended => {
                encode::parse("", sql, out)?;
                let run = &shared.names[script][at].run;
                run.write(&sql.params, &client.vars, out)?;
            }
            Protocol::Prepared => {
                let statement = &shared.names[script][at];
                let place = statement.index;
                let prepared = client.prepared_at(place);
                if *prepared != Prepared::Yes && !shared.options.prepare_apart {
                    if *prepared == Prepared::Unknown {
                        encode::close(&statement.name, out)?;
                    }
                    encode::parse(&statement.name, sql, out)?;
                    *prepared = Prepared::Yes;
                }
                statement.run.write(&sql.params, &client.vars, out)?;
            }
        }
        if !client.in_pipeline {
            postgres_protocol::message::frontend::sync(out);
        }
        Ok(())
    }

    fn sync(&mut self, i: usize) {
        postgres_protocol::message::frontend::sync(&mut self.out);
        self.clients[i].wire.expect(Keep::Nothing);
    }

    /// An exchange with the server has ended.
    pub(super) fn answered(&mut self, i: usize, exchange: Exchange) {
        self.step(i, || "receiving".to_owned());
        match self.clients[i].phase {
            Phase::Waiting(Wait::Statement) => match exchange.failure {
                Some(failure) => self.failed(i, &failure, exchange.ended),
                None => self.statement_done(i, &exchange.captured),
            },
            Phase::Waiting(Wait::Prepare { at }) => self.prepared(i, at, exchange.failure),
            Phase::Waiting(Wait::Pipeline) => {
                let client = &mut self.clients[i];
                if let Some(failure) = exchange.failure {
                    client.pipeline_failure.get_or_insert(failure);
                }
                if client.wire.expected() == 0 {
                    client.in_pipeline = false;
                    match client.pipeline_failure.take() {
                        Some(failure) => self.failed(i, &failure, 0),
                        None => self.command_done(i),
                    }
                }
            }
            Phase::Waiting(Wait::Rollback { retry }) => match exchange.failure {
                Some(failure) => {
                    let id = self.clients[i].id;
                    let why = format!("the transaction can't be rolled back: {failure}");
                    self.say_why(&format!("client {id} aborted: {why}"));
                    self.remove(i, &why);
                }
                None => self.after_failure(i, retry),
            },
            Phase::Waiting(Wait::Leftovers) => {
                if self.clients[i].wire.expected() == 0 {
                    self.clients[i].in_pipeline = false;
                    if exchange.status == TxStatus::Idle {
                        self.clients[i].phase = Phase::Next;
                    } else {
                        self.rollback(i, false);
                    }
                }
            }
            // A part of a pipeline that is still being written.
            _ => {
                if let Some(failure) = exchange.failure {
                    self.clients[i].pipeline_failure.get_or_insert(failure);
                }
            }
        }
    }

    fn end_of_script(&mut self, i: usize) {
        if self.clients[i].in_pipeline {
            self.end_early(i, "end of script reached with pipeline open", false);
            return;
        }
        if self.clients[i].status != TxStatus::Idle {
            let why = "end of script reached without completing the last transaction";
            self.end_early(i, why, true);
            return;
        }
        self.count_success(i);
        let client = &mut self.clients[i];
        client.done += 1;
        client.fresh = false;
        client.phase = Phase::Next;
        if self.shared.options.reconnect {
            client.detach();
        }
    }
}

/// How pgbench shows a command that it executes.
fn told(command: &Command, line: &str) -> String {
    let shown = match command {
        Command::Set(..) | Command::SetMisnamed(..) => 2,
        Command::If { .. } | Command::Elif { .. } | Command::Draw(_) => 1,
        _ => usize::MAX,
    };
    let words: Vec<&str> = line.split_whitespace().take(shown).collect();
    words.join(" ")
}
