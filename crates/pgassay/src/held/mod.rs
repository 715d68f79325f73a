//! What launched servers hold: a copy of somebody's database, or data made from its statistics.

pub mod statistics;

use pgassay_model::Failure;
use pgassay_server::Cluster;
use pgassay_server::copies::Dump;
use pgassay_server::database::Restored;
use pgassay_sys::stop::Stop;

use self::statistics::Statistics;
use crate::exit::explain;

/// What launched servers hold.
#[derive(Debug)]
pub enum Held {
    /// A copy of a database.
    Copy(Box<Dump>),
    /// Data like a database's.
    Made(Box<Statistics>),
}

impl Held {
    /// What a server that holds it is said to have.
    pub fn of(&self) -> String {
        match self {
            Self::Copy(dump) => format!("with a copy of {}", dump.original()),
            Self::Made(statistics) => format!(
                "with data made from the statistics of {}",
                statistics.original()
            ),
        }
    }

    /// What it is, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Copy(dump) => format!(
                "copies of {} by pg_dump {}, {}",
                dump.original(),
                dump.tool_version(),
                match dump.with_statistics() {
                    true => "with its statistics",
                    false => "analysed anew",
                }
            ),
            Self::Made(statistics) => statistics.words(),
        }
    }

    /// Gives it to a launched server.
    ///
    /// # Errors
    /// Where the server can't be given it.
    pub fn give(&self, cluster: &Cluster, stop: &Stop) -> anyhow::Result<Restored> {
        match self {
            Self::Copy(dump) => dump
                .restore(cluster.socket_dir(), cluster.port(), stop.flag())
                .map_err(|error| {
                    if stop.asked() {
                        return Failure::interrupted().into();
                    }
                    explain(error)
                }),
            Self::Made(statistics) => statistics.lay(cluster, stop),
        }
    }
}
