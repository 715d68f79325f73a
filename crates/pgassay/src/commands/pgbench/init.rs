//! `-i`: the tables of pgbench, made and filled in pgbench's steps.
//!
//! Other than in pgbench the accounts are filled over several connections, branch by branch, so that
//! an interrupted `-i` can be gone on with.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use pgassay_engine::workload::bulk::{self, ACCOUNTS, Filling};
use pgassay_engine::workload::parallel::{self, Loaded};
use pgassay_engine::workload::pgbench_ddl::{Ddl, KEYS};
use pgassay_model::workload::Tables;
use pgassay_pgwire::Session;
use pgassay_sys::stop::Stop;

use super::args::PgbenchArgs;
use crate::terminal::Terminal;

/// Tellers of a branch.
const TELLERS: u64 = 10;
/// Rows sent at once.
const BATCH: u64 = 2_000;

/// Makes and fills the tables.
pub fn initialize(
    args: &PgbenchArgs,
    session: &mut Session,
    terminal: &mut Terminal,
    stop: &Stop,
) -> Result<()> {
    let mut steps = args
        .init_steps
        .clone()
        // pgbench's own order is dtgvp. Building the index first leaves VACUUM half the work: the
        // parallel build has looked at every row already.
        .unwrap_or_else(|| "dtgpv".to_owned());
    if args.foreign_keys && !steps.contains('f') {
        steps.push('f');
    }
    if args.no_vacuum {
        steps = steps.replace('v', "");
    }
    if args.resume {
        steps.retain(|step| !"dt".contains(step));
    }
    let tables = args.tables();
    let ddl = ddl(&tables, args, session)?;
    let begin = Instant::now();
    let mut times = Vec::new();
    for step in steps.chars().filter(|c| *c != ' ') {
        let step_begin = Instant::now();
        let name = match step {
            'd' => {
                terminal.verbatim("dropping old tables...");
                session.execute(
                    "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
                )?;
                "drop tables"
            }
            't' => {
                terminal.verbatim("creating tables...");
                if args.partitions > 0 {
                    terminal.verbatim(&format!("creating {} partitions...", args.partitions));
                }
                for statement in ddl.create() {
                    session
                        .execute(&statement)
                        .with_context(|| format!("could not create the tables: {statement}"))?;
                }
                "create tables"
            }
            'g' => {
                terminal.verbatim("generating data (client-side)...");
                generate_here(args, session, terminal, stop)?;
                "client-side generate"
            }
            'G' => {
                terminal.verbatim("generating data (server-side)...");
                generate_there(args, session)?;
                "server-side generate"
            }
            'v' => {
                terminal.verbatim("vacuuming...");
                for table in ["branches", "tellers", "accounts", "history"] {
                    session.execute(&format!("vacuum analyze pgbench_{table}"))?;
                }
                "vacuum"
            }
            'p' => {
                terminal.verbatim("creating primary keys...");
                for (table, key) in KEYS {
                    if args.resume && has_primary_key(session, table)? {
                        continue;
                    }
                    session.execute(&ddl.primary_key(table, key))?;
                }
                "primary keys"
            }
            _ => {
                terminal.verbatim("creating foreign keys...");
                for statement in ddl.foreign_keys() {
                    session.execute(&statement)?;
                }
                "foreign keys"
            }
        };
        times.push(format!(
            "{name} {:.2} s",
            step_begin.elapsed().as_secs_f64()
        ));
    }
    if steps.contains('g') && steps.contains('p') {
        bulk::check_accounts(session, "pgbench_accounts", scale(args))?;
    }
    let total = begin.elapsed().as_secs_f64();
    terminal.verbatim(&format!("done in {total:.2} s ({}).", times.join(", ")));
    Ok(())
}

fn scale(args: &PgbenchArgs) -> u32 {
    args.scale.unwrap_or(1)
}

/// The statements for these tables.
fn ddl<'a>(tables: &'a Tables, args: &PgbenchArgs, session: &mut Session) -> Result<Ddl<'a>> {
    let version = session.value("SHOW server_version_num")?;
    Ok(Ddl {
        tables,
        scale: scale(args),
        schema: "",
        version: version.and_then(|v| v.parse().ok()).unwrap_or(0),
    })
}

fn truncate(session: &mut Session) -> Result<()> {
    session.execute("begin")?;
    session.execute(
        "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
    )?;
    Ok(())
}

/// Whether an earlier -i got as far as the table's primary key.
fn has_primary_key(session: &mut Session, table: &str) -> Result<bool> {
    let found = session.value(&format!(
        "SELECT true FROM pg_catalog.pg_index WHERE indisprimary \
         AND indrelid = pg_catalog.to_regclass('pgbench_{table}')"
    ))?;
    Ok(found.is_some())
}

fn generate_here(
    args: &PgbenchArgs,
    session: &mut Session,
    terminal: &mut Terminal,
    stop: &Stop,
) -> Result<()> {
    let branches = u64::from(scale(args));
    let filled = args.resume
        && session.value("SELECT count(*) FROM pgbench_tellers")?
            == Some((branches * TELLERS).to_string());
    let missing = if filled {
        bulk::missing_branches(session, "pgbench_accounts", scale(args))?
    } else {
        fill_small_tables(session, branches)?;
        (1..=branches).collect()
    };
    if args.resume {
        terminal.verbatim(&format!(
            "{} of {branches} branches are there",
            branches - missing.len() as u64
        ));
    }
    let connector = session
        .connector()
        .cloned()
        .context("how this session was connected")?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let filling = Filling {
        connector: &connector,
        table: "pgbench_accounts",
        large: scale(args) >= bulk::LARGE_SCALE,
        branches: &missing,
        workers: parallel::workers(scale(args) as usize, processors),
    };
    let every = Duration::from_secs(if args.quiet { 5 } else { 1 });
    let (mut shown, mut done) = (Instant::now(), false);
    let mut say = |loaded: Loaded| {
        let Loaded { rows, all, elapsed } = loaded;
        if (shown.elapsed() >= every || rows == all) && !done {
            shown = Instant::now();
            done = rows == all;
            let left = loaded.left().unwrap_or_default();
            terminal.verbatim(&format!(
                "{rows} of {all} tuples ({}%) done (elapsed {:.2} s, remaining {:.2} s)",
                rows * 100 / all.max(1),
                elapsed.as_secs_f64(),
                left.as_secs_f64(),
            ));
        }
    };
    // The branches that are done stay for --resume.
    let _kept = stop.defer();
    bulk::fill_accounts(filling, &mut say, stop)?;
    Ok(())
}

fn fill_small_tables(session: &mut Session, branches: u64) -> Result<()> {
    truncate(session)?;
    // From release 14 on COPY may write rows as frozen.
    let version = session.value("SELECT current_setting('server_version_num')::int >= 140000")?;
    let freeze = version.as_deref() == Some("t");
    fill(session, "branches", branches, freeze, |n, row| {
        write!(row, "{n}\t0\t\\N")
    })?;
    fill(session, "tellers", branches * TELLERS, freeze, |n, row| {
        write!(row, "{n}\t{}\t0\t\\N", (n - 1) / TELLERS + 1)
    })?;
    session.execute("commit")?;
    Ok(())
}

fn fill(
    session: &mut Session,
    table: &str,
    rows: u64,
    freeze: bool,
    write: impl Fn(u64, &mut String) -> std::fmt::Result,
) -> Result<()> {
    let options = if freeze { " with (freeze on)" } else { "" };
    let mut copy = session.copy_in(&format!("copy pgbench_{table} from stdin{options}"))?;
    let mut text = String::new();
    for n in 1..=rows {
        write(n, &mut text)?;
        text.push('\n');
        if n % BATCH == 0 || n == rows {
            copy.put(text.as_bytes())?;
            text.clear();
        }
    }
    let written = copy.finish()?;
    if written != rows {
        bail!("pgbench_{table} has {written} rows after filling, not {rows}");
    }
    Ok(())
}

fn generate_there(args: &PgbenchArgs, session: &mut Session) -> Result<()> {
    truncate(session)?;
    let branches = u64::from(scale(args));
    session.execute(&format!(
        "insert into pgbench_branches(bid,bbalance) select bid, 0 from generate_series(1, {branches}) as bid"
    ))?;
    session.execute(&format!(
        "insert into pgbench_tellers(tid,bid,tbalance) select tid, (tid - 1) / {TELLERS} + 1, 0 from generate_series(1, {}) as tid",
        branches * TELLERS
    ))?;
    session.execute(&format!(
        "insert into pgbench_accounts(aid,bid,abalance,filler) select aid, (aid - 1) / {ACCOUNTS} + 1, 0, '' from generate_series(1, {}) as aid",
        branches * ACCOUNTS
    ))?;
    session.execute("commit")?;
    Ok(())
}
