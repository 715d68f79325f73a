//! What clients say while they run, in pgbench's words.

use super::options::{Event, Tone};
use super::worker::Worker;

impl Worker<'_> {
    /// A step of a client, for those who want to hear of each.
    pub(super) fn step(&self, i: usize, what: impl FnOnce() -> String) {
        if self.shared.options.says.steps {
            self.say(&format!("client {} {}", self.clients[i].id, what()));
        }
    }

    /// What goes on.
    pub(super) fn say(&self, text: &str) {
        self.tell(Tone::Info, text);
    }

    /// Why a client can't go on.
    pub(super) fn say_why(&self, text: &str) {
        self.tell(Tone::Error, text);
    }

    /// Why a client can't go on with the command at which it is.
    pub(super) fn say_lost(&self, i: usize, why: &str) {
        let client = &self.clients[i];
        self.say_why(&format!(
            "client {} aborted in command {} (SQL) of script {}; {why}",
            client.id, client.command, client.script
        ));
    }

    /// What the server says.
    pub(super) fn pass_on(&self, text: &str) {
        self.tell(Tone::Quoted, text);
    }

    fn tell(&self, tone: Tone, text: &str) {
        if let Some(listener) = &self.shared.options.listener {
            listener(Event::Said(tone, text));
        }
    }
}
