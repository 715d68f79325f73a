//! `pgassay workload export`: a workload for pgbench or pgreplay-go.

use std::fs;

use pgassay_engine::workload::{self, sessions};
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;
use pgassay_statements::export::pgreplay::About;
use pgassay_statements::export::{pgbench, pgreplay};
use pgassay_text::number::counted;

use crate::cli::workload::{ExportArgs, ExportFormat};
use crate::commands::files::to_file;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// When the first session of an export begins, in microseconds since 1970: pgreplay-go goes by differences.
const BEGIN_US: i64 = 1_700_000_000_000_000;

/// Writes the workload in the form of another program.
///
/// # Errors
/// Where it can't be read, has what the other program has not, or can't be written.
pub fn export(args: &ExportArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    if args.to.exists() && !args.force {
        return Err(
            Failure::usage(format!("{} exists already", args.to.display()))
                .with_remedy("name another with --to, or overwrite it with --force")
                .into(),
        );
    }
    let name = args.workload.display().to_string();
    let plan = workload::find(&[name.as_str()])?;
    match args.format {
        ExportFormat::Pgbench => to_pgbench(args, &plan, terminal),
        ExportFormat::Pgreplay => to_pgreplay(args, &plan, terminal),
    }
}

fn to_pgbench(
    args: &ExportArgs,
    plan: &WorkloadPlan,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let program = workload::program(plan)?;
    let mut files = Vec::new();
    for (number, script) in (1..).zip(program.scripts()) {
        let text = pgbench::script(script, args.rows as usize).map_err(|what| {
            Failure::usage(format!(
                "{} can't be put as pgbench has it: {what}",
                script.name
            ))
        })?;
        files.push((
            format!("{number:03}.sql"),
            script.weight,
            format!("-- {}\n{text}", script.name),
        ));
    }
    fs::create_dir_all(&args.to).map_err(|error| {
        Failure::usage(format!("cannot make {}: {error}", args.to.display()))
            .with_remedy("name another directory with --to")
    })?;
    let mut words = vec![
        "pgbench".to_owned(),
        "-n".to_owned(),
        "-M".to_owned(),
        plan.protocol.clone(),
    ];
    for (file, weight, text) in &files {
        let path = args.to.join(file);
        to_file(&path, "--to", text)?;
        words.push("-f".to_owned());
        words.push(format!("{}@{weight}", path.display()));
    }
    let command = pgassay_text::shell(&words);
    terminal.announce(&format!(
        "{} of pgbench in {}",
        counted(files.len() as u64, "script"),
        args.to.display()
    ));
    terminal.print(&format!("{command}\n"))?;
    Ok(Exit::Done)
}

fn to_pgreplay(
    args: &ExportArgs,
    plan: &WorkloadPlan,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let Some(file) = &plan.sessions else {
        return Err(Failure::usage(format!("{} has no sessions", plan.name))
            .with_remedy("record them: pgassay workload from-log LOG --sessions")
            .into());
    };
    let program = workload::program(plan)?;
    let transactions = sessions::header(file)?.transactions;
    let sessions = sessions::read(file, &program, transactions)?;
    let about = About {
        user: &args.user,
        database: &args.database,
        prepared: plan.protocol != "simple",
    };
    let stamp = |us: u64| {
        let at = BEGIN_US.saturating_add_unsigned(us);
        jiff::Timestamp::from_microsecond(at)
            .unwrap_or_default()
            .to_string()
    };
    let lines = pgreplay::lines(&program, &sessions, &about, &stamp);
    let mut text = lines.join("\n");
    text.push('\n');
    to_file(&args.to, "--to", &text)?;
    terminal.announce(&format!(
        "{} of {} in {}",
        counted(lines.len() as u64, "line"),
        counted(sessions.len() as u64, "session"),
        args.to.display()
    ));
    let file = args.to.display().to_string();
    let words = [
        "pgreplay",
        "run",
        "--json-input",
        &file,
        "--host",
        "HOST",
        "--port",
        "PORT",
        "--user",
        &args.user,
        "--database",
        &args.database,
    ];
    terminal.print(&format!("{}\n", pgassay_text::shell(&words)))?;
    Ok(Exit::Done)
}
