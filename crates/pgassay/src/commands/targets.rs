//! `pgassay targets`: what a temporary server can be launched from.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use crate::cli::args::TargetsArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_model::Failure;
use pgassay_server::Installations;

/// Lists the installations, the default first.
///
/// # Errors
/// Where there is none.
pub fn targets(args: &TargetsArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let at_hand = Installations::search();
    if args.json {
        let found: Vec<_> = at_hand
            .found
            .iter()
            .map(|i| {
                json!({
                    "version": i.version.to_string(),
                    "bin_dir": i.bin_dir,
                    "tools": i.tools,
                    "found_by": i.found_by,
                    "can_launch": i.can_launch(),
                    "caveat": i.caveat,
                })
            })
            .collect();
        let unusable: Vec<_> = at_hand
            .unusable
            .iter()
            .map(|(path, why)| json!({"path": path, "reason": why}))
            .collect();
        let document =
            json!({"schema": "pgassay/targets/1", "targets": found, "unusable": unusable});
        terminal.print(&pgassay_report::json(&document))?;
        return Ok(Exit::Done);
    }
    for (path, why) in &at_hand.unusable {
        terminal.announce(&format!("passed over {}: {why}", path.display()));
    }
    if at_hand.found.is_empty() {
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
    let default = at_hand.newest(None).map(|i| i.bin_dir.clone()).ok();
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
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    terminal.show(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Done)
}
