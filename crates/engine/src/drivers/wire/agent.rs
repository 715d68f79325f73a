//! The load engine's clients as an agent has them, for a near side on another machine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pgassay_far::{Channel, Lost};
use pgassay_load::{Edge, Engine, ResizeError, SliceResult, SliceSpec};
use pgassay_pgwire::{ConnectError, Conninfo};
use pgassay_sys::stop::Stop;

use super::plan::engine_options;
use crate::agents::{
    Clients, Found, Identity, Maker, Preparation, Refusal, RefusalKind, Server, serve_with,
};
use crate::workload::{self, guest};

/// A name of a running server that no other has.
const STARTED: &str =
    "SELECT EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.text";

/// Round trips to a server of which the shortest counts.
const ROUND_TRIPS: usize = 20;

/// Gives load by the load engine, as the near side on this channel says, until the link is lost or
/// `stop` is asked for.
///
/// # Errors
/// Why the link was lost; closed by the near side, too.
pub fn serve(channel: &Channel, stop: &Stop) -> Result<(), Lost> {
    serve_with(channel, &Engines, stop)
}

/// Which server a session is of, and what it may do there.
///
/// # Errors
/// Where it does not answer.
pub fn identity(
    session: &mut pgassay_pgwire::Session,
) -> Result<Identity, pgassay_pgwire::QueryError> {
    let database = session.value("SELECT pg_catalog.current_database()")?;
    let read_only = session.value("SHOW default_transaction_read_only")?;
    Ok(Identity {
        started: session.catalog_value(STARTED)?.unwrap_or_default(),
        database: database.unwrap_or_default(),
        read_only: read_only.as_deref() == Some("on"),
    })
}

/// Makes load engines.
#[derive(Debug, Clone, Copy)]
pub struct Engines;

impl Maker for Engines {
    fn reach(&self, server: &Server) -> Result<Found, Refusal> {
        let mut session = pgassay_pgwire::connect(&conninfo(server)?).map_err(not_connected)?;
        if !guest::is_direct(&mut session).map_err(other)? {
            return Err(refusal(RefusalKind::Pooler, &guest::POOLER));
        }
        let identity = identity(&mut session).map_err(other)?;
        let mut round_trip_ns = u64::MAX;
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            session.execute("").map_err(other)?;
            let took = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
            round_trip_ns = round_trip_ns.min(took);
        }
        Ok(Found {
            identity,
            round_trip_ns,
        })
    }

    fn clients(
        &self,
        preparation: &Preparation,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Box<dyn Clients>, Refusal> {
        let Preparation { plan, server } = preparation;
        let program = workload::program(&plan.workload).map_err(other)?;
        let mut options = engine_options(plan, &Stop::new()).map_err(other)?;
        options.stop = Arc::clone(cancelled);
        // Those of the plan are another machine's.
        options.cpus.clear();
        Ok(Box::new(Engine::new(conninfo(server)?, program, options)))
    }
}

impl Clients for Engine {
    fn resize(&mut self, clients: u32) -> Result<(), Refusal> {
        Self::resize(self, clients as usize).map_err(|error| match error {
            ResizeError::Stopped { .. } => refusal(RefusalKind::Stopped, &error),
            ResizeError::Descriptors { .. } => refusal(RefusalKind::TooMany, &error),
            ResizeError::Connect { ref cause, .. } => refusal(kind_of(cause), &error),
            ResizeError::Broken { .. } => refusal(RefusalKind::Unreachable, &error),
        })
    }

    fn run_slice(&mut self, spec: &SliceSpec, at_edge: &mut dyn FnMut(Edge)) -> SliceResult {
        Self::run_slice(self, spec, at_edge)
    }
}

fn conninfo(server: &Server) -> Result<Conninfo, Refusal> {
    let text = match &server.password {
        None => server.conninfo.clone(),
        Some(password) => format!(
            "{} password='{}'",
            server.conninfo,
            password.replace('\\', "\\\\").replace('\'', "\\'")
        ),
    };
    Conninfo::parse(&text).map_err(other)
}

fn kind_of(error: &ConnectError) -> RefusalKind {
    match error {
        ConnectError::TooManyConnections { .. } => RefusalKind::TooMany,
        _ => RefusalKind::Unreachable,
    }
}

fn not_connected(error: ConnectError) -> Refusal {
    refusal(kind_of(&error), &error)
}

fn other(error: impl std::fmt::Display) -> Refusal {
    refusal(RefusalKind::Other, &error)
}

fn refusal(kind: RefusalKind, error: &dyn std::fmt::Display) -> Refusal {
    Refusal {
        kind,
        text: error.to_string(),
    }
}
