//! `--from`: the machines that the load comes from.

use std::fmt;
use std::str::FromStr;

use pgassay_far::Place;
use pgassay_model::Failure;

/// A machine that gives load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This one.
    Local,
    /// Another one.
    Far(Place),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Far(place) => place.fmt(f),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "local" => Ok(Self::Local),
            text if Place::is_meant(text) => Place::parse(text)
                .map(Self::Far)
                .map_err(|error| error.to_string()),
            text => Err(format!(
                "`{text}` is no machine: write local, ssh://[user@]host or exec:COMMAND"
            )),
        }
    }
}

/// Machines that give a load together, in the order of their clients' numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FromList(pub Vec<Source>);

impl FromStr for FromList {
    type Err = String;

    /// Separated by commas; one that is followed by no machine belongs to a command.
    fn from_str(text: &str) -> Result<Self, String> {
        let begins = |text: &str| {
            let text = text.trim_start();
            let local = text.strip_prefix("local");
            Place::is_meant(text)
                || local.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
        };
        let mut sources = Vec::new();
        let mut rest = text;
        loop {
            let mut commas = rest.match_indices(',').map(|(at, _)| at);
            // Outside of a command every comma is one between machines.
            let command = rest.trim_start().starts_with("exec:");
            let end = commas.find(|at| !command || begins(&rest[at + 1..]));
            sources.push(rest[..end.unwrap_or(rest.len())].parse()?);
            match end {
                Some(end) => rest = &rest[end + 1..],
                None => return Ok(Self(sources)),
            }
        }
    }
}

impl FromList {
    /// As they are recorded.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(Source::to_string).collect()
    }

    /// Those that a run recorded. A run may be somebody else's: a command that it names is not started.
    ///
    /// # Errors
    /// Where one is a command, or none.
    pub fn recorded(names: &[String]) -> Result<Self, Failure> {
        if names.iter().any(|name| name.starts_with("exec:")) {
            return Err(Failure::usage(format!(
                "the load of the recorded run came by a command, which is not started from a record: {}",
                names.join(",")
            ))
            .with_remedy("type it again: --from, with the same machines"));
        }
        let sources: Result<Vec<Source>, String> = names.iter().map(|name| name.parse()).collect();
        sources.map(Self).map_err(Failure::usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.parse::<FromList>().unwrap().names()
    }

    #[test]
    fn machines_are_told_apart_by_commas_and_commands_may_hold_some() {
        assert_eq!(names("local"), ["local"]);
        assert_eq!(
            names("ssh://c1,ssh://me@c2:2222,local"),
            ["ssh://c1", "ssh://me@c2:2222", "local"]
        );
        assert_eq!(
            names("exec:srun -w a,b -n1,exec:docker exec -i c,local"),
            ["exec:srun -w a,b -n1", "exec:docker exec -i c", "local"]
        );
        assert_eq!(names("exec:x a,localhost"), ["exec:x a,localhost"]);
        for wrong in [
            "",
            "c1",
            "local,",
            "ssh://",
            "ssh://c1/temp",
            "local,c2",
            "exec:",
        ] {
            assert!(wrong.parse::<FromList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_record_starts_no_command() {
        let recorded = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            FromList::recorded(&names)
        };
        assert_eq!(recorded(&["ssh://c1", "local"]).unwrap().0.len(), 2);
        let refused = recorded(&["local", "exec:sh -c evil"]).unwrap_err();
        assert!(refused.remedy.unwrap().contains("--from"));
    }
}
