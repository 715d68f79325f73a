//! pgbench's options and how they are typed: as getopt_long has it, in any order and with
//! unambiguous beginnings, each value as it stands.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use super::words::Refusal;

/// What an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Only `-i` has it.
    Tables,
    /// Only a run has it.
    Runs,
    /// Both have it.
    Both,
}

/// An option.
#[derive(Debug)]
pub struct Known {
    pub long: &'static str,
    short: Option<char>,
    takes_value: bool,
    pub used_for: For,
}

const fn flag(short: Option<char>, long: &'static str, used_for: For) -> Known {
    Known {
        long,
        short,
        takes_value: false,
        used_for,
    }
}

const fn value(short: Option<char>, long: &'static str, used_for: For) -> Known {
    Known {
        long,
        short,
        takes_value: true,
        used_for,
    }
}

/// The options of pgbench 18, `--continue-on-error` of 19, and our own `--resume`.
const OPTIONS: &[Known] = &[
    flag(Some('i'), "initialize", For::Both),
    value(Some('I'), "init-steps", For::Tables),
    value(Some('F'), "fillfactor", For::Tables),
    value(Some('s'), "scale", For::Both),
    flag(Some('q'), "quiet", For::Tables),
    flag(None, "foreign-keys", For::Tables),
    value(None, "index-tablespace", For::Tables),
    value(None, "tablespace", For::Tables),
    value(None, "partition-method", For::Tables),
    value(None, "partitions", For::Tables),
    flag(None, "unlogged-tables", For::Tables),
    flag(None, "resume", For::Tables),
    value(Some('b'), "builtin", For::Runs),
    value(Some('f'), "file", For::Runs),
    flag(Some('N'), "skip-some-updates", For::Runs),
    flag(Some('S'), "select-only", For::Runs),
    value(None, "show-script", For::Both),
    value(Some('c'), "client", For::Runs),
    flag(Some('C'), "connect", For::Runs),
    value(Some('D'), "define", For::Runs),
    value(Some('j'), "jobs", For::Runs),
    flag(Some('l'), "log", For::Runs),
    value(Some('L'), "latency-limit", For::Runs),
    value(Some('M'), "protocol", For::Runs),
    flag(Some('n'), "no-vacuum", For::Both),
    value(Some('P'), "progress", For::Runs),
    flag(Some('r'), "report-per-command", For::Runs),
    flag(None, "report-latencies", For::Runs),
    value(Some('R'), "rate", For::Runs),
    value(Some('t'), "transactions", For::Runs),
    value(Some('T'), "time", For::Runs),
    flag(Some('v'), "vacuum-all", For::Runs),
    value(None, "aggregate-interval", For::Runs),
    flag(None, "continue-on-error", For::Runs),
    flag(None, "exit-on-abort", For::Runs),
    flag(None, "failures-detailed", For::Runs),
    value(None, "log-prefix", For::Runs),
    value(None, "max-tries", For::Runs),
    flag(None, "progress-timestamp", For::Runs),
    value(None, "random-seed", For::Runs),
    value(None, "sampling-rate", For::Runs),
    flag(None, "verbose-errors", For::Runs),
    flag(None, "debug", For::Both),
    value(Some('d'), "dbname", For::Both),
    value(Some('h'), "host", For::Both),
    value(Some('p'), "port", For::Both),
    value(Some('U'), "username", For::Both),
    flag(Some('?'), "help", For::Both),
    flag(Some('V'), "version", For::Both),
];

/// An option as it was typed.
#[derive(Debug)]
pub struct Typed {
    pub option: &'static Known,
    /// Its value; empty for one that takes none.
    pub value: String,
}

/// A command line taken apart.
#[derive(Debug, Default)]
pub struct Line {
    /// In the order in which they stand.
    pub options: Vec<Typed>,
    /// What is no option.
    pub operands: Vec<String>,
}

const OPERANDS: &str = "DBNAME";

/// Takes a command line apart.
///
/// # Errors
/// What getopt_long says of an option that does not exist or lacks its value.
pub fn take_apart(words: &[OsString]) -> Result<Line, Refusal> {
    let words = old_debug(words);
    let mut command = Command::new("pgbench")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .infer_long_args(true)
        .arg(Arg::new(OPERANDS).action(ArgAction::Append).num_args(1..));
    for option in OPTIONS {
        let arg = Arg::new(option.long)
            .long(option.long)
            .action(ArgAction::Append);
        let arg = match option.short {
            Some(short) => arg.short(short),
            None => arg,
        };
        command = command.arg(if option.takes_value {
            arg.num_args(1).allow_hyphen_values(true)
        } else {
            arg.num_args(0).default_missing_value("")
        });
    }
    let matches = command
        .try_get_matches_from(&words)
        .map_err(|error| refusal(&error, &words))?;
    let texts = |id: &str| -> Vec<String> {
        let found = matches.get_many::<String>(id).into_iter().flatten();
        found.cloned().collect()
    };
    let mut typed: Vec<(usize, Typed)> = Vec::new();
    for option in OPTIONS {
        let places = matches.indices_of(option.long).into_iter().flatten();
        for (place, value) in places.zip(texts(option.long)) {
            typed.push((place, Typed { option, value }));
        }
    }
    typed.sort_by_key(|(place, _)| *place);
    Ok(Line {
        options: typed.into_iter().map(|(_, typed)| typed).collect(),
        operands: texts(OPERANDS),
    })
}

/// Up to release 16 `-d` is `--debug` and takes no value. Where another option or nothing follows
/// it, that is what is meant.
fn old_debug(words: &[OsString]) -> Vec<OsString> {
    let mut changed = words.to_vec();
    for (place, word) in words.iter().enumerate() {
        let next = words.get(place + 1).map(|next| next.to_string_lossy());
        let is_name = next.is_some_and(|next| !next.starts_with('-'));
        if word == "-d" && !is_name {
            changed[place] = "--debug".into();
        }
    }
    changed
}

/// clap's mistakes in getopt_long's words.
fn refusal(error: &clap::Error, words: &[OsString]) -> Refusal {
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let typed = argument.split([' ', '=']).next().unwrap_or(argument);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let Some(beginning) = typed.strip_prefix("--") else {
                let letter = typed.trim_start_matches('-');
                return Refusal::of_command_line(format!("invalid option -- '{letter}'"));
            };
            let possible: Vec<String> = OPTIONS
                .iter()
                .filter(|option| option.long.starts_with(beginning))
                .map(|option| format!("'--{}'", option.long))
                .collect();
            if beginning.is_empty() || possible.is_empty() {
                return Refusal::of_command_line(format!("unrecognized option '{typed}'"));
            }
            Refusal::of_command_line(format!(
                "option '{typed}' is ambiguous; possibilities: {}",
                possible.join(" ")
            ))
        }
        // The value that is missing is the last word's.
        ErrorKind::InvalidValue | ErrorKind::WrongNumberOfValues | ErrorKind::TooFewValues => {
            let last = words.last().map(|word| word.to_string_lossy());
            match last.as_deref() {
                Some(last) if !last.starts_with("--") => {
                    let letter = last.chars().last().unwrap_or('-');
                    Refusal::of_command_line(format!("option requires an argument -- '{letter}'"))
                }
                _ => Refusal::of_command_line(format!("option '{typed}' requires an argument")),
            }
        }
        ErrorKind::TooManyValues => {
            Refusal::of_command_line(format!("option '{typed}' doesn't allow an argument"))
        }
        _ => Refusal::of_command_line(error.render().to_string().trim().replace("error: ", "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Vec<(&'static str, String)>, String> {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        let line = take_apart(&words).map_err(|refusal| refusal.to_string())?;
        let mut all: Vec<(&str, String)> = line
            .options
            .into_iter()
            .map(|typed| (typed.option.long, typed.value))
            .collect();
        all.extend(line.operands.into_iter().map(|operand| ("", operand)));
        Ok(all)
    }

    fn own(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        pairs.iter().map(|(o, v)| (*o, (*v).to_owned())).collect()
    }

    #[test]
    fn options_are_read_as_getopt_long_reads_them() {
        for (text, expected) in [
            (
                "-nSt2 db -c -3 --trans=4 --max-tries -1",
                own(&[
                    ("no-vacuum", ""),
                    ("select-only", ""),
                    ("transactions", "2"),
                    ("client", "-3"),
                    ("transactions", "4"),
                    ("max-tries", "-1"),
                    ("", "db"),
                ]),
            ),
            ("-S -S", own(&[("select-only", ""), ("select-only", "")])),
            ("-d name -n", own(&[("dbname", "name"), ("no-vacuum", "")])),
            // pgbench up to 16
            ("-d -n", own(&[("debug", ""), ("no-vacuum", "")])),
            ("-n -d", own(&[("no-vacuum", ""), ("debug", "")])),
        ] {
            assert_eq!(line(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_as_getopt_long_tells_them() {
        for (text, expected) in [
            ("-n --bad-option", "unrecognized option '--bad-option'"),
            ("---debug", "unrecognized option '---debug'"),
            ("-Z", "invalid option -- 'Z'"),
            ("-n -c", "option requires an argument -- 'c'"),
            ("-nc", "option requires an argument -- 'c'"),
            ("--client", "option '--client' requires an argument"),
            (
                "--part=4",
                "option '--part' is ambiguous; possibilities: '--partition-method' '--partitions'",
            ),
        ] {
            let told = line(text).unwrap_err();
            let (first, hint) = told.split_once('\n').unwrap();
            assert_eq!(first, format!("pgbench: {expected}"));
            assert!(hint.contains("--help"), "{hint}");
        }
    }
}
