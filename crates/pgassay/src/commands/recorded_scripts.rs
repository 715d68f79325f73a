//! Scripts of a recorded run, before they run again.
//!
//! A run directory may come from somebody else, and \shell and \setshell in its
//! scripts run programs with the caller's rights. So they are shown as they are
//! and run only if the user says so.

use std::io::{self, BufRead, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_engine::workload;
use pgassay_load::script::{BUILTINS, Command};
use pgassay_model::workload::ScriptPlan;
use pgassay_model::{Failure, Plan};
use pgassay_sys::stop::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::terminal::Terminal;

/// How often a Ctrl-C is looked for while the user thinks.
const GLANCE: Duration = Duration::from_millis(200);

/// Asks before a plan runs programs; `allowed` says that the user has said so on the command line.
///
/// # Errors
/// If he has not, and does not.
pub fn confirm(
    run: &str,
    plans: &[&Plan],
    allowed: bool,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    let mut programs = Vec::new();
    for plan in plans {
        for script in &plan.workload.scripts {
            programs.extend(shell_lines(plan, script)?);
        }
    }
    if programs.is_empty() || allowed {
        return Ok(());
    }
    let shown: String = programs.iter().map(|line| format!("\n  {line}")).collect();
    let found = format!("the scripts of {run} run programs as you:{shown}");
    if !(terminal.watched && io::stdin().is_terminal()) {
        bail!(
            Failure::usage(found)
                .with_remedy("if you know whose run it is and want them to run: --allow-shell")
        );
    }
    terminal.announce(&found);
    terminal.announce("run them? type yes and Enter");
    if answer(stop, None)?.trim() == "yes" {
        return Ok(());
    }
    bail!(Failure::usage(format!(
        "{run} is not run again: its scripts were not allowed"
    )))
}

/// The lines of a script that run programs, with its name and number.
fn shell_lines(plan: &Plan, script: &ScriptPlan) -> anyhow::Result<Vec<String>> {
    let mut alone = plan.workload.clone();
    // A weight of 0 would not be compiled alone.
    alone.scripts = vec![ScriptPlan {
        weight: 1,
        ..script.clone()
    }];
    let program = workload::program(&alone)?;
    let runs = |command: &Command| matches!(command, Command::Shell(_) | Command::SetShell(..));
    if !program
        .scripts()
        .iter()
        .any(|script| script.commands.iter().any(runs))
    {
        return Ok(Vec::new());
    }
    let lines = script.text.lines().enumerate();
    // The compiler has found them; which lines they stand on is for the eye.
    let mut shown: Vec<String> = lines
        .filter(|(_, line)| line.contains('\\'))
        .map(|(number, line)| {
            format!(
                "{}:{}: {}",
                visible(&script.name),
                number + 1,
                visible(line.trim())
            )
        })
        .collect();
    if is_no_builtin(script) {
        shown.insert(
            0,
            format!(
                "{} is the name of a built-in script, and this one is another",
                visible(&script.name)
            ),
        );
    }
    Ok(shown)
}

/// Whether a script has the title of a built-in one and not its text.
fn is_no_builtin(script: &ScriptPlan) -> bool {
    BUILTINS
        .iter()
        .any(|builtin| builtin.title == script.name && builtin.text != script.text)
}

/// Names of a plan's scripts that are a built-in's in name only say so from here on.
pub fn name_honestly(plan: &mut Plan) {
    for script in &mut plan.workload.scripts {
        if is_no_builtin(script) {
            script.name = format!("{} as recorded, not this program's", script.name);
        }
    }
}

/// Text in which nothing acts on a terminal.
fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let plain = c == ' ' || c.is_alphanumeric() || c.is_ascii_graphic();
            let escaped = (!plain).then(|| c.escape_default());
            plain
                .then_some(c)
                .into_iter()
                .chain(escaped.into_iter().flatten())
        })
        .collect()
}

/// A line that the user types; an error after Ctrl-C, nothing once the time is over.
pub(super) fn answer(stop: &Stop, within: Option<Duration>) -> anyhow::Result<String> {
    let stdin = io::stdin();
    let begun = Instant::now();
    let glance = Timespec::try_from(GLANCE)?;
    loop {
        if stop.asked() {
            bail!(Failure::interrupted());
        }
        if within.is_some_and(|within| begun.elapsed() >= within) {
            return Ok(String::new());
        }
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&glance)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => {
                let mut line = String::new();
                stdin.lock().read_line(&mut line)?;
                return Ok(line);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(scripts: &[(&str, &str)]) -> Plan {
        let mut workload = workload::find(&["select-only"]).unwrap();
        workload.scripts = scripts
            .iter()
            .map(|(name, text)| ScriptPlan {
                name: (*name).to_owned(),
                weight: 1,
                text: (*text).to_owned(),
                pause: None,
                clients: None,
            })
            .collect();
        Plan {
            workload,
            points: Vec::new(),
            trials: 1,
            warmup_ms: 0,
            window_ms: 1,
            seed: 1,
            disturbed_above: None,
        }
    }

    fn asked(plan: &Plan, allowed: bool) -> anyhow::Result<()> {
        let mut terminal = Terminal::plain(Box::new(io::sink()), Box::new(io::sink()), 80);
        confirm("last", &[plan], allowed, &mut terminal, &Stop::new())
    }

    /// Attack D19: a run directory of somebody else ran its \shell as root and called the script
    /// a built-in one.
    #[test]
    fn programs_of_a_recorded_run_need_leave() {
        let title = BUILTINS[0].title;
        for text in [
            "\\shell id >/tmp/x\nSELECT 1;\n",
            "\\setshell x echo 1\nSELECT 1;\n",
            "SELECT 1;\n\\SHELL touch \u{1b}[31mx\n",
        ] {
            let plan = plan(&[("quiet.sql", "SELECT 1;\n"), (title, text)]);
            let error = asked(&plan, false).unwrap_err();
            let failure = error.downcast_ref::<Failure>().unwrap();
            let message = &failure.message;
            assert!(
                message.contains("and this one is another")
                    && message.to_lowercase().contains("shell ")
                    && !message.contains('\u{1b}'),
                "{message}"
            );
            assert!(failure.remedy.as_ref().unwrap().contains("--allow-shell"));
            asked(&plan, true).unwrap();
        }
        asked(&plan(&[(title, BUILTINS[0].text)]), false).unwrap();
    }

    #[test]
    fn a_name_that_is_borrowed_says_so() {
        let title = BUILTINS[0].title;
        let mut plan = plan(&[(title, "SELECT 1;\n"), (title, BUILTINS[0].text)]);
        name_honestly(&mut plan);
        let names: Vec<&str> = plan
            .workload
            .scripts
            .iter()
            .map(|script| script.name.as_str())
            .collect();
        assert!(names[0].ends_with("not this program's") && names[1] == title);
    }
}
