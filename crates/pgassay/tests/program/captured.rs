//! The program within the test's own process, its output captured.

use std::io::Write;
use std::sync::{Arc, Mutex};

use pgassay::{Exit, Stop, Terminal};

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Exit code, results, complaints.
pub(crate) fn pgassay(words: &[&str]) -> (Exit, String, String) {
    let (out, err) = (Page::default(), Page::default());
    let mut terminal = Terminal::plain(Box::new(out.clone()), Box::new(err.clone()), 100);
    let line = ["pgassay"].iter().chain(words).map(Into::into);
    let exit = pgassay::run(line, &mut terminal, &Stop::new());
    (exit, out.text(), err.text())
}
