//! Server-sent events: what is followed is read once a second for all who follow it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task;
use tokio::time::{Instant, sleep_until};

use crate::{Feed, Next};

/// How often a feed is asked.
const EACH: Duration = Duration::from_secs(1);
/// How many rounds without news until a sign of life, by which connections that broke are noticed.
const SILENT_ROUNDS: u32 = 15;
/// Events that may wait for one reader.
const WAITING: usize = 4;
/// Readers of all feeds together.
pub(crate) const MOST_READERS: usize = 48;

/// Who follows what.
#[derive(Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<HashMap<String, Followed>>>);

/// What is followed.
#[derive(Default)]
struct Followed {
    readers: Vec<mpsc::Sender<Bytes>>,
    /// The newest event, for who comes later.
    newest: Option<Bytes>,
}

impl Feeds {
    /// A further reader of what is followed at that address already; `Nothing` where it is not.
    pub(crate) fn join(&self, address: &str) -> Result<mpsc::Receiver<Bytes>, Refused> {
        let mut all = self.lock();
        let readers = all.values().map(|followed| {
            let open = followed.readers.iter().filter(|reader| !reader.is_closed());
            open.count()
        });
        if readers.sum::<usize>() >= MOST_READERS {
            return Err(Refused::TooMany);
        }
        let followed = all.get_mut(address).ok_or(Refused::Nothing)?;
        let (sender, receiver) = mpsc::channel(WAITING);
        if let Some(newest) = &followed.newest {
            let _ = sender.try_send(newest.clone());
        }
        followed.readers.push(sender);
        Ok(receiver)
    }

    /// The first reader of a feed, unless another came first.
    pub(crate) fn open(
        &self,
        address: &str,
        feed: Box<dyn Feed>,
    ) -> Result<mpsc::Receiver<Bytes>, Refused> {
        let mut all = self.lock();
        if !all.contains_key(address) {
            all.insert(address.to_owned(), Followed::default());
            task::spawn(self.clone().run(address.to_owned(), feed));
        }
        drop(all);
        // The feed runs on this thread, after us.
        self.join(address)
    }

    /// Asks a feed until nobody follows it or it has ended.
    async fn run(self, address: String, mut feed: Box<dyn Feed>) {
        let mut silent = 0;
        let mut at = Instant::now();
        loop {
            let asked = task::spawn_blocking(move || {
                let next = feed.next();
                (feed, next)
            });
            let Ok((same, next)) = asked.await else {
                // It panicked; the readers ask anew.
                self.lock().remove(&address);
                return;
            };
            feed = same;
            silent = match next {
                Next::Same => silent + 1,
                _ => 0,
            };
            let event = match &next {
                Next::Same if silent % SILENT_ROUNDS == 0 => Some(Bytes::from_static(b":\n\n")),
                Next::Same => None,
                Next::Event(text) => Some(event("message", text)),
                Next::Last(text) => Some(event("end", text)),
            };
            {
                let mut all = self.lock();
                let Some(followed) = all.get_mut(&address) else {
                    return;
                };
                match event {
                    // One that does not take them is let go.
                    Some(event) => {
                        let takes = |r: &mpsc::Sender<Bytes>| r.try_send(event.clone()).is_ok();
                        followed.readers.retain(takes);
                        if next != Next::Same {
                            followed.newest = Some(event);
                        }
                    }
                    None => followed.readers.retain(|reader| !reader.is_closed()),
                }
                if followed.readers.is_empty() || matches!(next, Next::Last(_)) {
                    all.remove(&address);
                    return;
                }
            }
            at = (at + EACH).max(Instant::now());
            sleep_until(at).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Followed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is nothing to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are [`MOST_READERS`].
    TooMany,
    /// Nothing is followed there.
    Nothing,
}

/// An event in the form of the HTML standard, section "Server-sent events".
fn event(name: &str, text: &str) -> Bytes {
    let mut lines = format!("event: {name}\n");
    // All three are ends of lines there.
    for line in text.replace("\r\n", "\n").replace('\r', "\n").split('\n') {
        lines += "data: ";
        lines += line;
        lines.push('\n');
    }
    lines.push('\n');
    lines.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_event() {
        let text = "a\n\nevent: end\rdata: x\r\nb";
        let sent = event("message", text);
        let expected =
            "event: message\ndata: a\ndata: \ndata: event: end\ndata: data: x\ndata: b\n\n";
        assert_eq!(sent, expected.as_bytes());
    }
}
