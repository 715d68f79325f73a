//! Two sides, A and B, and in what they differ: settings, the server itself, what it is given of the machine.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use pgassay_analysis::search::document::{Difference, DifferenceKind};
use pgassay_model::Failure;
use pgassay_model::comparison::Typed;
use pgassay_model::confinement::ConfinementPlan;
use pgassay_model::facts::Facts;
use pgassay_pgwire::Conninfo;
use pgassay_server::TargetSpec;
use pgassay_server::settings::Settings;
use serde_json::Value;

use super::conf_file::{self, Config};
use super::values;
use crate::cli::bisect::BisectArgs;
use crate::commands::check::collected;
use crate::commands::record::shown;
use crate::exit::explain;
use crate::terminal::Terminal;

/// The word for a configuration in which nothing is set.
const DEFAULT: &str = "default";

/// Where a setting comes from that somebody made: files, ALTER SYSTEM, ALTER DATABASE and ROLE.
const MADE: &[&str] = &[
    "configuration file",
    "command line",
    "global",
    "database",
    "user",
    "database user",
];

/// What both sides have alike, and in what they differ.
#[derive(Debug, Default)]
pub struct Sides {
    /// `name=value` of the settings that both have.
    pub settings: Vec<String>,
    /// What both are given of the machine.
    pub confinement: ConfinementPlan,
    /// The server of both, or A's.
    pub server: String,
    /// The rest: the server first, then what it is given, then settings by name.
    pub differences: Vec<Difference>,
}

/// One side.
#[derive(Debug, Default)]
struct Side {
    /// What is launched.
    server: String,
    settings: Config,
    environment: BTreeMap<String, String>,
    confinement: ConfinementPlan,
}

/// Reads both sides and finds the differences.
///
/// # Errors
/// Where one can't be read, or nothing differs.
pub fn sides(args: &BisectArgs, terminal: &mut Terminal) -> anyhow::Result<Sides> {
    let [a, b] = args.subjects.as_slice() else {
        bail!(
            Failure::usage("bisect needs two configurations or servers")
                .with_remedy("pgassay bisect old/postgresql.conf new/postgresql.conf")
        );
    };
    let mut left_out = Vec::new();
    let mut a = side(args, 0, a, &mut left_out)?;
    let mut b = side(args, 1, b, &mut left_out)?;
    left_out.sort();
    left_out.dedup();
    if !left_out.is_empty() {
        terminal.announce(&format!(
            "left out, as a launched server has its own: {}",
            left_out.join(", ")
        ));
    }
    let mut sides = Sides::default();
    let mut differ = |kind, name: &str, a: Option<String>, b: Option<String>| {
        let name = name.to_owned();
        sides.differences.push(Difference { kind, name, a, b });
    };
    if a.server != b.server {
        differ(
            DifferenceKind::Server,
            "server",
            Some(a.server.clone()),
            Some(b.server),
        );
    }
    sides.server = a.server;
    let (given_a, given_b) = (a.confinement, b.confinement);
    if given_a.cpus == given_b.cpus {
        sides.confinement.cpus = given_a.cpus;
    } else {
        let (a, b) = (given_a.cpu_list(), given_b.cpu_list());
        differ(DifferenceKind::Cpus, "CPUs", a, b);
    }
    if given_a.wrap == given_b.wrap {
        sides.confinement.wrap = given_a.wrap;
    } else {
        let some = |wrap: String| (!wrap.is_empty()).then_some(wrap);
        let (a, b) = (some(given_a.wrap), some(given_b.wrap));
        differ(DifferenceKind::Wrap, "wrap", a, b);
    }
    let as_texts = |a: &str, b: &str| a == b;
    sides.confinement.launch_environment = apart(
        &mut a.environment,
        &mut b.environment,
        as_texts,
        |name, a, b| {
            differ(DifferenceKind::Environment, name, a, b);
        },
    );
    sides.settings = apart(
        &mut a.settings,
        &mut b.settings,
        values::same,
        |name, a, b| {
            differ(DifferenceKind::Setting, name, a, b);
        },
    );
    if sides.differences.is_empty() {
        bail!(
            Failure::usage("A and B are the same: there is nothing to search")
                .with_remedy("pgassay compare measures whether two servers differ")
        );
    }
    Ok(sides)
}

/// `name=value` of what both maps have alike; what only one has, or with another value, is told.
fn apart(
    a: &mut Config,
    b: &mut Config,
    same: impl Fn(&str, &str) -> bool,
    mut differ: impl FnMut(&str, Option<String>, Option<String>),
) -> Vec<String> {
    let mut names: Vec<String> = a.keys().chain(b.keys()).cloned().collect();
    names.sort();
    names.dedup();
    let mut common = Vec::new();
    for name in &names {
        match (a.remove(name), b.remove(name)) {
            (Some(x), Some(y)) if same(&x, &y) => common.push(format!("{name}={x}")),
            (x, y) => differ(name, x, y),
        }
    }
    common
}

/// Gives a server one side's value of a difference.
pub fn give(typed: &mut Typed, difference: &Difference, value: &str) {
    let named = format!("{}={value}", difference.name);
    let confinement = &mut typed.confinement;
    match difference.kind {
        DifferenceKind::Setting => typed.settings.push(named),
        DifferenceKind::Server => value.clone_into(&mut typed.target),
        DifferenceKind::Environment => confinement.launch_environment.push(named),
        DifferenceKind::Wrap => value.clone_into(&mut confinement.wrap),
        DifferenceKind::Cpus => {
            let cpus = value.split(',').filter_map(|cpu| cpu.parse().ok());
            confinement.cpus = cpus.collect();
        }
    }
}

/// One side with all that was typed for it.
fn side(
    args: &BisectArgs,
    index: usize,
    given: &str,
    left_out: &mut Vec<String>,
) -> anyhow::Result<Side> {
    let (flag, own) = match index {
        0 => ("--set-a", &args.sides.given.set_a),
        _ => ("--set-b", &args.sides.given.set_b),
    };
    let (server, mut config) = read(given, &args.server)?;
    for (flag, typed) in [(flag, own), ("--set", &args.sides.given.settings)] {
        let typed = Settings::parse(flag, typed).map_err(explain)?;
        config.extend(
            typed
                .iter()
                .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())),
        );
    }
    let ignored = |name: &String| args.ignore.iter().any(|i| i.eq_ignore_ascii_case(name));
    config.retain(|name, value| {
        let ours = Settings::parse("--set", &[format!("{name}={value}")]).is_err();
        if ours {
            left_out.push(name.clone());
        }
        !ours && !ignored(name)
    });
    let mut environment = BTreeMap::new();
    let confinement = args.sides.given.of_arm(index);
    for variable in &confinement.launch_environment {
        let Some((name, value)) = variable.split_once('=') else {
            bail!(Failure::usage(format!(
                "--env {variable}: a variable is NAME=VALUE"
            )));
        };
        environment.insert(name.to_owned(), value.to_owned());
    }
    Ok(Side {
        server,
        settings: config,
        environment,
        confinement,
    })
}

/// What is launched for a side, and its settings.
fn read(given: &str, server: &str) -> anyhow::Result<(String, Config)> {
    let with = |config| Ok((server.to_owned(), config));
    if given == DEFAULT {
        return with(Config::new());
    }
    let path = Path::new(given);
    if path.is_file() {
        return with(match collected(path) {
            Some(facts) => of_facts(&facts?, given)?,
            None => conf_file::read(path)?,
        });
    }
    let spec: Result<TargetSpec, _> = given.parse();
    match spec {
        Ok(TargetSpec::Server(conninfo)) => with(of_server(&conninfo)?),
        Ok(TargetSpec::Prefix(prefix)) if !prefix.is_dir() => Err(no_such(given).into()),
        Ok(_) => Ok((given.to_owned(), Config::new())),
        Err(error) if given.contains(':') => Err(explain(error)),
        Err(_) => Err(no_such(given).into()),
    }
}

fn no_such(given: &str) -> Failure {
    Failure::usage(format!("{given}: no such file")).with_remedy(format!(
        "A and B are each a postgresql.conf file, a file of pgassay collect, the conninfo of a running server, \
         what is launched (temp:17, build:NAME, an installation), or `{DEFAULT}`"
    ))
}

/// What a server was configured with that somebody collected facts of.
fn of_facts(facts: &Facts, given: &str) -> Result<Config, Failure> {
    let rows = facts
        .server
        .get("settings")
        .and_then(|answer| answer.text());
    let rows: Option<Vec<Value>> = rows.and_then(|text| serde_json::from_str(text).ok());
    let rows = rows.ok_or_else(|| {
        Failure::usage(format!("{given} has no settings of a server"))
            .with_remedy("pgassay collect TARGET --output FILE reads them")
    })?;
    let pairs = rows.iter().filter_map(|row| {
        let text = |key: &str| row.get(key).and_then(Value::as_str);
        let made = MADE.contains(&text("source")?);
        made.then_some((
            text("name")?.to_ascii_lowercase(),
            values::with_unit(text("setting")?, text("unit")),
        ))
    });
    Ok(pairs.collect())
}

/// What a running server was configured with, as its sessions see it.
fn of_server(given: &str) -> anyhow::Result<Config> {
    let conninfo = Conninfo::parse(given).map_err(|error| Failure::usage(error.to_string()))?;
    let told = |error: String| Failure::target(format!("{}: {error}", shown(given)));
    let mut session =
        pgassay_pgwire::connect(&conninfo.observing()).map_err(|error| told(error.to_string()))?;
    let made: Vec<String> = MADE.iter().map(|source| format!("'{source}'")).collect();
    let rows = session
        .rows(&format!(
            "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings \
             WHERE source IN ({}) AND context <> 'internal'",
            made.join(", ")
        ))
        .map_err(|error| told(error.to_string()))?;
    let pairs = rows.rows.iter().filter_map(|row| match row.as_slice() {
        [Some(name), Some(value)] => Some((name.to_ascii_lowercase(), value.clone())),
        _ => None,
    });
    Ok(pairs.collect())
}
