//! What may be started from a page, and by which command: only what recorded runs say, and never more
//! than a line that the user can read before.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pgassay_engine::{rundir, workload};
use pgassay_model::plan::{Arm, DriverConfig, Experiment};
use pgassay_model::run::RunHeader;
use pgassay_model::stage::StageId;

use crate::session;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The plan of a run once more.
    Repeat,
    /// The trials that are missing of a run.
    Resume,
    /// The targets of two runs, against each other.
    Compare,
}

impl Wanted {
    /// By its name in addresses and forms.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "repeat" => Some(Self::Repeat),
            "resume" => Some(Self::Resume),
            "compare" => Some(Self::Compare),
            _ => None,
        }
    }

    /// That name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Resume => "resume",
            Self::Compare => "compare",
        }
    }
}

/// A command that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Startable {
    /// The words after `pgassay`.
    pub words: Vec<String>,
    /// What it executes that a run recorded, each with what it is: scripts, statements, settings.
    pub executes: Vec<(String, String)>,
}

/// Why something can't be started here.
pub(super) type Refusal = String;

/// A run as far as it matters here.
pub(super) struct Recorded {
    /// Name of its directory.
    name: String,
    header: RunHeader,
    whole: bool,
}

impl Recorded {
    /// Reads the run in `dir`.
    ///
    /// # Errors
    /// Where it can't be read, or is not of the user who would start something: what a run recorded is
    /// executed.
    pub(super) fn read(dir: &Path) -> Result<Self, Refusal> {
        let name = dir.file_name().and_then(|name| name.to_str());
        let name = name.ok_or("its name is no text")?.to_owned();
        let us = rustix::process::geteuid().as_raw();
        for part in ["", "run.json", "trials.jsonl", "end.json"] {
            let meta = match std::fs::symlink_metadata(dir.join(part)) {
                Ok(meta) => meta,
                Err(_) if part == "end.json" => continue,
                Err(error) => return Err(format!("{name}/{part} can't be read: {error}")),
            };
            if meta.uid() != us || meta.mode() & 0o022 != 0 {
                return Err(format!(
                    "{name}/{part} belongs to another user or can be written by one: what a run recorded is \
                     executed. Start it in a terminal, after a look at it"
                ));
            }
        }
        session::refuse_from_elsewhere(dir).map_err(|failure| failure.message)?;
        let text = |error: anyhow::Error| format!("{error:#}");
        let header = rundir::read_header(dir).map_err(text)?;
        if rundir::irregular(dir).map_err(|e| e.to_string())?.is_some() {
            return Err(format!("{name} holds a link or a device"));
        }
        Ok(Self {
            whole: dir.join("end.json").is_file() && is_complete(dir),
            name,
            header,
        })
    }

    /// The name of its directory.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn experiment(&self) -> &Experiment {
        &self.header.experiment
    }

    /// The run's name as a word that no flag can be.
    fn word(&self) -> Result<String, Refusal> {
        match self.name.starts_with('-') || self.name.contains(pgassay_text::is_unsafe) {
            true => Err("its name can't be a word of a command".to_owned()),
            false => Ok(self.name.clone()),
        }
    }
}

fn is_complete(dir: &Path) -> bool {
    use pgassay_model::run::{EndState, RunEnd};
    let text = pgassay_sys::input::read(&dir.join("end.json"), 1 << 20).unwrap_or_default();
    serde_json::from_slice::<RunEnd>(&text).is_ok_and(|end| end.state == EndState::Complete)
}

/// The command for what is asked for, of these runs.
///
/// # Errors
/// Why it can't be started from a page.
pub(super) fn startable(wanted: Wanted, runs: &[Recorded]) -> Result<Startable, Refusal> {
    match (wanted, runs) {
        (Wanted::Repeat, [run]) => again(run, "--repeat", &["run", "assay"]),
        (Wanted::Resume, [run]) if run.whole => Err(format!("{} is complete", run.name)),
        (Wanted::Resume, [run]) => again(run, "--resume", &["run", "assay", "compare", "bisect"]),
        (Wanted::Compare, [a, b]) => compared(a, b),
        (Wanted::Compare, _) => Err("two runs are compared".to_owned()),
        _ => Err("one run is measured again".to_owned()),
    }
}

/// A run once more, or its missing trials.
fn again(run: &Recorded, flag: &str, commands: &[&str]) -> Result<Startable, Refusal> {
    let command = run.header.command.as_str();
    if !commands.contains(&command) {
        return Err(format!(
            "this is not offered for runs of this command, only for {}",
            commands.join(", ")
        ));
    }
    // The plan of an assay is repeated as a run.
    let command = if flag == "--repeat" { "run" } else { command };
    for arm in &run.experiment().arms {
        refuse_secret(arm)?;
    }
    Ok(Startable {
        words: [command, flag, &run.word()?].map(str::to_owned).to_vec(),
        executes: executes(&[run]),
    })
}

/// The targets of two runs, by a load that this program knows.
fn compared(a: &Recorded, b: &Recorded) -> Result<Startable, Refusal> {
    let mut words = vec!["compare".to_owned()];
    let workload = &a.experiment().plan().workload;
    let same = &b.experiment().plan().workload;
    let known = workload::find(&[workload.name.as_str()]).ok();
    let is_known = known.is_some_and(|known| {
        known.scripts == workload.scripts
            && known.setup == workload.setup
            && workload.dials == known.dials
            && workload.replay == known.replay
    });
    if workload.name != same.name
        || workload.scripts != same.scripts
        || workload.replay != same.replay
    {
        return Err("the two runs did different work".to_owned());
    }
    if !is_known || !drives_clients(a.experiment()) || !drives_clients(b.experiment()) {
        return Err("only the built-in workloads of clients are compared from here".to_owned());
    }
    words.push(format!("--workload={}", workload.name));
    words.push(format!("--scale={}", workload.scale));
    let (mut targets, mut load) = (Vec::new(), false);
    for (run, side) in [(a, "a"), (b, "b")] {
        let [arm] = run.experiment().arms.as_slice() else {
            return Err(format!("{} has several servers", run.name));
        };
        refuse_secret(arm)?;
        for (name, value) in &arm.settings {
            words.push(format!("--set-{side}={name}={value}"));
        }
        let flags = arm.confinement.flags(&format!("-{side}")).into_iter();
        words.extend(flags.map(|(flag, value)| format!("{flag}={value}")));
        targets.push(match arm.typed.as_str() {
            "" => "temp".to_owned(),
            typed => typed.to_owned(),
        });
        load |= arm.load;
    }
    if load {
        words.push("--load".to_owned());
    }
    // What follows is no flag, whatever it is.
    words.push("--".to_owned());
    words.extend(targets);
    if words
        .iter()
        .any(|word| word.contains(pgassay_text::is_unsafe))
    {
        return Err("a target or a setting holds characters that can't be shown".to_owned());
    }
    Ok(Startable {
        words,
        executes: executes(&[a, b]),
    })
}

fn drives_clients(experiment: &Experiment) -> bool {
    let first = experiment.stages.first();
    first.is_some_and(|stage| stage.id == StageId::Load && stage.driver == DriverConfig::Wire)
}

/// A password is in no run: with it missing, the command would ask a server with three stars.
fn refuse_secret(arm: &Arm) -> Result<(), Refusal> {
    match arm.typed.contains("***") {
        true => Err(
            "its target had a password, which no run records: start it in a terminal".to_owned(),
        ),
        false => Ok(()),
    }
}

/// What runs recorded that is executed with them.
fn executes(runs: &[&Recorded]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for run in runs {
        for arm in &run.experiment().arms {
            let target = if arm.typed.is_empty() {
                "temp"
            } else {
                &arm.typed
            };
            all.push(("target".to_owned(), target.to_owned()));
            let set = arm.settings.iter();
            all.extend(
                set.map(|(name, value)| ("setting".to_owned(), format!("{name} = {value}"))),
            );
            let executed = arm.confinement.executed().into_iter();
            all.extend(executed.map(|(what, value)| (what.to_owned(), value)));
        }
        for stage in &run.experiment().stages {
            let workload = &stage.plan.workload;
            let known = workload::find(&[workload.name.as_str()]).ok();
            let scripts = workload.scripts.iter();
            let own =
                scripts.filter(|script| known.as_ref().is_none_or(|k| !k.scripts.contains(script)));
            all.extend(own.map(|script| (format!("script {}", script.name), script.text.clone())));
            if let (Some(replay), Some(file)) = (&workload.replay, &workload.sessions) {
                all.push(("sessions".to_owned(), format!("{file}, {replay}")));
            }
            let statements = workload.setup.iter().chain(&workload.settle);
            let own = statements.filter(|statement| {
                known
                    .as_ref()
                    .is_none_or(|k| !k.setup.contains(statement) && !k.settle.contains(statement))
            });
            all.extend(own.map(|statement| ("statement".to_owned(), statement.clone())));
        }
    }
    let mut unique = Vec::new();
    for entry in all {
        if !unique.contains(&entry) {
            unique.push(entry);
        }
    }
    unique
}

/// The command as it would be typed.
pub(super) fn typed(words: &[String]) -> String {
    format!("pgassay {}", pgassay_text::shell(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::Plan;
    use pgassay_model::plan::Stage;
    use pgassay_model::point::Point;
    use pgassay_model::workload::ScriptPlan;

    fn recorded(command: &str, change: impl FnOnce(&mut RunHeader)) -> Recorded {
        let plan = Plan {
            workload: workload::find(&["select-only"]).unwrap(),
            points: vec![Point {
                clients: 1,
                threads: 1,
                variant: 0,
            }],
            ..Plan::default()
        };
        let arm = Arm {
            typed: "temp:15".to_owned(),
            settings: vec![("work_mem".to_owned(), "4MB".to_owned())],
            ..Arm::default()
        };
        let mut header = RunHeader {
            command: command.to_owned(),
            experiment: Experiment::single(vec![arm], Stage::wire(StageId::Load, plan)),
            ..RunHeader::default()
        };
        change(&mut header);
        Recorded {
            name: "20260101T000000Z-select-only-aaaa".to_owned(),
            header,
            whole: false,
        }
    }

    fn arm(header: &mut RunHeader) -> &mut Arm {
        &mut header.experiment.arms[0]
    }

    #[test]
    fn what_a_server_was_given_is_given_again_and_shown() {
        let given = recorded("run", |header| {
            arm(header).confinement.launch_environment = vec!["A=1".to_owned()];
            arm(header).confinement.wrap = "numactl --membind=0".to_owned();
        });
        let plain = recorded("run", |_| {});
        let compared = startable(Wanted::Compare, &[plain, given]).unwrap();
        for word in ["--env-b=A=1", "--wrap-b=numactl --membind=0"] {
            assert!(compared.words.iter().any(|held| held == word), "{word}");
        }
        for (what, of) in [("variable", "A=1"), ("command", "numactl --membind=0")] {
            let held = (what.to_owned(), of.to_owned());
            assert!(compared.executes.contains(&held), "{what}");
        }
    }

    #[test]
    fn a_run_is_measured_again_by_its_name_alone() {
        let run = recorded("assay", |_| {});
        let name = run.name.clone();
        let repeat = startable(Wanted::Repeat, std::slice::from_ref(&run)).unwrap();
        assert_eq!(repeat.words, ["run", "--repeat", &name]);
        let resume = startable(Wanted::Resume, std::slice::from_ref(&run)).unwrap();
        assert_eq!(resume.words, ["assay", "--resume", &name]);
        assert!(
            repeat
                .executes
                .contains(&("setting".to_owned(), "work_mem = 4MB".to_owned()))
        );
        // Its own script is shown, a built-in one is known.
        assert!(
            !repeat
                .executes
                .iter()
                .any(|(what, _)| what.starts_with("script"))
        );
        let own = recorded("run", |header| {
            let plan = header.experiment.plan_mut().unwrap();
            plan.workload.scripts.push(ScriptPlan {
                name: "mine.sql".to_owned(),
                weight: 1,
                text: "\\shell id".to_owned(),
                ..ScriptPlan::default()
            });
        });
        let repeat = startable(Wanted::Repeat, &[own]).unwrap();
        assert!(
            repeat
                .executes
                .contains(&("script mine.sql".to_owned(), "\\shell id".to_owned()))
        );
    }

    #[test]
    fn nothing_else_is_started() {
        let refused = |wanted, runs: &[Recorded]| startable(wanted, runs).unwrap_err();
        for command in ["guard", "build", "../../bin/sh", "--help", ""] {
            let why = refused(Wanted::Repeat, &[recorded(command, |_| {})]);
            assert!(why.contains("not offered"), "{why}");
        }
        for name in ["--allow-shell", "a\u{1b}b", "-x"] {
            let mut run = recorded("run", |_| {});
            run.name = name.to_owned();
            assert!(refused(Wanted::Repeat, &[run]).contains("word of a command"));
        }
        let complete = Recorded {
            whole: true,
            ..recorded("run", |_| {})
        };
        assert!(refused(Wanted::Resume, &[complete]).contains("is complete"));
        let secret = recorded("run", |header| {
            arm(header).typed = "password=*** host=a".to_owned()
        });
        assert!(refused(Wanted::Repeat, &[secret]).contains("password"));
        assert!(startable(Wanted::Compare, &[recorded("run", |_| {})]).is_err());
    }

    #[test]
    fn the_sessions_that_are_replayed_are_named() {
        use pgassay_model::workload::ReplayPlan;
        let replayed = |speed: f64| {
            recorded("run", |header| {
                let workload = &mut header.experiment.plan_mut().unwrap().workload;
                workload.sessions = Some("/tmp/mine.sessions.jsonl".to_owned());
                workload.replay = Some(ReplayPlan {
                    speed,
                    ..ReplayPlan::default()
                });
            })
        };
        let repeat = startable(Wanted::Repeat, &[replayed(2.0)]).unwrap();
        let named = "/tmp/mine.sessions.jsonl, replayed at 2 times the original pace";
        let sessions = ("sessions".to_owned(), named.to_owned());
        assert!(repeat.executes.contains(&sessions), "{repeat:?}");
        let refused = startable(Wanted::Compare, &[replayed(1.0), replayed(2.0)]).unwrap_err();
        assert!(refused.contains("different work"), "{refused}");
    }

    #[test]
    fn targets_are_no_flags_whatever_they_are() {
        let hostile = |header: &mut RunHeader| {
            arm(header).typed = "--html=/etc/passwd".to_owned();
            arm(header).settings = vec![("--x".to_owned(), "a b' --load".to_owned())];
        };
        let runs = [recorded("run", hostile), recorded("run", |_| {})];
        let started = startable(Wanted::Compare, &runs).unwrap();
        let end = started.words.iter().position(|word| word == "--").unwrap();
        assert_eq!(started.words[end + 1..], ["--html=/etc/passwd", "temp:15"]);
        assert!(
            started
                .words
                .contains(&"--set-a=--x=a b' --load".to_owned())
        );
        assert!(!started.words.contains(&"--load".to_owned()));
        assert!(typed(&started.words).contains("'--set-a=--x=a b'\\'' --load'"));
        // Another load than it says, or none that this program knows.
        let other = |header: &mut RunHeader| {
            header.experiment.plan_mut().unwrap().workload.scripts[0].text =
                "DROP TABLE x".to_owned();
        };
        assert!(
            startable(
                Wanted::Compare,
                &[recorded("run", other), recorded("run", |_| {})]
            )
            .is_err()
        );
        assert!(
            startable(
                Wanted::Compare,
                &[recorded("run", other), recorded("run", other)]
            )
            .is_err()
        );
        let odd = |header: &mut RunHeader| arm(header).typed = "a\u{202e}b".to_owned();
        assert!(
            startable(
                Wanted::Compare,
                &[recorded("run", odd), recorded("run", |_| {})]
            )
            .is_err()
        );
    }
}
