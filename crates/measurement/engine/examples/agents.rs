//! What many machines that give load cost the one that leads them: windows' skew, and its CPU time for each
//! machine and window. Machines are threads whose clients only count (`simulated N…`), or processes with
//! clients on a real server (`processes CONNINFO RATE N…`).
//!
//! cargo run --release -p pgassay-engine --example agents -- simulated 1 10 100 1000

#![allow(clippy::print_stdout, reason = "its output is a table")]

use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgassay_engine::agents::synthetic::Synthetic;
use pgassay_engine::agents::{Agents, Side, Trouble, serve_with};
use pgassay_engine::drivers::wire;
use pgassay_far::Link;
use pgassay_load::{Edge, Gaps, Length, Schedule, SliceSpec};
use pgassay_model::Plan;
use pgassay_model::point::Point;
use pgassay_model::workload::{ScriptPlan, WorkloadPlan};
use pgassay_pgwire::Conninfo;
use pgassay_sys::stop::Stop;
use rustix::time::{ClockId, clock_gettime};

/// Windows of each number of machines.
const WINDOWS: u64 = 8;
/// Clients of each machine.
const CLIENTS: u32 = 2;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let counts = |words: &[&str]| -> anyhow::Result<Vec<u32>> {
        let counts = words.iter().map(|word| word.parse().context("a number"));
        counts.collect()
    };
    match words.as_slice() {
        ["serve"] => {
            let link = Link::new(io::stdin(), io::stdout())?;
            drop(wire::serve(&link.channel(1), &Stop::new()));
            Ok(())
        }
        ["simulated", rest @ ..] => {
            heading();
            let server = Conninfo::on_socket("/nowhere", 5432, "nobody", "nothing");
            for machines in counts(rest)? {
                let agents = simulated(machines)?;
                row(machines, &agents, &server, None, ClockId::ThreadCPUTime)?;
            }
            Ok(())
        }
        ["processes", conninfo, rate, rest @ ..] => {
            heading();
            let server = Conninfo::parse(conninfo)?;
            let rate: f64 = rate
                .parse()
                .context("transactions a second of each machine")?;
            for machines in counts(rest)? {
                let agents = processes(machines)?;
                let rate = Some(rate * f64::from(machines));
                row(machines, &agents, &server, rate, ClockId::ProcessCPUTime)?;
            }
            Ok(())
        }
        _ => bail!("simulated N…, or processes CONNINFO RATE N…"),
    }
}

fn heading() {
    println!(
        "machines  ready ms  skew ms, median  worst  clock ± ms  after end ms  CPU ms/window  CPU µs/machine"
    );
}

/// Machines that are threads of this process.
fn simulated(machines: u32) -> anyhow::Result<Agents> {
    let side = |number: u32| {
        let (near, far) = Link::pair();
        let thread = thread::Builder::new().stack_size(256 << 10);
        let clients = Synthetic::default();
        thread.spawn(move || drop(serve_with(&far.channel(1), &clients, &Stop::new())))?;
        Ok(Side {
            name: format!("m{number}"),
            channel: near.channel(1),
            link: Box::new(near),
            by_address: false,
        })
    };
    let sides: io::Result<Vec<Side>> = (0..machines).map(side).collect();
    Ok(Agents::open(sides?, &Stop::new())?)
}

/// A process that ends with its link.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.wait());
    }
}

/// Machines that are processes.
fn processes(machines: u32) -> anyhow::Result<Agents> {
    let side = |number: u32| -> anyhow::Result<Side> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).context("streams")?;
        let link = Link::new(output, input)?;
        Ok(Side {
            name: format!("m{number}"),
            channel: link.channel(1),
            // The link goes first.
            link: Box::new((link, Process(child))),
            by_address: false,
        })
    };
    let sides: anyhow::Result<Vec<Side>> = (0..machines).map(side).collect();
    Ok(Agents::open(sides?, &Stop::new())?)
}

fn cpu(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

fn plan(clients: u32) -> Plan {
    let script = ScriptPlan {
        name: "one".to_owned(),
        weight: 1,
        text: "SELECT :client_id;".to_owned(),
        pause: None,
        clients: None,
    };
    Plan {
        workload: WorkloadPlan {
            scripts: vec![script],
            protocol: "prepared".to_owned(),
            ..WorkloadPlan::default()
        },
        points: vec![Point {
            clients,
            threads: 1,
            variant: 0,
        }],
        ..Plan::default()
    }
}

fn row(
    machines: u32,
    agents: &Agents,
    server: &Conninfo,
    rate: Option<f64>,
    clock: ClockId,
) -> anyhow::Result<()> {
    let clients = machines * CLIENTS;
    let begin = Instant::now();
    let prepared = agents.prepare(&plan(clients), server, None);
    let mut several = prepared.map_err(Trouble::into_failure)?;
    several.resize(clients).map_err(Trouble::into_failure)?;
    let ready = begin.elapsed().as_secs_f64() * 1e3;
    let mut skews = Vec::new();
    let mut errors = Vec::new();
    let mut after = Vec::new();
    let mut used = Vec::new();
    for window in 0..WINDOWS {
        let spec = SliceSpec {
            warmup: Duration::from_millis(100),
            length: Length::Time(Duration::from_secs(1)),
            seed: window,
            schedule: match rate {
                None => Schedule::Closed,
                Some(per_second) => Schedule::Paced {
                    per_second,
                    gaps: Gaps::Exponential,
                },
            },
            interval: Some(Duration::from_millis(100)),
            ..SliceSpec::default()
        };
        let before = cpu(clock);
        let mut end = None;
        let slice = several.run_slice(&spec, &mut |edge| {
            if edge == Edge::End {
                end = Some(Instant::now());
            }
        });
        let (_, parts) = slice.map_err(Trouble::into_failure)?;
        used.push(cpu(clock) - before);
        after.extend(end.map(|end: Instant| end.elapsed().as_secs_f64() * 1e3));
        let begins = || parts.iter().map(|part| part.begin_ns);
        let ends = begins().max().zip(begins().min());
        skews.push(ends.map_or(0, |(last, first)| last - first) as f64 / 1e6);
        let error = parts.iter().map(|part| part.clock_error_ns).max();
        errors.push(error.unwrap_or(0) as f64 / 1e6);
    }
    let each = median(&mut used);
    println!(
        "{machines:>8} {ready:>9.1} {:>16.2} {:>6.2} {:>11.2} {:>13.1} {each:>14.2} {:>15.1}",
        median(&mut skews),
        skews.last().copied().unwrap_or(f64::NAN),
        median(&mut errors),
        median(&mut after),
        each * 1e3 / f64::from(machines),
    );
    Ok(())
}

/// The values are in order afterwards.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
