//! How a client goes on: the script's interpreter, and what follows from answers and failures.

use super::client::{self, Client, Phase, Prepared, Wait};
use super::encode::{self, Protocol};
use super::options::{Event, OnError, Says};
use super::wire::{Captured, Exchange, Failure, TxStatus};
use super::worker::Worker;
use crate::script::{Capture, Command, Var, valid_name};

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
        let script = self.shared.program.choose(&mut self.choose);
        self.clients[i].script = script;
        self.tell(Says::Everything, || {
            let name = &self.shared.program.scripts()[script].name;
            format!("client {} executing script \"{name}\"", self.clients[i].id)
        });
        let limit = self
            .shared
            .options
            .latency_limit
            .map(|limit| limit.as_nanos() as u64);
        let start = loop {
            let Some(starts) = &mut self.starts else {
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

    fn begin_transaction(&mut self, i: usize) {
        if self.is_over() {
            if self.starts.is_some() {
                self.tally.result.behind += 1;
            }
            self.park(i);
            return;
        }
        if self.clients[i].transport.is_none() && !self.reconnect(i) {
            return;
        }
        let now = self.now();
        let scheduled = self.starts.is_some();
        let client = &mut self.clients[i];
        client.started = now;
        if !scheduled {
            client.intended = now;
        }
        client.tries = 1;
        client.random_at_begin = client.random.clone();
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
                self.say(&format!(
                    "client {} aborted while establishing connection: {reason}",
                    self.clients[i].id
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
        if self.tally.per_command() {
            let now = self.now();
            self.clients[i].command_started = now;
        }
        self.tell(Says::Everything, || {
            let line = &shared.program.scripts()[script].lines[at];
            let doing = match command {
                Command::Sql(_) => "sending",
                _ => "executing",
            };
            format!("client {} {doing} {line}", self.clients[i].id)
        });
        match command {
            Command::Sql(sql) => {
                if let Err(error) = self.statement(i, script, at) {
                    self.abort(i, &format!("the statement can't be sent: {error}"));
                    return;
                }
                let client = &mut self.clients[i];
                if client.in_pipeline {
                    self.command_done(i);
                } else {
                    client.wire.expect(sql.capture.is_some());
                    client.phase = Phase::Waiting(Wait::Statement);
                }
            }
            Command::Set(slot, expr) => {
                let evaluated = self.evaluate(i, expr);
                if let Some(value) = evaluated {
                    self.clients[i].vars[*slot as usize] = Var::Value(value);
                    self.command_done(i);
                }
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
                self.clients[i].command = *end;
            }
            Command::Endif => self.command_done(i),
            Command::StartPipeline => {
                if shared.options.protocol == Protocol::Simple {
                    self.abort(i, "cannot use pipeline mode with the simple query protocol");
                } else if self.clients[i].in_pipeline {
                    self.abort(i, "already in pipeline mode");
                } else {
                    self.clients[i].in_pipeline = true;
                    self.command_done(i);
                }
            }
            Command::SyncPipeline => {
                if self.clients[i].in_pipeline {
                    self.sync(i);
                    self.command_done(i);
                } else {
                    self.abort(i, "not in pipeline mode");
                }
            }
            Command::EndPipeline => {
                if self.clients[i].in_pipeline {
                    self.sync(i);
                    self.clients[i].phase = Phase::Waiting(Wait::Pipeline);
                } else {
                    self.abort(i, "not in pipeline mode");
                }
            }
        }
    }

    pub(super) fn command_done(&mut self, i: usize) {
        if self.tally.per_command() {
            self.forget_now();
            let now = self.now();
            let client = &self.clients[i];
            let took = now.saturating_sub(client.command_started);
            self.tally.command(client.script, client.command, took);
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
                if client.prepared.len() <= place {
                    client.prepared.resize(place + 1, Prepared::No);
                }
                if client.prepared[place] != Prepared::Yes {
                    if client.prepared[place] == Prepared::Unknown {
                        encode::close(&statement.name, out)?;
                    }
                    encode::parse(&statement.name, sql, out)?;
                    client.prepared[place] = Prepared::Yes;
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
        self.clients[i].wire.expect(false);
    }

    /// An exchange with the server has ended.
    pub(super) fn answered(&mut self, i: usize, exchange: Exchange) {
        self.tell(Says::Everything, || {
            format!("client {} receiving", self.clients[i].id)
        });
        match self.clients[i].phase {
            Phase::Waiting(Wait::Statement) => match exchange.failure {
                Some(failure) => self.failed(i, &failure),
                None => self.statement_done(i, &exchange.captured),
            },
            Phase::Waiting(Wait::Pipeline) => {
                let client = &mut self.clients[i];
                if let Some(failure) = exchange.failure {
                    client.pipeline_failure.get_or_insert(failure);
                }
                if client.wire.expected() == 0 {
                    client.in_pipeline = false;
                    match client.pipeline_failure.take() {
                        Some(failure) => self.failed(i, &failure),
                        None => self.command_done(i),
                    }
                }
            }
            Phase::Waiting(Wait::Rollback { retry }) => match exchange.failure {
                Some(failure) => {
                    self.remove(
                        i,
                        &format!("the transaction can't be rolled back: {failure}"),
                    );
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

    fn statement_done(&mut self, i: usize, captured: &[Captured]) {
        let shared = self.shared;
        let client = &self.clients[i];
        let command = &shared.program.scripts()[client.script].commands[client.command];
        if let Command::Sql(sql) = command
            && let Some(capture) = &sql.capture
            && let Err(reason) = self.store(i, capture, captured)
        {
            self.abort(i, &reason);
            return;
        }
        self.command_done(i);
    }

    /// Puts captured rows into variables.
    fn store(&mut self, i: usize, capture: &Capture, results: &[Captured]) -> Result<(), String> {
        let symbols = self.shared.program.symbols();
        let (prefix, gset) = match capture {
            Capture::Gset(prefix) => (prefix, true),
            Capture::Aset(prefix) => (prefix, false),
        };
        for (number, result) in results.iter().enumerate() {
            if gset && number + 1 < results.len() {
                continue;
            }
            if gset && (!result.has_rows || result.rows != 1) {
                return Err(format!(
                    "query {number}: expected one row, got {}",
                    result.rows
                ));
            }
            if result.rows == 0 {
                continue;
            }
            for (column, value) in result.columns.iter().zip(&result.last_row) {
                let name = format!("{prefix}{column}");
                if !valid_name(&name) {
                    return Err(format!(
                        "query {number}: error storing into variable {name}"
                    ));
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
            return Err("no results".to_owned());
        }
        Ok(())
    }

    /// A statement or a pipeline failed.
    fn failed(&mut self, i: usize, failure: &Failure) {
        let now = self.now();
        let options = &self.shared.options;
        let client = &mut self.clients[i];
        for prepared in &mut client.prepared {
            *prepared = match *prepared {
                Prepared::No => Prepared::No,
                // Only what was sent in this exchange is in doubt, but the rest loses little.
                _ => Prepared::Unknown,
            };
        }
        client.in_pipeline = false;
        let repeatable = matches!(failure.code(), "40001" | "40P01");
        let tries_left = options.max_tries == 0 || client.tries < options.max_tries;
        let in_time = options
            .latency_limit
            .is_none_or(|limit| now.saturating_sub(client.intended) <= limit.as_nanos() as u64);
        let retry = repeatable && tries_left && in_time && !self.is_over();
        let (script, command) = (self.clients[i].script, self.clients[i].command);
        self.tally.command_failure(script, command, retry);
        self.tell(Says::Errors, || {
            let Client { id, tries, .. } = &self.clients[i];
            let next = if retry { "repeats" } else { "ends" };
            let most = match options.max_tries {
                0 => String::new(),
                most => format!("/{most}"),
            };
            format!(
                "client {id} got an error in command {command} (SQL) of script {script}; {failure}\n\
                 client {id} {next} the failed transaction (try {tries}{most})"
            )
        });
        if !retry {
            self.count_failure(i, failure.code(), || failure.to_string());
            if !repeatable && options.on_error == OnError::Abort {
                let reason = format!(
                    "client {} script {script} aborted in command {command} query 0: {failure}",
                    self.clients[i].id
                );
                self.say(&reason);
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
                self.clients[i].wire.expect(false);
                self.clients[i].phase = Phase::Waiting(Wait::Rollback { retry });
            }
            Err(error) => self.remove(i, &error.to_string()),
        }
    }

    fn after_failure(&mut self, i: usize, retry: bool) {
        let now = self.now();
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

    fn end_of_script(&mut self, i: usize) {
        if self.clients[i].in_pipeline {
            self.abort(i, "end of script reached with pipeline open");
            return;
        }
        if self.clients[i].status != TxStatus::Idle {
            self.abort(
                i,
                "end of script reached without completing the last transaction",
            );
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

    /// Stops the client: its script can't go on.
    pub(super) fn abort(&mut self, i: usize, reason: &str) {
        let client = &self.clients[i];
        self.say(&format!(
            "client {} aborted in command {} of script {}; {reason}",
            client.id, client.command, client.script
        ));
        self.count_failure(i, "script", || reason.to_owned());
        self.remove(i, reason);
    }

    /// Says something that not everybody wants to hear.
    fn tell(&self, kind: Says, message: impl FnOnce() -> String) {
        if self.shared.options.says >= kind {
            self.say(&message());
        }
    }

    pub(super) fn say(&self, message: &str) {
        if let Some(listener) = &self.shared.options.listener {
            listener(Event::Said(message));
        }
    }
}
