//! How a client goes through recorded sessions.

use super::client::Phase;
use super::replay::Replayer;
use super::worker::Worker;
use crate::script::{Command, Draw};

/// How many starts that were missed are counted at the end of a window, of each client.
const MISSED_LIMIT: u64 = 1_000_000;
/// How often a client that waits for the window's end looks whether it has come, in nanoseconds.
pub(super) const A_MOMENT: u64 = 1_000_000;

impl Worker<'_> {
    /// What is replayed, where something is.
    pub(super) fn replayer(&self) -> Option<&Replayer> {
        self.shared.replayer.as_ref()
    }

    /// Whether transactions are meant to start at times that don't depend on the server.
    pub(super) fn is_paced(&self) -> bool {
        self.starts.is_some() || self.replayer().is_some_and(Replayer::is_paced)
    }

    /// Chooses the next recorded transaction and its start.
    pub(super) fn choose_recorded(&mut self, i: usize, replayer: &Replayer) {
        let now = self.now();
        let begin = self.control.begin;
        let client = &mut self.clients[i];
        let next = replayer.next(&mut client.place, client.id, begin, now);
        let Some((found, start)) = next else {
            self.park(i);
            return;
        };
        if start >= self.control.planned_end {
            // It stays until then: were all parked, the window would end with the last of them.
            let until = self.control.planned_end.max(now + A_MOMENT);
            self.wake_later(i, until, Phase::Resting);
            return;
        }
        client.script = replayer.take(&mut client.place, found).script;
        client.intended = start;
        if start > now {
            self.wake_later(i, start, Phase::Scheduled);
        } else {
            client.phase = Phase::Begin;
        }
    }

    /// Lets a client wait before a statement as long as it did when it was recorded; true if it does.
    pub(super) fn pauses(&mut self, i: usize) -> bool {
        let shared = self.shared;
        let Some(replayer) = &shared.replayer else {
            return false;
        };
        let client = &self.clients[i];
        let (script, at) = (client.script, client.command);
        let commands = &shared.program.scripts()[script].commands;
        let is_sql = |command: &&Command| matches!(command, Command::Sql(_));
        if client.place.paused == Some(at) || !commands.get(at).as_ref().is_some_and(is_sql) {
            return false;
        }
        let pause = replayer.pause(&client.place, commands[..at].iter().filter(is_sql).count());
        if pause == 0 {
            return false;
        }
        self.forget_now();
        let now = self.now();
        let client = &mut self.clients[i];
        client.place.paused = Some(at);
        client.command_started = now;
        self.wake_later(i, now.saturating_add(pause), Phase::Pausing);
        true
    }

    /// The pause is over: it is no part of the transaction's latency.
    pub(super) fn paused(&mut self, i: usize) {
        let now = self.now();
        let client = &mut self.clients[i];
        let took = now.saturating_sub(client.command_started);
        client.intended += took;
        client.started += took;
        client.phase = Phase::Command;
    }

    /// Whether those clients that are left wait for nothing but recorded pauses which end after `until`.
    pub(super) fn only_pauses_until(&self, until: u64) -> bool {
        let is_done = |client: &super::client::Client| match client.phase {
            Phase::Parked | Phase::Gone => true,
            Phase::Pausing => client.wake_at > until,
            _ => false,
        };
        self.replayer().is_some() && self.clients.iter().all(is_done)
    }

    /// Takes the recorded values into a client's variables, or a row of the command's own.
    pub(super) fn draw(&mut self, i: usize, draw: &Draw, into_text: bool) {
        let shared = self.shared;
        let client = &mut self.clients[i];
        let runs = shared.replayer.as_ref().and_then(|r| r.runs(&client.place));
        match runs.filter(|runs| runs.row.len() == draw.slots.len()) {
            Some(runs) => client.set(&draw.slots, &runs.row, into_text),
            None => client.draw(draw, into_text),
        }
    }

    /// Recorded transactions that were to begin before `end` and have not.
    pub(super) fn missed(&self, end: u64) -> u64 {
        let Some(replayer) = self.replayer().filter(|replayer| replayer.is_paced()) else {
            return 0;
        };
        let begin = self.control.begin;
        let of = |client: &super::client::Client| {
            replayer.missed(client.place, client.id, begin, end, MISSED_LIMIT)
        };
        self.clients.iter().map(of).sum()
    }
}
