//! `pgassay walls`: where a cache line stops a workload on more processors.

use std::path::Path;

use anyhow::bail;
use pgassay_engine::workload::inserver;
use pgassay_lines::measured::Measured;
use pgassay_lines::walls::{self, Map, Processor, Walls};
use pgassay_model::Failure;
use pgassay_sys::input;
use pgassay_sys::stop::Stop;

use super::lines;
use super::show::{next, show};
use crate::cli::walls::WallsArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// The largest map that is read, in bytes: 1024 CPUs have half a million pairs.
const MOST: u64 = 256 << 20;

/// Records a session, and says what its lines allow.
///
/// # Errors
/// What kept it from recording; a processor of which nothing is known.
pub fn walls(args: &WallsArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    if args.list_cpus {
        let shown = walls::maps().iter().map(line).collect::<String>();
        terminal.print(&shown)?;
        return Ok(Exit::Done);
    }
    let map = match (&args.cpu, &args.map, args.transfer_ns) {
        (Some(cpu), _, _) => walls::published(cpu)?,
        (None, Some(path), _) => measured(path)?,
        (None, None, Some(ns)) => Map {
            name: "given".to_owned(),
            title: "as given".to_owned(),
            near_ns: None,
            typical_ns: ns,
            far_ns: None,
            source: "--transfer-ns".to_owned(),
        },
        (None, None, None) => bail!(Failure::usage("walls needs --cpu, --map or --transfer-ns")),
    };
    if args.lines.targets.len() > 1 {
        bail!(Failure::usage("walls takes one target").with_remedy("lines A B holds two together"));
    }
    let processor = Processor {
        transfer_ns: map.typical_ns,
        cpu_us: args.cpu_us,
        slower: args.slower.clone(),
    };
    let account = lines::one(&args.lines, Some(&processor), terminal, stop)?;
    show(
        &Walls::of(&account, map, &processor),
        &args.lines.show,
        terminal,
    )?;
    // A loop runs in all its ways.
    let workload = &args.lines.workload;
    let loop_of = workload.split_once(':').map(|(primitive, _)| primitive);
    let workload = match loop_of.filter(|name| inserver::names().contains(name)) {
        Some(primitive) => primitive.to_owned(),
        None => pgassay_text::shell_word(workload),
    };
    let step = format!("pgassay run {workload} --clients '1..64*2', on that processor");
    next(&args.lines.show, &[step], terminal);
    Ok(Exit::Done)
}

/// The map that was measured on a machine.
fn measured(path: &Path) -> anyhow::Result<Map> {
    let named = |failure: Failure| Failure {
        message: format!("--map {}: {}", path.display(), failure.message),
        ..failure
    };
    let text = input::read(path, MOST).map_err(|error| named(Failure::usage(error.to_string())))?;
    Ok(Measured::read(&String::from_utf8_lossy(&text))
        .map_err(named)?
        .map())
}

fn line(map: &Map) -> String {
    let part =
        |what: &str, ns: Option<f64>| ns.map_or(String::new(), |ns| format!(", {ns} {what}"));
    format!(
        "{:<12} {} ns{}{}  {} ({})\n",
        map.name,
        map.typical_ns,
        part("near", map.near_ns),
        part("far", map.far_ns),
        map.title,
        map.source
    )
}
