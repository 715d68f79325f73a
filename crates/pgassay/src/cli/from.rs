//! `--from`: the machines that the load comes from.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::Args as ClapArgs;
use pgassay_engine::agents::Outside;
use pgassay_far::Place;
use pgassay_model::Failure;
use pgassay_server::{Listen, Listening};

use super::kinds::OF_CLIENTS;

/// A machine that gives load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This one.
    Local,
    /// The one where the command was typed, which is this one unless the target is elsewhere.
    Here,
    /// Another one.
    Far(Place),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Here => f.write_str("here"),
            Self::Far(place) => place.fmt(f),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "local" => Ok(Self::Local),
            "here" => Ok(Self::Here),
            text if Place::is_meant(text) => Place::parse(text)
                .map(Self::Far)
                .map_err(|error| error.to_string()),
            text => Err(format!(
                "`{text}` is no machine: write local, here, ssh://[user@]host or exec:COMMAND"
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
            let is_word = |word: &str| {
                let rest = text.strip_prefix(word);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
            };
            Place::is_meant(text) || is_word("local") || is_word("here")
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

impl fmt::Display for FromList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(","))
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

/// How the machines that the load comes from reach the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, ClapArgs)]
pub struct WayArgs {
    /// Where a launched server listens for the load of other machines, as long as it runs [default: the
    /// address by which ssh came, a free port]
    #[arg(group = OF_CLIENTS, long, value_name = "ADDRESS[:PORT]")]
    pub listen: Option<ListenAt>,
    /// By what the load's machines reach a running server, such as 'host=10.0.0.5 port=5433'; the rest is as
    /// in the target [default: the host of ssh]
    #[arg(group = OF_CLIENTS, long, value_name = "SETTINGS")]
    pub load_conninfo: Option<String>,
}

/// An address of the machine of the server, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAt {
    /// The address.
    pub address: IpAddr,
    /// The first port that is tried.
    pub port: Option<u16>,
}

impl fmt::Display for ListenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, port) = match text.parse::<SocketAddr>() {
            Ok(at) => (at.ip(), Some(at.port())),
            Err(_) => {
                let bare = text
                    .strip_prefix('[')
                    .and_then(|text| text.strip_suffix(']'));
                let address = bare.unwrap_or(text).parse::<IpAddr>();
                (
                    address.map_err(|_| {
                        format!("`{text}` is no address: write 10.0.0.5, 10.0.0.5:6000 or [fd00::5]:6000")
                    })?,
                    None,
                )
            }
        };
        // A server listens at the IPv4 address that an IPv6 address stands for.
        let address = address.to_canonical();
        if address.is_unspecified() {
            return Err(
                "name one address, which the load's machines reach: not all of them".to_owned(),
            );
        }
        Ok(Self {
            address,
            port: port.filter(|port| *port > 0),
        })
    }
}

/// How servers are reached from outside, as it was found out.
#[derive(Debug, Clone, Default)]
pub struct Ways {
    /// Where launched servers listen.
    pub listen: Option<Listen>,
    /// What differs in the connection string of a running one.
    pub conninfo: Option<String>,
}

impl Ways {
    /// The way to a running server, where it is another than ours.
    pub fn of_running(&self) -> Option<Outside> {
        let settings = self.conninfo.clone()?;
        Some(Outside {
            settings,
            password: None,
        })
    }

    /// The way to a launched server that listens.
    pub fn of_launched(&self, listening: &Listening) -> Outside {
        Outside {
            settings: listening.settings(),
            password: Some(listening.password().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_at_is_one_and_may_have_a_port() {
        let at = |text: &str| {
            text.parse::<ListenAt>()
                .map(|at| (at.address.to_string(), at.port))
        };
        for same in ["10.0.0.5", "10.0.0.5:6000", "fd00::5", "[fd00::5]:6000"] {
            assert_eq!(same.parse::<ListenAt>().unwrap().to_string(), same);
        }
        assert_eq!(at("10.0.0.5").unwrap(), ("10.0.0.5".into(), None));
        assert_eq!(
            at("10.0.0.5:6000").unwrap(),
            ("10.0.0.5".into(), Some(6000))
        );
        assert_eq!(at("fd00::5").unwrap(), ("fd00::5".into(), None));
        assert_eq!(at("[fd00::5]").unwrap(), ("fd00::5".into(), None));
        assert_eq!(
            at("[fd00::5]:6000").unwrap(),
            ("fd00::5".into(), Some(6000))
        );
        for mapped in ["::ffff:10.0.0.5", "[::ffff:10.0.0.5]"] {
            assert_eq!(at(mapped).unwrap(), ("10.0.0.5".into(), None));
        }
        assert_eq!(
            at("[::ffff:10.0.0.5]:6000").unwrap(),
            ("10.0.0.5".into(), Some(6000))
        );
        for wrong in [
            "",
            "db1",
            "0.0.0.0",
            "::ffff:0.0.0.0",
            "[::]:6000",
            "10.0.0.5:x",
            "*",
        ] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }

    fn names(text: &str) -> Vec<String> {
        text.parse::<FromList>().unwrap().names()
    }

    #[test]
    fn machines_are_told_apart_by_commas_and_commands_may_hold_some() {
        assert_eq!(names("local"), ["local"]);
        assert_eq!(names("here,ssh://c1"), ["here", "ssh://c1"]);
        assert_eq!(names("exec:x -w a,here"), ["exec:x -w a", "here"]);
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
