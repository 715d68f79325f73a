//! `pgassay doctor`: what works on this machine, and the line that mends what does not.

mod finding;
mod machine;
mod server;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::Stdio;

use serde::Serialize;

use self::finding::{Finding, State};
use super::recorded_scripts::answer;
use crate::cli::args::GlobalArgs;
use crate::cli::doctor::DoctorArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_analysis::number;
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

/// What `pgassay doctor --json` prints.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Looked {
    schema: &'static str,
    /// A server can be launched here.
    can_launch: bool,
    /// Every part of the system that measurements need.
    findings: Vec<Finding>,
}

impl Looked {
    /// Name and version of the serialized form.
    pub(crate) const SCHEMA: &str = "pgassay/doctor/1";
}

/// Looks at everything that measurements need; with `--fix` runs the lines that mend it.
///
/// # Errors
/// If `--fix` can't ask, or a line fails.
pub fn doctor(
    args: &DoctorArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let mut findings = look(global.runs.as_deref());
    if args.json {
        let document = Looked {
            schema: Looked::SCHEMA,
            can_launch: can_launch(&findings),
            findings,
        };
        terminal.print(&pgassay_report::json(&document))?;
        return Ok(exit(&document.findings));
    }
    show(&findings, terminal)?;
    let lines = lines(&findings);
    if !args.fix {
        if !lines.is_empty() {
            terminal.show(&format!(
                "\n`pgassay doctor --fix` runs what stands after \"mend\" ({}), after asking.\n",
                number::counted(lines.len() as u64, "command")
            ))?;
        }
        if can_launch(&findings) {
            terminal.next(&["pgassay assay --quick"]);
        }
        return Ok(exit(&findings));
    }
    if lines.is_empty() {
        terminal.show("\nThere is nothing that a command mends.\n")?;
        return Ok(exit(&findings));
    }
    if !args.yes && !agreed(lines.len(), terminal, stop)? {
        return Ok(exit(&findings));
    }
    mend(&lines, terminal, stop)?;
    findings = look(global.runs.as_deref());
    terminal.show("\nAfterwards:\n")?;
    show(&findings, terminal)?;
    Ok(exit(&findings))
}

fn look(runs: Option<&Path>) -> Vec<Finding> {
    let mut all: Vec<Finding> = machine::proc_mounted().into_iter().collect();
    all.extend(server::findings(runs));
    all.extend(machine::findings());
    all
}

fn can_launch(findings: &[Finding]) -> bool {
    findings.iter().all(|f| f.state != State::Broken)
}

fn exit(findings: &[Finding]) -> Exit {
    match can_launch(findings) {
        true => Exit::Done,
        false => Exit::Target,
    }
}

fn show(findings: &[Finding], terminal: &mut Terminal) -> anyhow::Result<()> {
    let text: String = findings.iter().map(Finding::text).collect();
    terminal.show(&text)
}

/// The commands that mend something, the most needed first, each once.
fn lines(findings: &[Finding]) -> Vec<String> {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.state);
    let mut lines: Vec<String> = Vec::new();
    for line in sorted.iter().filter_map(|finding| finding.fix.as_ref()) {
        if !lines.contains(line) {
            lines.push(line.clone());
        }
    }
    lines
}

fn agreed(lines: usize, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<bool> {
    if !(terminal.watched && io::stdin().is_terminal()) {
        return Err(
            Failure::usage("--fix asks first, and there is no terminal to ask on")
                .with_remedy("add --yes to run the commands without asking")
                .into(),
        );
    }
    terminal.announce(&format!(
        "Run {}? [y/N]",
        number::counted(lines as u64, "command")
    ));
    let said = answer(stop, None)?;
    Ok(matches!(said.trim(), "y" | "Y" | "yes"))
}

/// Runs the lines one after another, with sudo unless we are root. What fails does not keep the
/// others from being run.
fn mend(lines: &[String], terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    // A container's lists of packages are empty at first; if some can't be read, others can.
    if lines.iter().any(|line| line.starts_with("apt-get install")) {
        run("apt-get update", terminal).ok();
    }
    for line in lines {
        if stop.asked() {
            return Err(Failure::interrupted().into());
        }
        if let Err(why) = run(line, terminal) {
            terminal.warn(&format!("{line}: {why}"));
            failed.push(line.as_str());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(
            Failure::target(format!("not mended: {}", failed.join("; ")))
                .with_remedy(
                    "run these yourself, as root; what they print above says why they failed",
                )
                .into(),
        ),
    }
}

fn run(line: &str, terminal: &mut Terminal) -> Result<(), String> {
    let mut command = match rustix::process::geteuid().is_root() {
        true => pgassay_sys::programs::command("sh"),
        false => {
            let mut sudo = pgassay_sys::programs::command("sudo");
            sudo.arg("sh");
            sudo
        }
    };
    terminal.announce(&format!("+ {line}"));
    // Results are ours: what a package manager says goes beside them.
    let status = command
        .args(["-c", line])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .status()
        .map_err(|error| format!("{} can't be run: {error}", command.get_program().display()))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("it failed ({status})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_most_is_mended_first_and_once() {
        let optional = Finding::lacking("valgrind", State::Optional, "", "").fixed_by("two");
        let broken = Finding::lacking("postgresql", State::Broken, "", "").fixed_by("one");
        let again = Finding::lacking("qemu", State::Optional, "", "").fixed_by("two");
        let findings = [optional, broken, again, Finding::ok("quiet", "")];
        assert_eq!(lines(&findings), ["one", "two"]);
        assert_eq!(exit(&findings), Exit::Target);
        assert_eq!(exit(&findings[2..]), Exit::Done);
    }
}
