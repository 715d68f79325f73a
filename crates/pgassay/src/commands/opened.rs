//! A page opened in the user's browser.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use crate::terminal::Terminal;

/// Says where a finished report is and what can be done next; opens it where that was asked for.
pub(super) fn announce(report: &Path, asked: bool, terminal: &mut Terminal) {
    terminal.place("report:", report);
    match asked {
        true => open(report.as_os_str(), "the report", terminal),
        false => terminal.announce("next: pgassay report last prints all of it; pgassay serve --open shows it next to the other runs"),
    }
}

/// Opens a file or an address in the browser, or says why not and what to do instead. `what` names it:
/// `the address above`.
pub(super) fn open(target: &OsStr, what: &str, terminal: &mut Terminal) {
    let shows = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"];
    if !shows.iter().any(|name| std::env::var_os(name).is_some()) {
        terminal.warn("--open: there is no display here, so no browser was opened");
        terminal.note(&format!("open {what} in a browser yourself"));
        return;
    }
    let started = pgassay_sys::programs::command("xdg-open")
        .arg(target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        terminal.warn(&format!("--open: xdg-open can't be started: {error}"));
        terminal.note(&format!(
            "install xdg-utils, or open {what} in a browser yourself"
        ));
    }
}
