//! What of the user's scripts fails whatever is in the database: known before tables are made.

use pgassay_load::script::{Capture, Command, Program, Sql};
use pgassay_load::{Options, stops};
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;
use pgassay_pgwire::{QueryError, Session};

use super::{is_registered, options_of, program, stopped};

/// Draws of the values that scripts compute.
const DRAWS: u64 = 20;
/// syntax_error
const SYNTAX: &str = "42601";

/// Refuses scripts that cannot run: a client would stop at a command, or the server finds a mistake of syntax. `owned`
/// says that the server is ours, so that a query may be tried.
///
/// # Errors
/// Script, line, command, and what the client or the server says of it.
pub fn refuse(plan: &WorkloadPlan, session: &mut Session, owned: bool) -> anyhow::Result<()> {
    if plan.scripts.is_empty() || is_registered(plan) {
        return Ok(());
    }
    let program = program(plan)?;
    let options = options_of(plan)?;
    if let Some(why) = (0..DRAWS).find_map(|seed| stops(&program, &options, seed)) {
        return Err(stopped(&why).into());
    }
    for (script, command, text) in texts(&program, &options, plan) {
        let place = || program.scripts()[script].place(command);
        let Command::Sql(sql) = &program.scripts()[script].commands[command] else {
            continue;
        };
        if let Err(error) = session.parse(&text) {
            match error {
                QueryError::Server(error) if error.sqlstate == SYNTAX => {
                    let why = format!("{}: {error}", place());
                    let failure = Failure::usage(format!("a script has a mistake: {why}"));
                    let remedy = match sql.is_several {
                        true => "several statements in one message need --protocol simple",
                        false => "correct the script at that line",
                    };
                    return Err(failure.with_remedy(remedy).into());
                }
                QueryError::Server(_) => continue,
                lost => return Err(lost.into()),
            }
        }
        if owned && let Some(rows) = rows(session, sql)? {
            let why = format!("{}: \\gset: expected one row, got {rows}", place());
            return Err(stopped(&why).into());
        }
    }
    Ok(())
}

/// The statements that every transaction of a script sends, with their places.
fn texts(program: &Program, options: &Options, plan: &WorkloadPlan) -> Vec<(usize, usize, String)> {
    if plan.protocol == "simple" {
        // Variables may stand for any part of the text.
        let sent = pgassay_load::sent(program, options, 0);
        return sent
            .into_iter()
            .map(|sent| (sent.place.0, sent.place.1, sent.sql))
            .collect();
    }
    let mut texts = Vec::new();
    for (place, script) in program.scripts().iter().enumerate() {
        let mut depth = 0_u32;
        for (at, command) in script.commands.iter().enumerate() {
            match command {
                Command::If { .. } => depth += 1,
                Command::Endif => depth = depth.saturating_sub(1),
                Command::Sql(sql) if depth == 0 => {
                    texts.push((place, at, sql.parametrized.clone()));
                }
                _ => {}
            }
        }
    }
    texts
}

/// How many rows a query returns that `\gset` takes one of, where they are several before there are tables.
fn rows(session: &mut Session, sql: &Sql) -> anyhow::Result<Option<usize>> {
    if !matches!(sql.capture, Some(Capture::Gset(_))) || !sql.params.is_empty() || sql.is_several {
        return Ok(None);
    }
    session.execute("BEGIN READ ONLY; SET LOCAL statement_timeout = '2s'")?;
    let found = session.rows(&sql.text);
    session.execute("ROLLBACK")?;
    // Without its tables it may fail.
    Ok(found
        .ok()
        .map(|found| found.rows.len())
        .filter(|rows| *rows > 1))
}
