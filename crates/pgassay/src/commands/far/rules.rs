//! What a load engine here does for a far side, which nobody here trusts: it goes to the servers that the
//! user named, by the user's own words, and runs statements there, but no programs here.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use pgassay_engine::agents::{Clients, Found, Maker, Preparation, Refusal, RefusalKind, Server};
use pgassay_engine::drivers::wire::Engines;
use pgassay_engine::workload;
use pgassay_far::{Place, place};
use pgassay_load::script;
use pgassay_model::Failure;
use pgassay_pgwire::Conninfo;
use pgassay_server::TargetSpec;

use crate::cli::from::ListenAt;

/// Settings of a connection that a far side may choose.
const THEIRS: [&str; 7] = [
    "port",
    "user",
    "dbname",
    "application_name",
    "options",
    "client_encoding",
    "target_session_attrs",
];

/// Settings of a target that mean here what they mean there.
const OURS: [&str; 9] = [
    "hostaddr",
    "port",
    "user",
    "dbname",
    "sslmode",
    "sslnegotiation",
    "channel_binding",
    "require_auth",
    "connect_timeout",
];

/// What was typed of a load from here.
#[derive(Debug, Clone, Default)]
pub struct Typed {
    /// The targets there.
    pub targets: Vec<String>,
    /// Where a launched server is to listen.
    pub listen: Option<ListenAt>,
    /// How a running server is reached from here.
    pub conninfo: Option<String>,
}

/// Keywords and values of a connection string.
type Pairs = Vec<(String, String)>;

/// Makes clients within these rules.
#[derive(Debug, Clone, Default)]
pub struct Guarded {
    /// Addresses at which launched servers may be.
    launched: Vec<IpAddr>,
    /// The running servers that were named: their host as it is there, and what holds here.
    running: Vec<(Option<String>, Pairs)>,
}

impl Guarded {
    /// The rules for what was typed.
    ///
    /// # Errors
    /// Where it does not say how a running server is reached from here.
    pub fn of(typed: &Typed, place: &Place, ssh: &[String]) -> anyhow::Result<Self> {
        let host = match place {
            Place::Ssh { destination, port } => Some(host_of(destination, *port, ssh)),
            Place::Exec { .. } => None,
        };
        let launched = match (typed.listen, &host) {
            (Some(at), _) => vec![at.address],
            (None, Some(host)) => {
                let found = (host.as_str(), 0).to_socket_addrs();
                found.map_or_else(
                    |_| Vec::new(),
                    |all| all.map(|at| at.ip().to_canonical()).collect(),
                )
            }
            (None, None) => Vec::new(),
        };
        let own = match &typed.conninfo {
            Some(text) => Conninfo::pairs(text)
                .map_err(|error| Failure::usage(format!("--load-conninfo: {error}")))?,
            None => Vec::new(),
        };
        let mut running = Vec::new();
        for target in &typed.targets {
            if !matches!(target.parse(), Ok(TargetSpec::Server(_))) {
                continue;
            }
            let target = Conninfo::pairs(target).map_err(|e| Failure::usage(e.to_string()))?;
            let there = value(&target, "host").or(value(&target, "hostaddr"));
            let there = there.map(str::to_owned);
            let mut pairs: Pairs = target
                .into_iter()
                .filter(|(name, _)| OURS.contains(&name.as_str()))
                .collect();
            match there.as_ref().filter(|host| !is_own(host)) {
                Some(elsewhere) => pairs.push(("host".to_owned(), elsewhere.clone())),
                None => {
                    pairs.retain(|(name, _)| name != "hostaddr");
                    pairs.extend(host.iter().map(|host| ("host".to_owned(), host.clone())));
                }
            }
            if own.iter().any(|(name, _)| name == "host") {
                pairs.retain(|(name, _)| name != "hostaddr");
            }
            pairs.extend(own.iter().cloned());
            if value(&pairs, "host").is_none() && value(&pairs, "hostaddr").is_none() {
                bail!(
                    Failure::usage(
                        "it is not known how the server is reached from here, where the load is to come from"
                    )
                    .with_remedy("name its address: --load-conninfo 'host=ADDRESS'")
                );
            }
            running.push((there, pairs));
        }
        Ok(Self { launched, running })
    }

    /// The server as we go to it.
    fn server(&self, asked: &Server) -> Result<Server, Refusal> {
        let pairs = Conninfo::pairs(&asked.conninfo).map_err(|error| refused(error.to_string()))?;
        let theirs = |name: &&str| value(&pairs, name).is_some();
        let theirs = THEIRS.iter().filter(|name| theirs(name));
        let theirs = theirs.map(|name| (*name, value(&pairs, name).unwrap_or_default()));
        let conninfo = match &asked.password {
            Some(_) => {
                let host = value(&pairs, "host").unwrap_or_default();
                let address = host.parse().map(|address: IpAddr| address.to_canonical());
                if !address.is_ok_and(|address| self.launched.contains(&address)) {
                    return Err(refused(format!(
                        "the server listens at {}, which is no address of the machine that was named; if it is \
                         one, say so with --listen",
                        pgassay_text::line(host)
                    )));
                }
                // Nothing of ours goes to a server whose password came with it.
                let fixed = [
                    ("host", host),
                    ("hostaddr", host),
                    ("sslmode", "disable"),
                    ("channel_binding", "disable"),
                    ("require_auth", "scram-sha-256"),
                    ("passfile", "/dev/null"),
                ];
                Conninfo::of_pairs(theirs.chain(fixed))
            }
            None => {
                let first = pairs.iter().find(|(name, _)| name == "host");
                let host = first.map(|(_, host)| host.as_str());
                let named = |(there, _): &&(Option<String>, Pairs)| {
                    there.as_deref().filter(|there| !there.is_empty()) == host
                };
                let on_socket = |(there, _): &&(Option<String>, Pairs)| {
                    there.as_deref().is_none_or(is_own) && host.is_none_or(is_own)
                };
                let known = self.running.iter().find(named);
                let known = known.or_else(|| self.running.iter().find(on_socket));
                let Some((_, ours)) = known else {
                    return Err(refused(
                        "load is asked for on a server that was not named".to_owned(),
                    ));
                };
                let ours = ours
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()));
                Conninfo::of_pairs(theirs.chain(ours))
            }
        };
        Ok(Server {
            conninfo,
            password: asked.password.clone(),
        })
    }
}

impl Maker for Guarded {
    fn reach(&self, server: &Server) -> Result<Found, Refusal> {
        Engines.reach(&self.server(server)?)
    }

    fn clients(
        &self,
        preparation: &Preparation,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Box<dyn Clients>, Refusal> {
        let workload = &preparation.plan.workload;
        let program = workload::program(workload).map_err(|e| refused(e.to_string()))?;
        let runs = |command: &script::Command| {
            matches!(
                command,
                script::Command::Shell(_) | script::Command::SetShell(..)
            )
        };
        let mut scripts = program.scripts().iter();
        if scripts.any(|script| script.commands.iter().any(runs)) {
            return Err(refused(
                "\\shell and \\setshell of its scripts are not run here for another machine"
                    .to_owned(),
            ));
        }
        let own = Preparation {
            plan: preparation.plan.clone(),
            server: self.server(&preparation.server)?,
        };
        Engines.clients(&own, cancelled)
    }
}

fn refused(text: String) -> Refusal {
    Refusal {
        kind: RefusalKind::Other,
        text,
    }
}

/// The value that counts: the last.
fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = pairs.iter().rfind(|(known, _)| known == name)?;
    Some(found.1.as_str()).filter(|value| !value.is_empty())
}

/// Whether a host means the machine itself, there as here.
fn is_own(host: &str) -> bool {
    host.is_empty()
        || host.starts_with(['/', '@'])
        || host == "localhost"
        || host.parse().is_ok_and(|host: IpAddr| host.is_loopback())
}

/// The name or address behind a destination of ssh, as its configuration has it.
fn host_of(destination: &str, port: Option<u16>, ssh: &[String]) -> String {
    let typed = destination
        .rsplit_once('@')
        .map_or(destination, |(_, host)| host);
    let configured = || {
        let (program, before) = ssh.split_first()?;
        let mut command = pgassay_sys::programs::command(program);
        command.args(before).arg("-G");
        if let Some(port) = port {
            command.arg("-p").arg(port.to_string());
        }
        let output = command.args(["--", destination]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let host = text
            .lines()
            .find_map(|line| line.strip_prefix("hostname "))?;
        output.status.success().then(|| host.trim().to_owned())
    };
    configured()
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| typed.to_owned())
}

/// The words that stand for `ssh`.
///
/// # Errors
/// Where they are none.
pub fn ssh() -> Result<Vec<String>, Failure> {
    let ssh = std::env::var("PGASSAY_SSH").unwrap_or_else(|_| "ssh".to_owned());
    place::words(&ssh).map_err(|e| Failure::usage(format!("PGASSAY_SSH: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(place: &str, targets: &[&str], conninfo: Option<&str>) -> anyhow::Result<Guarded> {
        let typed = Typed {
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            listen: "127.0.0.1".parse().ok(),
            conninfo: conninfo.map(str::to_owned),
        };
        // Stands for an ssh that knows of no configuration.
        let ssh = ["false".to_owned()];
        Guarded::of(&typed, &Place::parse(place).unwrap(), &ssh)
    }

    fn asked(conninfo: &str, password: Option<&str>) -> Server {
        Server {
            conninfo: conninfo.to_owned(),
            password: password.map(str::to_owned),
        }
    }

    #[test]
    fn a_launched_server_is_reached_at_a_named_address_with_its_own_password_only() {
        let rules = rules("exec:x", &["temp"], None).unwrap();
        let base = "host=/tmp/pga-x port=5432 user=postgres dbname=d options='-c a=b'";
        let good =
            format!("{base} host=127.0.0.1 port=4711 user=pgassay_load passfile=/x service=y");
        let server = rules.server(&asked(&good, Some("drawn"))).unwrap();
        let pairs = Conninfo::pairs(&server.conninfo).unwrap();
        for (name, wanted) in [
            ("host", "127.0.0.1"),
            ("hostaddr", "127.0.0.1"),
            ("port", "4711"),
            ("user", "pgassay_load"),
            ("options", "-c a=b"),
            ("passfile", "/dev/null"),
            ("require_auth", "scram-sha-256"),
        ] {
            assert_eq!(value(&pairs, name), Some(wanted), "{name}");
        }
        assert_eq!(value(&pairs, "service"), None);
        for host in ["10.0.0.9", "db1", "/tmp", "127.0.0.1,10.0.0.9"] {
            let elsewhere = asked(&format!("{base} host={host}"), Some("drawn"));
            assert!(rules.server(&elsewhere).is_err(), "{host}");
        }
        // However it was typed, a server listens at the IPv4 address.
        let typed = |place: &str, listen: &str| {
            let typed = Typed {
                listen: listen.parse().ok(),
                ..Typed::default()
            };
            let ssh = ["false".to_owned()];
            Guarded::of(&typed, &Place::parse(place).unwrap(), &ssh).unwrap()
        };
        for (place, listen) in [
            ("exec:x", "::ffff:127.0.0.1"),
            ("exec:x", "[::ffff:127.0.0.1]:6000"),
            ("ssh://[::ffff:127.0.0.1]", ""),
        ] {
            let server = typed(place, listen).server(&asked(&good, Some("drawn")));
            assert!(server.is_ok(), "{place} {listen}");
        }
        // No server that runs was named, so ours credentials go nowhere.
        assert!(rules.server(&asked(base, None)).is_err());
    }

    #[test]
    fn a_running_server_is_reached_by_what_was_typed_here() {
        let host_of = |rules: &Guarded, text: &str| {
            let server = rules.server(&asked(text, None));
            server.map(|server| {
                let pairs = Conninfo::pairs(&server.conninfo).unwrap();
                let of = |name| value(&pairs, name).unwrap_or_default().to_owned();
                (of("host"), of("port"), of("user"), of("passfile"))
            })
        };
        let four =
            |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned(), String::new());
        let on_socket = "host=/run/postgresql port=5433 user=app dbname=app passfile=/x";
        let known = rules("ssh://me@db1", &["postgresql:///?dbname=app"], None).unwrap();
        assert_eq!(
            host_of(&known, on_socket).unwrap(),
            four("db1", "5433", "app")
        );
        assert!(host_of(&known, "host=elsewhere dbname=app").is_err());
        let own = Some("host=10.0.0.5 port=5434");
        let known = rules("exec:x", &["host=/tmp dbname=app"], own).unwrap();
        assert_eq!(
            host_of(&known, on_socket).unwrap(),
            four("10.0.0.5", "5434", "app")
        );
        // The same name, wherever it is looked up.
        let known = rules("ssh://db1", &["host=db2 user=typed"], None).unwrap();
        assert_eq!(
            host_of(&known, "host=db2 port=5432 user=other").unwrap(),
            four("db2", "5432", "typed")
        );
        assert!(host_of(&known, "host=db3 port=5432 user=other").is_err());
        let unknown = rules("exec:x", &["host=/tmp"], None).unwrap_err();
        assert!(format!("{unknown:#}").contains("from here"));
    }
}
