//! Drives a script with the load engine and prints one line of figures: our side of the
//! comparison with pgbench in `bench/client-cpu`.
//!
//! ```text
//! client_load CONNINFO SCRIPT CLIENTS SECONDS [THREADS] [PROTOCOL] [RATE] [TRANSACTIONS]
//! ```
//! SCRIPT is a built-in script's name or a file. The line is JSON, times in nanoseconds.
//! SERVING in the environment is how sockets are served: `calls`, `together`, or `ring`, the default.

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use pgassay_load::script::{Program, Value};
use pgassay_load::{
    Edge, Engine, Event, Gaps, Length, Options, Protocol, Schedule, Serving, SliceSpec,
};
use pgassay_pgwire::Conninfo;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [conninfo, script, clients, seconds, rest @ ..] = args.as_slice() else {
        return Err(
            "usage: client_load CONNINFO SCRIPT CLIENTS SECONDS [THREADS] [PROTOCOL] [RATE] [TRANSACTIONS]"
                .into(),
        );
    };
    let conninfo = Conninfo::parse(conninfo)?;
    let program = match Program::builtin(script) {
        Ok(program) => program,
        Err(_) => {
            let text = std::fs::read_to_string(script).map_err(|e| format!("{script}: {e}"))?;
            let mut program = Program::new();
            program.add(script, &text, 1)?;
            program
        }
    };
    let protocol = match rest.get(1).map(String::as_str) {
        None | Some("prepared") => Protocol::Prepared,
        Some("extended") => Protocol::Extended,
        Some("simple") => Protocol::Simple,
        Some(other) => return Err(format!("no protocol {other}").into()),
    };
    let rate: f64 = rest.get(2).map_or(Ok(0.0), |r| r.parse())?;
    let transactions: u64 = rest.get(3).map_or(Ok(0), |r| r.parse())?;
    let scale = pgassay_pgwire::connect(&conninfo)?
        .value("SELECT count(*) FROM pgbench_branches")?
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    let options = Options {
        protocol,
        threads: rest.first().map(|t| t.parse()).transpose()?,
        serving: match std::env::var("SERVING").as_deref() {
            Ok("calls") => Serving::Calls,
            Ok("together") => Serving::Together,
            _ => Serving::Ring,
        },
        variables: vec![("scale".to_owned(), Value::Int(scale))],
        listener: Some(std::sync::Arc::new(|event: Event<'_>| {
            if let Event::Said(_, line) = event {
                let _ = writeln!(io::stderr(), "{line}");
            }
        })),
        ..Options::default()
    };
    let mut engine = Engine::new(conninfo, program, options);
    engine.resize(clients.parse()?)?;
    let spec = SliceSpec {
        warmup: Duration::from_millis(200),
        length: match transactions {
            0 => Length::Time(Duration::from_secs_f64(seconds.parse()?)),
            n => Length::Transactions(n),
        },
        seed: 1,
        schedule: if rate > 0.0 {
            Schedule::Paced {
                per_second: rate,
                gaps: Gaps::Exponential,
            }
        } else {
            Schedule::Closed
        },
        ..SliceSpec::default()
    };
    let result = engine.run_slice(&spec, &mut |_: Edge| {});
    let calls = result.system_calls();
    let line = serde_json::json!({
        "transactions": result.transactions,
        "transactions_sent": result.transactions_sent,
        "failures": result.failures,
        "examples": result.failure_examples,
        "window_ns": result.window_ns,
        "tps": result.throughput(),
        "user_ns": result.client_user_ns(),
        "system_ns": result.client_system_ns(),
        "recv": calls.receive,
        "send": calls.send,
        "wait": calls.wait,
        "enter": calls.enter,
        "gathered": calls.gathered,
        "p50_ns": result.latency.percentile(50.0),
        "p99_ns": result.latency.percentile(99.0),
        "p999_ns": result.latency.percentile(99.9),
        "max_ns": result.latency.longest(),
        "actual_p99_ns": result.latency_from_actual.as_ref().map(|l| l.percentile(99.0)),
        "first_p50_ns": result.first.percentile(50.0),
        "connect_p50_ns": engine.connects().percentile(50.0),
        "behind": result.behind,
        "lost": result.lost_count,
        "died": result.died,
    });
    writeln!(io::stdout(), "{line}")?;
    Ok(())
}
