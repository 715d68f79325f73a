//! What is kept of each host, and the texts that hosts share.

use std::collections::HashMap;

use super::host::Host;

/// What is kept of a host.
#[derive(Debug)]
pub(super) struct Member {
    /// Itself, without what is kept shorter below.
    pub(super) host: Host,
    /// Its traits: numbers of words.
    pub(super) traits: Vec<(u32, u32)>,
}

/// Texts, each once: a thousand hosts have few different ones.
#[derive(Debug, Default)]
pub(super) struct Words {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Words {
    pub(super) fn number(&mut self, text: String) -> u32 {
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    pub(super) fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }
}
