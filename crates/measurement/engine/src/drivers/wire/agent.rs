//! The load engine's clients as an agent has them, for a near side on another machine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pgassay_far::{Channel, Lost};
use pgassay_load::script::Program;
use pgassay_load::{Edge, Engine, Options, ResizeError, SliceResult, SliceSpec};
use pgassay_pgwire::{ConnectError, Conninfo, NoSurroundings};
use pgassay_sys::stop::Stop;

use super::plan::engine_options;
use crate::agents::{
    Clients, Found, Identity, Maker, Memory, Preparation, Refusal, RefusalKind, Server, serve_with,
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
        if !session.is_direct().map_err(other)? {
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
        Ok(Box::new(Load::new(conninfo(server)?, program, options)))
    }
}

/// A load engine, and what it needs beyond the plan.
struct Load {
    engine: Engine,
    /// Bytes of a client: its variables, and what is known of each command.
    of_client: u64,
    /// Bytes of a thread: its histograms, which there are in a slice only.
    of_thread: u64,
    threads: u32,
}

/// A histogram of latencies, a variable, what is known of a command, and the rest of a client, in bytes.
const HISTOGRAM: u64 = 256 << 10;
const VARIABLE: u64 = 64;
const COMMAND: u64 = 16;
const CLIENT: u64 = 4 << 10;

impl Load {
    fn new(conninfo: Conninfo, program: Program, options: Options) -> Self {
        let texts = options.texts.iter().map(|(_, text)| text.len() as u64);
        let texts: u64 = texts.sum();
        let (per_statement, threads) = (options.per_statement, options.threads);
        let engine = Engine::new(conninfo, program, options);
        let program = engine.program();
        let scripts = program.scripts().len() as u64;
        let commands = program
            .scripts()
            .iter()
            .map(|script| script.commands.len() as u64);
        let commands: u64 = commands.sum();
        let variables = program.symbols().names().len() as u64;
        let detailed = if per_statement { commands } else { 0 };
        Self {
            of_client: CLIENT + texts + variables * VARIABLE + commands * COMMAND,
            of_thread: (scripts + detailed) * HISTOGRAM,
            threads: u32::try_from(threads.unwrap_or(1)).unwrap_or(u32::MAX),
            engine,
        }
    }
}

impl Clients for Load {
    fn resize(&mut self, clients: u32) -> Result<(), Refusal> {
        self.engine
            .resize(clients as usize)
            .map_err(|error| match error {
                ResizeError::Stopped { .. } => refusal(RefusalKind::Stopped, &error),
                ResizeError::Descriptors { .. } => refusal(RefusalKind::TooMany, &error),
                ResizeError::Connect { ref cause, .. } => refusal(kind_of(cause), &error),
                ResizeError::Broken { .. } => refusal(RefusalKind::Unreachable, &error),
            })
    }

    fn memory(&self, clients: u32) -> Memory {
        let threads = u64::from(self.threads.min(clients).max(1));
        Memory {
            kept: u64::from(clients).saturating_mul(self.of_client),
            at_work: threads.saturating_mul(self.of_thread),
        }
    }

    fn run_slice(&mut self, spec: &SliceSpec, at_edge: &mut dyn FnMut(Edge)) -> SliceResult {
        self.engine.run_slice(spec, at_edge)
    }
}

fn conninfo(server: &Server) -> Result<Conninfo, Refusal> {
    let Some(password) = &server.password else {
        return Conninfo::parse(&server.conninfo).map_err(other);
    };
    // Who made the password said all there is to say: what the user has set for servers of his own, such as
    // PGSSLROOTCERT, is about others.
    let text = format!(
        "{} password='{}'",
        server.conninfo,
        password.replace('\\', "\\\\").replace('\'', "\\'")
    );
    Conninfo::parse_in(&text, &NoSurroundings).map_err(other)
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

#[cfg(test)]
mod tests {
    use pgassay_model::Plan;
    use pgassay_model::point::Point;
    use pgassay_model::workload::ScriptPlan;

    use super::*;

    #[test]
    fn what_clients_need_grows_with_their_variables_and_histograms() {
        let of = |text: &str, per_statement: bool, define: usize| {
            let mut plan = Plan::default();
            plan.workload.protocol = "simple".to_owned();
            plan.workload.scripts.push(ScriptPlan {
                name: "s".to_owned(),
                weight: 1,
                text: text.to_owned(),
                pause: None,
                clients: None,
            });
            plan.workload.dials.per_statement = per_statement;
            let long = ("long".to_owned(), "x".repeat(define));
            plan.workload.dials.define.push(long);
            plan.points.push(Point {
                clients: 1,
                threads: 8,
                variant: 0,
            });
            let preparation = Preparation {
                plan,
                server: Server {
                    conninfo: "host=127.0.0.1".to_owned(),
                    password: None,
                },
            };
            let clients = Engines.clients(&preparation, &Arc::default()).unwrap();
            let Memory { kept, at_work } = clients.memory(1000);
            kept + at_work
        };
        let plain = of("SELECT 1;\n", false, 0);
        assert!(plain < 16 << 20, "{plain}");
        assert!(of("SELECT 1;\n", false, 1 << 20) > 1_000_000_000);
        assert!(of(&"SELECT 1;\n".repeat(1000), true, 0) > 1_000_000_000);
        let variables: Vec<String> = (0..20_000).map(|n| format!("\\set v{n} 1\n")).collect();
        assert!(of(&variables.concat(), false, 0) > 1_000_000_000);
    }

    #[test]
    fn a_latency_limit_that_is_no_time_is_refused() {
        for limit in [-1.0, 1e300, f64::NAN] {
            let mut plan = Plan::default();
            plan.workload.protocol = "simple".to_owned();
            plan.workload.dials.latency_limit_ms = Some(limit);
            assert!(engine_options(&plan, &Stop::new()).is_err(), "{limit}");
        }
    }
}
