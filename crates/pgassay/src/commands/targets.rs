//! `pgassay targets`: what a server can be launched from: installations and builds.

use std::collections::BTreeSet;
use std::path::PathBuf;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::build;
use crate::cli::args::TargetsArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_model::Failure;
use pgassay_server::Installations;
use pgassay_server::pgbuild::{BuildRecord, Builder};

/// What `pgassay targets --json` prints.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Targets {
    schema: &'static str,
    /// Installations that a temporary server can be launched from, the default first.
    targets: Vec<Target>,
    /// Builds that `pgassay build` made.
    builds: Vec<Build>,
    /// Directories that look like one and are none.
    unusable: Vec<Unusable>,
}

impl Targets {
    /// Name and version of the serialized form.
    pub(crate) const SCHEMA: &str = "pgassay/targets/1";
}

/// One installation.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Target {
    version: String,
    bin_dir: PathBuf,
    /// Which of the tools worth knowing are there.
    tools: BTreeSet<&'static str>,
    /// How it was found.
    found_by: String,
    can_launch: bool,
    /// What speaks against figures of this build.
    caveat: Option<String>,
}

/// A build.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Build {
    /// `build:15.18-O2`.
    target: String,
    version: String,
    /// The installation.
    prefix: PathBuf,
    /// Compiler flags asked for.
    flags: Vec<String>,
    /// The triplet of a cross-build, which can't be launched here.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

impl Build {
    fn of(record: BuildRecord) -> Self {
        Self {
            target: format!("build:{}", record.name),
            version: record.version,
            prefix: record.prefix,
            flags: record.flags_asked,
            host: record.host,
        }
    }

    fn remarks(&self) -> String {
        match &self.host {
            Some(host) => format!("for {host}: can't be launched here"),
            None => self.flags.join(" "),
        }
    }
}

/// A directory that was passed over.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Unusable {
    path: PathBuf,
    reason: String,
}

/// Lists the installations, the default first.
///
/// # Errors
/// Where there is none.
pub fn targets(args: &TargetsArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let at_hand = Installations::search();
    // Without a user who may build there are none.
    let builds = Builder::find().and_then(|builder| build::all(&builder));
    let builds: Vec<Build> = builds.into_iter().flatten().map(Build::of).collect();
    if args.json {
        let found: Vec<_> = at_hand
            .found
            .iter()
            .map(|i| Target {
                version: i.version.to_string(),
                bin_dir: i.bin_dir.clone(),
                tools: i.tools.clone(),
                found_by: i.found_by.clone(),
                can_launch: i.can_launch(),
                caveat: i.caveat.clone(),
            })
            .collect();
        let unusable: Vec<_> = at_hand
            .unusable
            .iter()
            .map(|(path, why)| Unusable {
                path: path.clone(),
                reason: why.to_string(),
            })
            .collect();
        let document = Targets {
            schema: Targets::SCHEMA,
            targets: found,
            builds,
            unusable,
        };
        terminal.print(&pgassay_report::json(&document))?;
        return Ok(Exit::Done);
    }
    for (path, why) in &at_hand.unusable {
        terminal.announce(&format!("passed over {}: {why}", path.display()));
    }
    if at_hand.found.is_empty() && builds.is_empty() {
        return Err(Failure::target("no PostgreSQL is installed here")
            .with_remedy(
                "install one (apt-get install postgresql), or name one with a target such as \
                 /path/to/prefix; pgassay assay --stand-in fetches an archived build",
            )
            .into());
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(terminal.width).unwrap_or(u16::MAX))
        .set_header(["target", "version", "bin directory", "remarks"]);
    let default = at_hand.newest().map(|i| i.bin_dir.clone()).ok();
    for installation in &at_hand.found {
        let mut remarks = Vec::new();
        if Some(&installation.bin_dir) == default.as_ref() {
            remarks.push("default".to_owned());
        }
        if !installation.can_launch() {
            remarks.push("no initdb: can't be launched".to_owned());
        }
        remarks.extend(installation.caveat.clone());
        table.add_row([
            format!("temp:{}", installation.version.major()),
            installation.version.to_string(),
            installation.bin_dir.display().to_string(),
            remarks.join("; "),
        ]);
    }
    for build in &builds {
        table.add_row([
            build.target.clone(),
            build.version.clone(),
            build.prefix.join("bin").display().to_string(),
            build.remarks(),
        ]);
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    terminal.show(&(lines.join("\n") + "\n"))?;
    let default = default.and_then(|bin_dir| at_hand.found.iter().find(|i| i.bin_dir == bin_dir));
    let first = default.map(|i| format!("temp:{}", i.version.major()));
    let launched = builds.iter().find(|build| build.host.is_none());
    let steps = match (first, launched) {
        (Some(temp), Some(build)) => vec![
            format!("pgassay assay {temp}"),
            format!("pgassay compare {temp} {}", build.target),
        ],
        (Some(target), None) => vec![format!("pgassay assay {target}")],
        (None, Some(build)) => vec![format!("pgassay assay {}", build.target)],
        (None, None) => Vec::new(),
    };
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    terminal.next(&steps);
    Ok(Exit::Done)
}
