//! A whole terminal to draw on, with single keys read from it, and given back as it was: also after a
//! panic, and after Ctrl-C, which is a key here.

use std::io;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{self, OptionalActions, Termios};

/// How the terminal was before; none while it is not ours.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The other screen of a terminal, without a cursor (xterm, "Alternate Screen Buffer").
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Back to the first, with one.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The terminal as long as it is drawn on.
#[derive(Debug)]
pub struct Screen {
    /// What was drawn last, with the size for which it was.
    drawn: Option<((usize, usize), Vec<String>)>,
}

/// What was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Escape, Ctrl-C, or the terminal has gone.
    Leave,
    /// Anything else.
    Other,
}

impl Screen {
    /// Takes the terminal; none where keys and drawing have none.
    pub fn enter() -> Option<Self> {
        if std::env::var_os("TERM").is_none_or(|term| term == "dumb") {
            return None;
        }
        let before = termios::tcgetattr(stdin()).ok()?;
        termios::tcgetwinsize(stdout()).ok()?;
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // What it has to say would go with the other screen.
                give_back();
                usual(panic);
            }));
        });
        let mut raw = before.clone();
        raw.make_raw();
        // Lines end as in every program.
        raw.output_modes = before.output_modes;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let screen = Self { drawn: None };
        termios::tcsetattr(stdin(), OptionalActions::Flush, &raw).ok()?;
        write(ENTER).ok()?;
        Some(screen)
    }

    /// Columns and rows now.
    pub fn size(&self) -> (usize, usize) {
        let size = termios::tcgetwinsize(stdout());
        let size = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
        match size {
            (0, _) | (_, 0) => (80, 24),
            (columns, rows) => (usize::from(columns), usize::from(rows)),
        }
    }

    /// Draws these lines from the top, as many as there is room for; each must fit the width.
    ///
    /// # Errors
    /// Where the terminal has gone.
    pub fn draw(&mut self, lines: Vec<String>) -> io::Result<()> {
        let size = self.size();
        if self
            .drawn
            .as_ref()
            .is_some_and(|drawn| *drawn == (size, lines.clone()))
        {
            return Ok(());
        }
        let mut text = "\x1b[H".to_owned();
        for (row, line) in lines.iter().take(size.1).enumerate() {
            if row > 0 {
                text += "\r\n";
            }
            text += line;
            text += "\x1b[0m\x1b[K";
        }
        text += "\x1b[J";
        write(&text)?;
        self.drawn = Some((size, lines));
        Ok(())
    }

    /// The next key, if one comes in time.
    pub fn key(&self, wait: Duration) -> Option<Key> {
        let stdin = stdin();
        let wait = Timespec::try_from(wait).ok()?;
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&wait)) {
            Ok(1..) => {}
            _ => return None,
        }
        let mut bytes = [0u8; 64];
        let read = rustix::io::read(stdin, &mut bytes).unwrap_or(0);
        Some(match &bytes[..read] {
            // The terminal was closed; Ctrl-C and Ctrl-D; Escape alone.
            [] | [3] | [4] | [27] => Key::Leave,
            [byte] if byte.is_ascii_graphic() => Key::Char(char::from(*byte)),
            _ => Key::Other,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, once.
fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = write(LEAVE);
        let _ = termios::tcsetattr(stdin(), OptionalActions::Flush, &before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(stdout(), rest))?;
        rest = &rest[written..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Set for the process that panics on a terminal of its own.
    const INSIDE: &str = "PGASSAY_TEST_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_read() {
        if std::env::var_os(INSIDE).is_some() {
            let mut screen = Screen::enter().expect("script(1) gives a terminal");
            screen.draw(vec!["drawn".to_owned()]).unwrap();
            panic!("what went wrong");
        }
        let own = std::env::current_exe().unwrap();
        let name = "screen::tests::a_panic_gives_the_terminal_back_and_is_read";
        let inside = format!(
            "b=$(stty -g); {} --exact {name} --nocapture; [ \"$b\" = \"$(stty -g)\" ] && echo restored",
            own.display()
        );
        let output = Command::new("script")
            .args(["-q", "-c", &inside, "/dev/null"])
            .env(INSIDE, "1")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let (before, after) = shown.split_once(LEAVE).expect(&shown);
        assert!(
            before.contains(ENTER) && before.contains("drawn"),
            "{shown}"
        );
        assert!(after.contains("what went wrong"), "{shown}");
        assert!(after.contains("restored"), "{shown}");
    }

    #[test]
    fn without_a_terminal_there_is_none() {
        let own = std::env::current_exe().unwrap();
        let name = "screen::tests::without_a_terminal_there_is_none";
        if std::env::var_os(INSIDE).is_some() {
            assert!(Screen::enter().is_none());
            return;
        }
        let output = Command::new(own)
            .args(["--exact", name])
            .env(INSIDE, "1")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains('\u{1b}'));
    }
}
