//! `pgassay deploy`: a plan in the form in which others run it.

mod ansible;
mod kubernetes;
mod slurm;
mod yaml;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use pgassay_model::Failure;

use super::files::to_file;
use crate::cli::deploy::{DeployArgs, DeployTo, PlanArgs};
use crate::cli::{self, args::Command};
use crate::exit::Exit;
use crate::secrets;
use crate::terminal::Terminal;

/// What pgassay is to do there.
pub(super) struct Plan {
    words: Vec<String>,
    collects: bool,
}

impl Plan {
    /// The words behind the program's name.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    /// Whether it only collects facts.
    pub(super) fn collects(&self) -> bool {
        self.collects
    }

    /// Whether it says itself where the facts go.
    pub(super) fn names_an_output(&self) -> bool {
        let mut words = self.words.iter();
        words.any(|word| word == "-o" || word == "--output" || word.starts_with("--output="))
    }
}

/// What is written.
pub(super) struct Files {
    /// Names below the directory, and their texts.
    files: Vec<(&'static str, String)>,
    /// Which of them stands for all on standard output.
    shown: usize,
    /// What can be done with the directory.
    next: fn(&str) -> Vec<String>,
}

/// Writes the files.
///
/// # Errors
/// Where the plan is no command line of pgassay, holds a password, or can't be written.
pub fn deploy(args: &DeployArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let (to, files) = match &args.to {
        DeployTo::Kubernetes(args) => (&args.plan, kubernetes::files(args, &checked(&args.plan)?)),
        DeployTo::Slurm(args) => (&args.plan, slurm::files(args, &checked(&args.plan)?)),
        DeployTo::Ansible(args) => {
            for given in [&args.target, &args.program].into_iter().flatten() {
                refuse_password(given)?;
            }
            (&args.plan, ansible::files(args, &checked(&args.plan)?))
        }
    };
    for (name, text) in &files.files {
        refuse_hidden(name, text)?;
    }
    let Some(dir) = &to.output else {
        let (_, text) = &files.files[files.shown];
        terminal.print(text)?;
        return Ok(Exit::Done);
    };
    for (name, text) in &files.files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).with_context(|| {
            Failure::usage(format!("cannot make {}", parent.display()))
                .with_remedy("name another directory with --output")
        })?;
        to_file(&path, "--output", text)?;
        terminal.place("written:", &path);
    }
    let dir = pgassay_text::shell_word(&dir.to_string_lossy());
    let next = (files.next)(&dir);
    let next: Vec<&str> = next.iter().map(String::as_str).collect();
    terminal.next(&next);
    Ok(Exit::Done)
}

/// Refuses a file in which something else would stand than is shown.
fn refuse_hidden(name: &str, text: &str) -> Result<(), Failure> {
    let is_hidden = |c: char| pgassay_text::is_unsafe(c);
    // Not by lines(), which takes a carriage return before a line's end away.
    let Some((line, hidden)) = text
        .split('\n')
        .find_map(|l| Some((l, l.chars().find(|c| is_hidden(*c))?)))
    else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "{name} would hold U+{:04X}, a character that is not shown, in the line: {}",
        u32::from(hidden),
        pgassay_text::line(line)
    ))
    .with_remedy("leave it out of the plan and the flags: what is read there has to be what runs"))
}

fn refuse_password(word: &str) -> Result<(), Failure> {
    if secrets::shown(word) == word {
        return Ok(());
    }
    Err(
        Failure::usage("the plan holds a password, which would be written into a file")
            .with_remedy(
                "leave it out: let the machine have it in PGPASSFILE, or in a Secret as PGPASSWORD",
            ),
    )
}

/// The plan, if it is one that pgassay takes and others may read.
fn checked(args: &PlanArgs) -> anyhow::Result<Plan> {
    let words = match args.plan.as_slice() {
        [] => vec!["assay".to_owned()],
        [program, rest @ ..] if program == "pgassay" => rest.to_vec(),
        words => words.to_vec(),
    };
    for word in &words {
        refuse_password(word)?;
        if word.chars().any(char::is_control) {
            bail!(
                Failure::usage("a word of the plan holds a control character")
                    .with_remedy("put it into a file on the machines, and name that")
            );
        }
    }
    let line = std::iter::once("pgassay").chain(words.iter().map(String::as_str));
    let parsed = cli::parse(line.map(OsString::from)).map_err(|e| {
        let said = e.to_string();
        let said = said.lines().next().unwrap_or_default();
        let said = said.trim_start_matches("error: ");
        Failure::usage(format!("this plan is no command line of pgassay: {said}"))
            .with_remedy("what stands behind -- is typed as after pgassay: -- assay --quick")
    })?;
    let collects = match parsed.command {
        Command::Collect(_) => true,
        Command::Assay(_) | Command::Run(_) | Command::Compare(_) | Command::Lab(_) => false,
        _ => bail!(
            Failure::usage("only what collects or measures runs by itself on other machines")
                .with_remedy("a plan begins with assay, run, compare, lab or collect")
        ),
    };
    Ok(Plan { words, collects })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carriage_return_is_refused_also_before_the_end_of_a_line() {
        assert!(refuse_hidden("job.yaml", "a: b\nc: d\n").is_ok());
        for text in ["a: b\r\nc: d\n", "a: b\rc\n", "a\n\u{202e}b\n"] {
            assert!(refuse_hidden("job.yaml", text).is_err(), "{text:?}");
        }
    }
}
