//! The only way out for text: results to one side, progress and complaints to the other.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::rc::Rc;

use owo_colors::OwoColorize;

use crate::secrets::Secrets;

/// How much is said on the error side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verbosity {
    /// Complaints only.
    Quiet,
    /// What is going on: in place on a terminal, else by a line now and then.
    #[default]
    Normal,
    /// What is going on, also into a pipe, with details.
    Verbose,
}

/// Where results and progress go.
pub struct Terminal {
    out: Box<dyn Write>,
    err: ErrorSide,
    /// Columns of the terminal that shows results; 100 where it is none.
    pub width: usize,
    /// Whether results may be coloured.
    pub colour: bool,
    /// Whether results go to a terminal.
    pub results_watched: bool,
    /// Whether a person watches the error side.
    pub watched: bool,
    verbosity: Verbosity,
    secrets: Secrets,
}

/// What writing to a terminal that was closed comes to.
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

/// The results can't be written where they were to go, such as on a full disk.
#[derive(Debug)]
pub struct NotPrinted(pub io::Error);

impl fmt::Display for NotPrinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for NotPrinted {}

/// The reader of our results has gone; not an error of ours.
#[derive(Debug)]
pub struct ClosedPipe;

impl fmt::Display for ClosedPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the output was closed")
    }
}

impl std::error::Error for ClosedPipe {}

impl Terminal {
    /// The process's own standard output and error.
    pub fn of_process() -> Self {
        let colour = io::stdout().is_terminal()
            && anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        let columns = rustix::termios::tcgetwinsize(io::stdout())
            .or_else(|_| rustix::termios::tcgetwinsize(io::stderr()))
            .map_or(0, |size| usize::from(size.ws_col));
        let asked = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        let width = asked.unwrap_or(if columns == 0 { 100 } else { columns });
        Self {
            out: Box::new(io::stdout()),
            err: Rc::new(RefCell::new(Box::new(anstream::stderr()))),
            width: width.clamp(20, 400),
            colour,
            results_watched: io::stdout().is_terminal(),
            watched: io::stderr().is_terminal(),
            verbosity: Verbosity::Normal,
            secrets: Secrets::default(),
        }
    }

    /// A terminal for tests: plain text into the two writers.
    pub fn plain(out: Box<dyn Write>, err: Box<dyn Write>, width: usize) -> Self {
        Self {
            out,
            err: Rc::new(RefCell::new(err)),
            width,
            colour: false,
            results_watched: false,
            watched: false,
            verbosity: Verbosity::Normal,
            secrets: Secrets::default(),
        }
    }

    /// The same error side, with results into another writer.
    pub fn with_results(&self, out: Box<dyn Write>) -> Self {
        Self {
            out,
            err: Rc::clone(&self.err),
            width: self.width,
            colour: false,
            results_watched: false,
            watched: self.watched,
            verbosity: self.verbosity,
            secrets: self.secrets.clone(),
        }
    }

    /// Sets how much is said from here on.
    pub fn set_verbosity(&mut self, verbosity: Verbosity) {
        self.verbosity = verbosity;
    }

    /// Keeps these out of whatever is said on the error side, which may quote what was typed.
    pub fn conceal(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// Whether details are asked for.
    pub fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Whether progress is to be shown: somebody watches, or asked for it.
    pub fn shows_progress(&self) -> bool {
        match self.verbosity {
            Verbosity::Quiet => false,
            Verbosity::Normal => self.watched,
            Verbosity::Verbose => true,
        }
    }

    /// Whether a moving bar makes sense.
    pub fn animates(&self) -> bool {
        self.watched && self.verbosity != Verbosity::Quiet
    }

    /// A result, to standard output as it is.
    ///
    /// # Errors
    /// [`ClosedPipe`] where the reader has gone, else [`NotPrinted`].
    pub fn print(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self
            .out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush());
        match written {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
            // The terminal was closed: its reader has gone, too.
            Err(e) if self.results_watched && e.raw_os_error() == Some(EIO) => {
                Err(ClosedPipe.into())
            }
            other => Ok(other.map_err(NotPrinted)?),
        }
    }

    /// A result in words, which may hold names that others chose: what a terminal would act on is
    /// replaced. Reports make their own text safe, and may colour it; they go through
    /// [`Self::print`].
    ///
    /// # Errors
    /// Like [`Self::print`].
    pub fn show(&mut self, text: &str) -> anyhow::Result<()> {
        self.print(&pgassay_text::lines(text))
    }

    /// An announcement that a user must see even when nothing animates, unless `--quiet`.
    pub fn announce(&mut self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            self.line(text);
        }
    }

    /// An announcement of a file, which a terminal that knows links (OSC 8) opens on a click.
    pub fn place(&mut self, what: &str, path: &Path) {
        let text = path.display().to_string();
        let known = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        let whole = std::path::absolute(path).ok();
        let whole = whole.filter(|_| self.verbosity != Verbosity::Quiet && self.watched && known);
        let Some(whole) = whole else {
            return self.announce(&format!("{what} {text}"));
        };
        let link = format!("\x1b]8;;{}\x1b\\", address(&whole));
        let text = pgassay_text::line(&text);
        if let Ok(mut err) = self.err.try_borrow_mut() {
            // Nobody is left to tell if the error side itself is closed.
            let _ = writeln!(err, "{what} {link}{text}\x1b]8;;\x1b\\");
        }
    }

    /// What can be done next, a command each, for a user who watches or asked for details.
    pub fn next(&mut self, steps: &[&str]) {
        for (n, step) in steps.iter().enumerate() {
            self.progress(&format!(
                "{}{step}",
                if n == 0 { "next: " } else { "      " }
            ));
        }
    }

    /// Progress in words: shown to a watching user, or on `--verbose`.
    pub fn progress(&mut self, text: &str) {
        if self.shows_progress() {
            self.line(text);
        }
    }

    /// A detail for `--verbose`.
    pub fn detail(&mut self, text: &str) {
        if self.verbosity == Verbosity::Verbose {
            self.line(text);
        }
    }

    /// An announcement whose lines stay as they are: one of ours, or one whose form others prescribe, as pgbench does.
    pub fn verbatim(&mut self, text: &str) {
        for line in text.split('\n') {
            self.announce(line);
        }
    }

    /// A mistake in the arguments, always shown, as clap words and colours it: its colours stay, and what else a terminal
    /// would act on is replaced.
    pub fn styled(&mut self, text: &str) {
        let hidden = self.secrets.hide(text);
        if let Ok(mut err) = self.err.try_borrow_mut() {
            // Nobody is left to tell if the error side itself is closed.
            let _ = writeln!(err, "{}", keep_colours(&hidden));
        }
    }

    /// A warning, always shown.
    pub fn warn(&mut self, text: &str) {
        self.marked(&"warning:".yellow().to_string(), text);
    }

    /// An error, always shown.
    pub fn complain(&mut self, text: &str) {
        self.marked(&"error:".red().to_string(), text);
    }

    /// A line that another pgassay said on its error side. It begins with the place: the other machine may be hostile,
    /// and its `help:` is not ours.
    pub fn relay(&mut self, place: &str, line: &str) {
        self.line(&format!("{place}: {line}"));
    }

    /// What can be done about the complaint before.
    pub fn note(&mut self, text: &str) {
        self.marked(&"  help:".cyan().to_string(), text);
    }

    /// A way to the error side for what speaks while a load runs; none where it should be quiet.
    pub fn aside(&self) -> Option<Aside> {
        (self.verbosity != Verbosity::Quiet).then(|| Aside(Rc::clone(&self.err)))
    }

    /// A line after a word in colour.
    fn marked(&mut self, mark: &str, text: &str) {
        write_line(&self.err, mark, &self.secrets.hide(text));
    }

    fn line(&mut self, text: &str) {
        write_line(&self.err, "", &self.secrets.hide(text));
    }
}

/// The error side, which the terminal shares with its [`Aside`]s.
type ErrorSide = Rc<RefCell<Box<dyn Write>>>;

/// A way to the error side.
#[derive(Clone)]
pub struct Aside(ErrorSide);

impl Aside {
    /// A line of progress.
    pub fn line(&self, text: &str) {
        write_line(&self.0, "", text);
    }
}

/// Stands before every line of a text but the first, so that none of them can be taken for a line of ours, such as
/// a `help:`. What servers say may have several lines.
const CONTINUED: &str = "\n  | ";

/// The text without anything that a terminal acts on but colours (SGR sequences, ECMA-48 8.3.117).
fn keep_colours(text: &str) -> String {
    let mut kept = String::new();
    let mut parts = text.split("\x1b[");
    kept.push_str(&pgassay_text::lines(parts.next().unwrap_or_default()));
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';'));
        match end.filter(|at| part[*at..].starts_with('m')) {
            Some(at) => {
                kept.push_str("\x1b[");
                kept.push_str(&part[..=at]);
                kept.push_str(&pgassay_text::lines(&part[at + 1..]));
            }
            None => kept.push_str(&pgassay_text::lines(&format!("\x1b[{part}"))),
        }
    }
    kept
}

/// Writes a line, with the mark as it is and the text made safe: it may name what others chose.
fn write_line(err: &ErrorSide, mark: &str, text: &str) {
    let text = pgassay_text::percent(&pgassay_text::lines(text)).replace('\n', CONTINUED);
    let gap = if mark.is_empty() { "" } else { " " };
    // Nobody is left to tell if the error side itself is closed.
    if let Ok(mut err) = err.try_borrow_mut() {
        let _ = writeln!(err, "{mark}{gap}{text}");
    }
}

/// A file's address, `file://` and its path with all but plain characters escaped.
fn address(path: &Path) -> String {
    let mut address = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                address.push(char::from(*byte));
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// Columns of the terminal on the error side; 80 where it is none.
pub fn error_width() -> usize {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Page(Rc<RefCell<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_place_is_a_link_where_somebody_watches_and_no_name_adds_to_it() {
        assert_eq!(
            address(Path::new("/a b/\u{1b}]8;;x\u{7}é")),
            "file:///a%20b/%1B%5D8%3B%3Bx%07%C3%A9"
        );
        let err = Page::default();
        let mut terminal = Terminal::plain(Box::new(Page::default()), Box::new(err.clone()), 80);
        terminal.place("report:", Path::new("/tmp/a\u{1b}b"));
        let text = String::from_utf8(err.0.borrow().clone()).unwrap();
        assert_eq!(text, "report: /tmp/a\u{fffd}b\n");
    }

    /// Attack D17: names with ESC, BEL, U+009B and U+202E went to the terminal as they were.
    #[test]
    fn a_name_can_not_steer_the_terminal() {
        let (out, err) = (Page::default(), Page::default());
        let mut terminal = Terminal::plain(Box::new(out.clone()), Box::new(err.clone()), 80);
        terminal.set_verbosity(Verbosity::Verbose);
        let name = "a\u{1b}[2J\u{7}\u{9b}2J\u{202e}b\r\nc";
        terminal.show(name).unwrap();
        terminal.announce(name);
        terminal.progress(name);
        terminal.detail(name);
        terminal.warn(name);
        terminal.complain(name);
        terminal.note(name);
        terminal.aside().unwrap().line(name);
        let text = |page: &Page| String::from_utf8(page.0.borrow().clone()).unwrap();
        // The marks before warnings and errors are coloured by us; the stream that takes colour
        // away where it is not wanted is not part of this.
        let said = text(&err)
            .replace("\u{1b}[31m", "")
            .replace("\u{1b}[33m", "")
            .replace("\u{1b}[36m", "")
            .replace("\u{1b}[39m", "");
        for (text, next) in [(text(&out), "\nc"), (said, "\n  | c")] {
            let odd = |c: char| pgassay_text::is_unsafe(c) && c != '\n';
            assert!(!text.contains(odd), "{text:?}");
            assert!(text.contains('\u{fffd}') && text.contains(next), "{text:?}");
        }
    }

    #[test]
    fn of_a_mistake_in_the_arguments_only_colours_reach_the_terminal() {
        let text = "\x1b[1m\x1b[31merror:\x1b[0m unexpected '\x1b[33m--x\x1b[2J\x07\u{202e}\x1b]0;t\x07\x1b[0m' found\n\nUsage";
        let kept = keep_colours(text);
        let replaced = "\x1b[1m\x1b[31merror:\x1b[0m unexpected '\x1b[33m--x\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}]0;t\u{fffd}\x1b[0m' found\n\nUsage";
        assert_eq!(kept, replaced);
        assert_eq!(keep_colours("plain \x1b["), "plain \u{fffd}[");
    }

    /// A server's message said `  help:` and what to do on a line of its own.
    #[test]
    fn no_text_adds_a_line_that_looks_like_ours() {
        let err = Page::default();
        let mut terminal = Terminal::plain(Box::new(Page::default()), Box::new(err.clone()), 80);
        terminal.set_verbosity(Verbosity::Verbose);
        let forged = "no\n  help: run this\r\nerror: that\n";
        terminal.complain(forged);
        terminal.note(forged);
        terminal.warn(forged);
        terminal.announce(forged);
        terminal.detail(forged);
        terminal.aside().unwrap().line(forged);
        let said = String::from_utf8(err.0.borrow().clone()).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 6 * 4, "{said}");
        for text in lines.chunks(4) {
            assert!(text[0].ends_with("no"), "{said}");
            assert!(
                text[1..].iter().all(|line| line.starts_with("  | ")),
                "{said}"
            );
        }
    }

    #[test]
    fn what_another_machine_says_begins_with_its_name() {
        let err = Page::default();
        let mut terminal = Terminal::plain(Box::new(Page::default()), Box::new(err.clone()), 80);
        for line in ["warning: a", "error: b", "  help: c", "d"] {
            terminal.relay("ssh://db1", line);
        }
        let said = String::from_utf8(err.0.borrow().clone()).unwrap();
        assert_eq!(
            said,
            "ssh://db1: warning: a\nssh://db1: error: b\nssh://db1:   help: c\nssh://db1: d\n"
        );
    }
}
