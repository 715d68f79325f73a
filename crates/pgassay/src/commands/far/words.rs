//! A command line for another machine: which one, and what is typed there.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;
use pgassay_far::Place;
use pgassay_model::Failure;

use super::given::{Given, files, given_name, rows, show};
use super::page::{self, Page};
use super::rules::Typed;
use super::say;
use crate::cli::Args;
use crate::cli::args::Command;
use crate::cli::from::{FromList, Source};
use crate::secrets;

/// A command for another machine.
#[derive(Debug, Clone)]
pub struct There {
    /// Which.
    pub place: Place,
    /// What is typed there, without the program's name.
    pub words: Vec<String>,
    /// Files of this machine that it names.
    pub given: Vec<Given>,
    /// Files that it is to write on this machine, by number.
    pub outputs: Vec<PathBuf>,
    /// The page that is to be written on this machine.
    pub page: Option<Page>,
    /// Its `--scratch`.
    pub scratch: Option<String>,
    /// What was typed of a load that comes from here.
    pub load: Option<Typed>,
}

/// Where the command belongs, if not here.
///
/// # Errors
/// Where its servers are on several machines, or it can't be carried out elsewhere.
pub fn sought(args: &Args, typed: &[OsString]) -> anyhow::Result<Option<There>> {
    let on = match &args.global.on {
        Some(on) => Some(Place::parse(on).map_err(|e| Failure::usage(format!("--on: {e}")))?),
        None => None,
    };
    let targets = targets(&args.command);
    let far = targets.iter().any(|target| Place::is_meant(target));
    if on.is_none() && !far {
        return Ok(None);
    }
    let name = name_of(&args.command)?;
    let mut place = on;
    let mut replaced = Vec::new();
    for target in targets {
        let (there, left) = match Place::is_meant(target) {
            true => {
                let (there, left) =
                    Place::of_target(target).map_err(|e| Failure::usage(e.to_string()))?;
                (there, left)
            }
            // With --on, all of them are there.
            false if args.global.on.is_some() => {
                replaced.push((target.to_owned(), target.to_owned()));
                continue;
            }
            false => {
                let elsewhere = targets_far(&args.command);
                bail!(several(&format!(
                    "{elsewhere} is on another machine, {} is here",
                    secrets::shown(target)
                )))
            }
        };
        match &place {
            Some(place) if *place != there => {
                bail!(several(&format!("{place} and {there} are two machines")))
            }
            _ => place = Some(there),
        }
        let left = match left.as_str() {
            "" => "temp".to_owned(),
            _ => left,
        };
        replaced.push((target.to_owned(), left));
    }
    let Some(place) = place else { return Ok(None) };
    // It would stand in the run and in every report of it.
    let shown = place.to_string();
    if secrets::shown(&shown) != shown {
        bail!(
            Failure::usage("the command that leads to another machine holds a password")
                .with_remedy(
                    "leave it out: name a host of ~/.ssh/config, or let the machine there have it"
                )
        );
    }
    let mut words = Vec::new();
    for word in typed.iter().skip(1) {
        let Some(word) = word.to_str() else {
            bail!(Failure::usage(
                "the command line is no text: it can't be sent to another machine"
            ))
        };
        words.push(word.to_owned());
    }
    refuse_what_is_here(&args.command, name, &words)?;
    for flag in ["--runs", "--on", "--far-program"] {
        strip(&mut words, flag);
    }
    for (from, to) in &replaced {
        substitute(&mut words, from, to);
    }
    let mut given = Vec::new();
    for path in files(&args.command) {
        let name = given_name(&path, given.len());
        if let (Some(from), true) = (path.to_str(), name.as_str() != path.as_os_str()) {
            substitute(&mut words, from, &name);
        }
        let rows = match args.command {
            Command::Run(_) | Command::Compare(_) => rows(&path, &name),
            _ => Vec::new(),
        };
        given.push(Given { from: path, name });
        given.extend(rows);
    }
    let page = Page::of(&args.command, name)?;
    if page.is_some() {
        strip(&mut words, "--html");
    }
    let mut outputs: Vec<PathBuf> = Vec::new();
    for path in written(&args.command) {
        page::refuse_name(&path)?;
        if let Some(from) = path.to_str() {
            substitute(&mut words, from, &say::output(outputs.len()));
        }
        outputs.push(path);
    }
    if let (Some(page), Command::Check(_)) = (&page, &args.command) {
        words.push(format!("--facts={}", say::output(outputs.len())));
        outputs.push(page.to.clone());
    }
    for word in &words {
        if secrets::shown(word) != *word {
            bail!(
                Failure::usage("a password on the command line is not sent to another machine")
                    .with_remedy(
                        "leave it out, and put it into ~/.pgpass or the service file there"
                    )
            );
        }
    }
    let scratch = value_of(&words, "--scratch");
    let load = load_from_here(&words, replaced.into_iter().map(|(_, left)| left).collect());
    Ok(Some(There {
        place,
        words,
        given,
        outputs,
        page,
        scratch,
        load,
    }))
}

/// What was typed of the load, where `--from` names this machine. What is no list, or no address, is refused there.
fn load_from_here(words: &[String], targets: Vec<String>) -> Option<Typed> {
    let list: FromList = value_of(words, "--from")?.parse().ok()?;
    list.0.contains(&Source::Here).then(|| Typed {
        targets,
        listen: value_of(words, "--listen").and_then(|at| at.parse().ok()),
        conninfo: value_of(words, "--load-conninfo"),
    })
}

fn several(what: &str) -> Failure {
    Failure::usage(format!(
        "{what}: the servers of one command are on one machine"
    ))
    .with_remedy("measure each by itself, and hold the runs side by side: pgassay compare-runs A B")
}

/// The name of a command that can be carried out elsewhere.
fn name_of(command: &Command) -> Result<&'static str, Failure> {
    Ok(match command {
        Command::Assay(_) => "assay",
        Command::Check(_) => "check",
        Command::Collect(_) => "collect",
        Command::Compare(_) => "compare",
        Command::Diagnose(_) => "diagnose",
        Command::Doctor(_) => "doctor",
        Command::Inspect(_) => "inspect",
        Command::Lab(_) => "lab",
        Command::Patch(_) => "patch",
        Command::Run(_) => "run",
        Command::Targets(_) => "targets",
        Command::Watch(_) => "watch",
        _ => {
            return Err(Failure::usage("this command is carried out here only").with_remedy(
                "assay, check, collect, compare, diagnose, doctor, inspect, lab, patch, run, targets and \
                 watch can be carried out on another machine",
            ));
        }
    })
}

/// The targets of a command, as typed.
fn targets(command: &Command) -> Vec<&str> {
    match command {
        Command::Assay(args) => args.target.target.iter().map(String::as_str).collect(),
        Command::Run(args) => args.target.target.iter().map(String::as_str).collect(),
        Command::Compare(args) => args.targets.iter().map(String::as_str).collect(),
        Command::Inspect(args) => args.inputs.iter().map(String::as_str).collect(),
        Command::Check(args) => args.look.target.iter().map(String::as_str).collect(),
        Command::Collect(args) => args.look.target.iter().map(String::as_str).collect(),
        Command::Watch(args) => vec![args.target.as_str()],
        _ => Vec::new(),
    }
}

/// The first of them that is elsewhere.
fn targets_far(command: &Command) -> &str {
    let mut targets = targets(command).into_iter();
    targets
        .find(|target| Place::is_meant(target))
        .unwrap_or_default()
}

/// Flags that name recorded runs.
const OF_RECORDED: [&str; 5] = ["--resume", "--repeat", "--recorded", "--pool", "--report"];

/// Whether a word is this flag, with its value or without.
fn is_flag(word: &str, flag: &str) -> bool {
    let rest = word.strip_prefix(flag);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// Refuses flags that mean something on this machine only.
fn refuse_what_is_here(command: &Command, name: &str, words: &[String]) -> anyhow::Result<()> {
    let recorded = |flag: &str| {
        Failure::usage(format!(
            "{flag} reads runs that are recorded here; {name} is carried out on another machine"
        ))
        .with_remedy("leave the other machine out; what was measured there is kept here, too")
    };
    let typed = |flag: &str| words.iter().any(|word| is_flag(word, flag));
    if ["--watch", "--open"].iter().any(|flag| typed(flag)) {
        bail!(
            Failure::usage("--watch and --open show what is measured here").with_remedy(
                "pgassay follow, or pgassay serve, shows the run as it comes from there"
            )
        );
    }
    if let Some(flag) = OF_RECORDED.iter().find(|flag| typed(flag)) {
        bail!(recorded(flag));
    }
    match command {
        Command::Diagnose(args) if args.run.is_some() => bail!(recorded("diagnose RUN")),
        Command::Doctor(args) if args.fix => bail!(
            Failure::usage("--fix changes this machine only")
                .with_remedy("pgassay doctor --on PLACE shows the lines; run them there")
        ),
        _ => Ok(()),
    }
}

/// The files that a command writes for the user, but for a page.
fn written(command: &Command) -> Vec<PathBuf> {
    let shown = show(command).and_then(|show| show.output.as_ref());
    let own = match command {
        Command::Collect(args) => args.output.as_ref(),
        Command::Patch(args) => args.save_plan.as_ref(),
        _ => None,
    };
    shown.into_iter().chain(own).cloned().collect()
}

/// Flags whose values are places, and no targets.
const PLACES: &[&str] = &["--from", "--on"];

/// Puts another value where one is typed: as a word, as `--flag=VALUE`, `-fVALUE`, or before an `@`.
fn substitute(words: &mut [String], from: &str, to: &str) {
    for n in 0..words.len() {
        if n > 0 && PLACES.contains(&words[n - 1].as_str()) {
            continue;
        }
        let word = &words[n];
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") && !PLACES.contains(&flag) => {
                (format!("{flag}="), value)
            }
            _ if word.starts_with('-')
                && !word.starts_with("--")
                && word.is_char_boundary(2.min(word.len())) =>
            {
                let (flag, value) = word.split_at(2.min(word.len()));
                (flag.to_owned(), value)
            }
            _ => (String::new(), word.as_str()),
        };
        let rest = match value.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('@') => rest,
            _ => continue,
        };
        words[n] = format!("{flag}{to}{rest}");
    }
}

/// Takes a flag with its value away.
fn strip(words: &mut Vec<String>, flag: &str) {
    while let Some(at) = words.iter().position(|word| word == flag) {
        words.drain(at..(at + 2).min(words.len()));
    }
    let joined = format!("{flag}=");
    words.retain(|word| !word.starts_with(&joined));
}

fn value_of(words: &[String], flag: &str) -> Option<String> {
    let joined = format!("{flag}=");
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == flag {
            return words.next().cloned();
        }
        if let Some(value) = word.strip_prefix(&joined) {
            return Some(value.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought_in(words: &[&str]) -> anyhow::Result<Option<There>> {
        let typed: Vec<OsString> = ["pgassay"]
            .iter()
            .chain(words)
            .map(OsString::from)
            .collect();
        let args = crate::cli::parse(typed.clone()).unwrap();
        sought(&args, &typed)
    }

    fn words_there(words: &[&str]) -> (String, String) {
        let there = sought_in(words).unwrap().unwrap();
        (there.place.to_string(), there.words.join(" "))
    }

    #[test]
    fn the_place_is_taken_off_and_the_rest_stays() {
        let cases: &[(&[&str], &str, &str)] = &[
            (
                &["run", "select-only", "ssh://db1/temp:15", "-c", "1,2"],
                "ssh://db1",
                "run select-only temp:15 -c 1,2",
            ),
            (
                &[
                    "--runs",
                    "/x",
                    "compare",
                    "ssh://db1/temp:15",
                    "ssh://db1/build:x",
                    "--runs=/y",
                ],
                "ssh://db1",
                "compare temp:15 build:x",
            ),
            (
                &["assay", "exec:docker exec -i c // temp"],
                "exec:docker exec -i c",
                "assay temp",
            ),
            (&["check", "ssh://db1"], "ssh://db1", "check temp"),
            (
                &["doctor", "--on", "ssh://me@db1:22"],
                "ssh://me@db1:22",
                "doctor",
            ),
            (
                &["compare", "temp:15", "temp:16", "--on", "ssh://db1"],
                "ssh://db1",
                "compare temp:15 temp:16",
            ),
            (
                &["watch", "ssh://db1/?dbname=app", "--count", "1"],
                "ssh://db1",
                "watch postgresql:///?dbname=app --count 1",
            ),
        ];
        for (typed, place, left) in cases {
            let (found, words) = words_there(typed);
            assert_eq!(
                (found.as_str(), words.as_str()),
                (*place, *left),
                "{typed:?}"
            );
        }
        assert!(sought_in(&["assay", "temp:15"]).unwrap().is_none());
    }

    #[test]
    fn what_can_not_be_done_there_is_refused_here() {
        let cases: &[(&[&str], &str)] = &[
            (
                &["compare", "ssh://db1/temp", "ssh://db2/temp"],
                "two machines",
            ),
            (&["compare", "ssh://db1/temp", "temp:15"], "temp:15 is here"),
            (
                &["compare", "ssh://db2/temp", "temp:15", "--on", "ssh://db1"],
                "two machines",
            ),
            (
                &["lab", "--report", "last", "--on", "ssh://db1"],
                "--report reads runs",
            ),
            (&["doctor", "--fix", "--on", "ssh://db1"], "--fix"),
            (&["runs", "--on", "ssh://db1"], "carried out here only"),
            (&["assay", "ssh://db1/temp", "--watch"], "--watch"),
            (&["check", "ssh://db1/host=h password=geheim"], "password"),
            (&["check", "ssh://u:p@db1/temp"], "password"),
            (&["doctor", "--on", "db1"], "--on"),
        ];
        for (typed, why) in cases {
            let error = format!("{:#}", sought_in(typed).unwrap_err());
            assert!(error.contains(why), "{typed:?}: {error}");
            assert!(!error.contains("geheim"));
        }
    }

    #[test]
    fn files_of_this_machine_go_there_and_what_is_written_comes_back() {
        let dir =
            pgassay_sys::private::Directory::make(&std::env::temp_dir(), "pgassay-words").unwrap();
        let script = dir.path().join("mine.sql");
        let text = "\\draw a from file rows.csv\nSELECT :a;";
        std::fs::write(&script, text).unwrap();
        std::fs::write(dir.path().join("rows.csv"), "1\n").unwrap();
        let script = script.to_str().unwrap();
        let weighted = format!("{script}@3");
        let out = dir.path().join("out.json");
        let there = sought_in(&["run", script, "ssh://db1/", "--file", &weighted])
            .unwrap()
            .unwrap();
        assert_eq!(
            there.words.join(" "),
            "run given-0/mine.sql temp --file given-0/mine.sql@3"
        );
        let names: Vec<&str> = there
            .given
            .iter()
            .map(|given| given.name.as_str())
            .collect();
        assert_eq!(names, ["given-0/mine.sql", "given-0/rows.csv"]);
        let output = format!("--output={}", out.display());
        let there = sought_in(&["collect", "ssh://db1/", &output])
            .unwrap()
            .unwrap();
        assert_eq!(there.words.join(" "), "collect temp --output=out-0");
        assert_eq!(there.outputs, [out]);
    }

    #[test]
    fn a_page_is_asked_for_as_data_or_refused() {
        let cases: &[(&[&str], &str)] = &[
            (
                &["check", "ssh://db1/", "--html=a.html"],
                "check temp --facts=out-0",
            ),
            (
                &[
                    "compare",
                    "ssh://db1/temp",
                    "ssh://db1/temp",
                    "--html",
                    "a.html",
                    "--json",
                ],
                "compare temp temp --json",
            ),
            (
                &["lab", "power8", "--html=a.html", "--on", "ssh://db1"],
                "lab power8",
            ),
        ];
        for (typed, words) in cases {
            let there = sought_in(typed).unwrap().unwrap();
            assert_eq!(there.words.join(" "), *words);
            assert_eq!(there.page.map(|page| page.to), Some("a.html".into()));
        }
        let refused: &[&[&str]] = &[
            &["watch", "ssh://db1/?dbname=app", "--html", "a.html"],
            &["inspect", "ssh://db1/temp", "--html=a.html"],
            &[
                "diagnose",
                "--perf",
                "x",
                "--on",
                "ssh://db1",
                "--html=a.html",
            ],
            &[
                "compare",
                "ssh://db1/temp",
                "ssh://db1/temp",
                "--by",
                "instructions",
                "--html=a.html",
            ],
            &[
                "inspect",
                "ssh://db1/temp",
                "--format",
                "html",
                "--output",
                "a",
            ],
            &["inspect", "ssh://db1/temp", "--json", "--output", "a.html"],
            &["collect", "ssh://db1/temp", "--output=a.SVG"],
        ];
        for typed in refused {
            let error = format!("{:#}", sought_in(typed).unwrap_err());
            assert!(error.contains("page"), "{typed:?}: {error}");
        }
    }
}
