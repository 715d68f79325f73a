//! A launched server that machines other than this one reach, for as long as it runs: at one address, let
//! in from named addresses only, as one role that reads and writes tables and is no superuser.

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pgassay_pgwire::{Conninfo, Session, scram_verifier};
use rustix::rand::{GetRandomFlags, getrandom};

use super::TargetError;
use super::find::Installation;

/// The role that is let in.
const ROLE: &str = "pgassay_load";

/// Ports that are tried from the one that was asked for on: several servers run side by side.
const PORTS: u16 = 64;

/// Bytes of the password, which are drawn anew for each server.
const SECRET: usize = 24;

/// Where a launched server listens, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// An address of this machine.
    pub address: IpAddr,
    /// The first port that is tried; any free one if none is named.
    pub port: Option<u16>,
    /// The addresses from which sessions come.
    pub from: Vec<IpAddr>,
}

/// A server that listens, and the password of its role.
#[derive(Clone)]
pub struct Listening {
    at: SocketAddr,
    password: String,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// The first major version that checks passwords by SCRAM.
const FIRST_WITH_SCRAM: u32 = 100_000;

impl Listen {
    /// Refuses a server that can't be opened to other machines.
    pub(super) fn refuse_old(installation: &Installation) -> Result<(), TargetError> {
        if installation.version.num() >= FIRST_WITH_SCRAM {
            return Ok(());
        }
        Err(TargetError::NotFound(format!(
            "PostgreSQL {} knows no SCRAM, without which it is not opened to other machines; 10 and later do",
            installation.version
        )))
    }

    /// A port that nobody has.
    pub(super) fn free_port(&self) -> Result<u16, TargetError> {
        let ports = match self.port {
            Some(first) => first..=first.saturating_add(PORTS),
            None => 0..=0,
        };
        let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
        for port in ports {
            match TcpListener::bind((self.address, port)).and_then(|free| free.local_addr()) {
                Ok(at) => return Ok(at.port()),
                Err(error) => refused = error,
            }
        }
        Err(TargetError::NotFound(format!(
            "a launched server can't listen at {}: {refused}",
            self.address
        )))
    }

    /// Writes who is let in: everybody who may enter the private directory of the socket, and that role from
    /// those addresses by its password.
    pub(super) fn write_hba(&self, path: &Path) -> Result<(), TargetError> {
        let mut text = "local all all trust\n".to_owned();
        for address in &self.from {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let _ = writeln!(text, "host all {ROLE} {address}/{bits} scram-sha-256");
        }
        // The server's user reads it, whatever the umask.
        fs::write(path, text)
            .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o644)))
            .map_err(|error| TargetError::place(path, "can't be written", &error))
    }
}

impl Listening {
    /// Makes the role in a server that was just launched. The server learns the password's verifier only.
    pub(super) fn begin(us: &Conninfo, at: SocketAddr) -> Result<Self, TargetError> {
        let failed = |error: &dyn fmt::Display| TargetError::NotStarted {
            message: format!("the role for other machines can't be made: {error}"),
        };
        let password = drawn().map_err(|error| failed(&error))?;
        let mut session = pgassay_pgwire::connect(us).map_err(|error| failed(&error))?;
        let verifier = scram_verifier(password.as_bytes());
        session
            .execute(&format!("CREATE ROLE {ROLE} LOGIN PASSWORD '{verifier}'"))
            .map_err(|error| failed(&error))?;
        session.close();
        Ok(Self { at, password })
    }

    /// How it is reached from outside, without the password: settings of a connection string.
    pub fn settings(&self) -> String {
        format!(
            "host={0} hostaddr={0} port={1} user={ROLE} sslmode=disable channel_binding=disable \
             require_auth=scram-sha-256",
            self.at.ip(),
            self.at.port()
        )
    }

    /// The role's password.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Where it listens.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Lets the role read and write all tables that there are now in the session's database.
    ///
    /// # Errors
    /// What the server says.
    pub fn grant(session: &mut Session) -> Result<(), pgassay_pgwire::QueryError> {
        session.execute(&format!(
            "DO $$ DECLARE s pg_catalog.text; BEGIN \
             EXECUTE pg_catalog.format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO {ROLE}', pg_catalog.current_database()); \
             FOR s IN SELECT nspname FROM pg_catalog.pg_namespace \
               WHERE nspname OPERATOR(pg_catalog.!~) '^pg_' AND nspname OPERATOR(pg_catalog.<>) 'information_schema' \
             LOOP \
               EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA %I TO {ROLE}', s); \
               EXECUTE pg_catalog.format('GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA %I TO {ROLE}', s); \
               EXECUTE pg_catalog.format('GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA %I TO {ROLE}', s); \
             END LOOP; END $$"
        ))
    }
}

/// A password that nobody guesses.
fn drawn() -> io::Result<String> {
    let mut bytes = [0; SECRET];
    let mut filled = 0;
    while filled < SECRET {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_addresses_are_let_in_and_only_by_a_password() {
        let place = std::env::temp_dir().join(format!("pgassay-hba-{}", std::process::id()));
        let listen = Listen {
            address: [127, 0, 0, 1].into(),
            port: None,
            from: vec![[10, 0, 0, 7].into(), "fd00::7".parse().unwrap()],
        };
        listen.write_hba(&place).unwrap();
        let text = fs::read_to_string(&place).unwrap();
        fs::remove_file(&place).unwrap();
        let hosts: Vec<&str> = text.lines().filter(|l| l.starts_with("host")).collect();
        assert_eq!(
            hosts,
            [
                "host all pgassay_load 10.0.0.7/32 scram-sha-256",
                "host all pgassay_load fd00::7/128 scram-sha-256",
            ]
        );
        assert!(
            !text
                .lines()
                .any(|l| l.starts_with("host") && l.contains("trust"))
        );
    }

    #[test]
    fn passwords_are_drawn_and_not_shown() {
        let (one, other) = (drawn().unwrap(), drawn().unwrap());
        assert!(one != other && one.len() == 2 * SECRET);
        let listening = Listening {
            at: ([127, 0, 0, 1], 1).into(),
            password: one.clone(),
        };
        assert!(!format!("{listening:?}").contains(&one));
        assert!(!listening.settings().contains(&one));
    }

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let address = IpAddr::from([127, 0, 0, 1]);
        let taken = TcpListener::bind((address, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let listen = |port| Listen {
            address,
            port,
            from: Vec::new(),
        };
        let free = listen(Some(port)).free_port().unwrap();
        assert_ne!(free, port);
        assert_ne!(listen(None).free_port().unwrap(), 0);
    }
}
