//! Somebody's database that is read: for a copy of it, or for its schema alone.

use std::process::Command;

use pgassay_pgwire::{Conninfo, QueryError, Session};

use super::TargetError;
use super::database::Database;

/// What pg_dump leaves out of both: what belongs to the original's cluster and not to the data.
const WITHOUT: [&str; 6] = [
    "--no-owner",
    "--no-privileges",
    "--no-publications",
    "--no-subscriptions",
    "--no-security-labels",
    "--no-tablespaces",
];

/// A database, with a session in it.
pub(super) struct Original {
    /// How it is reached.
    pub conninfo: Conninfo,
    /// The same without a password.
    pub shown: String,
    /// Its server, as `server_version_num`.
    pub version: u32,
    /// What it was made with.
    pub database: Database,
    /// Asks it.
    pub session: Session,
}

impl Original {
    pub(super) fn open(typed: &str) -> Result<Self, TargetError> {
        let conninfo =
            Conninfo::parse(typed).map_err(|error| TargetError::Usage(error.to_string()))?;
        let conninfo = conninfo.observing();
        let shown = conninfo.redacted();
        let mut session = pgassay_pgwire::connect(&conninfo)
            .map_err(|error| unreachable(&shown, &error.to_string()))?;
        let asked = |error: QueryError| unreachable(&shown, &error.to_string());
        let number = session.value("SHOW server_version_num").map_err(asked)?;
        let database = Database::of(&mut session).map_err(asked)?;
        Ok(Self {
            version: number.and_then(|n| n.parse().ok()).unwrap_or(0),
            database,
            session,
            shown,
            conninfo,
        })
    }
}

/// What kept the original from being read.
pub(super) fn unreachable(shown: &str, what: &str) -> TargetError {
    TargetError::NotFound(format!("the original ({shown}): {what}"))
}

/// pg_dump with what it leaves out.
pub(super) fn without(mut command: Command) -> Command {
    command.args(WITHOUT);
    command
}
