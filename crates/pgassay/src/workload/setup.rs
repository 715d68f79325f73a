//! Making in the database what a workload needs, bringing it into the same state before each trial,
//! asking afterwards whether all is well, and taking it away again.

use anyhow::{Context, bail};
use pgassay_analysis::plan::WorkloadPlan;

use super::pgbench_tables::{self, Made, SCHEMA};
use crate::exit::Failure;
use crate::pg::{ConnectError, QueryError, Session};
use crate::stop::Stop;

/// What is said where the connection broke.
const GONE: &str = "the server went away while the tables were made";

/// What is said where the server refused.
const NOT_MADE: &str = "the tables could not be made";

/// Stands in `settle` for a VACUUM of each of our tables.
pub const VACUUM_OURS: &str = "VACUUM";

/// Makes our schema and in it what the workload needs; `progress` is told the share done, 0 to 1.
/// The session finds our tables by their bare names from here on.
///
/// # Errors
/// Where the server refuses, naming what; what was made until then is removed.
pub fn create(
    session: &mut Session,
    plan: &WorkloadPlan,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<Made> {
    if let Err(error) = session.execute(&format!("CREATE SCHEMA {SCHEMA}")) {
        let lost = error.is_fatal();
        let error = anyhow::Error::from(error).context("cannot make the schema pgassay");
        return Err(match lost {
            true => error.context(Failure::target(GONE)),
            false => error.context(Failure::target(NOT_MADE).with_remedy(
                "the role needs CREATE on the database: GRANT CREATE ON DATABASE … TO …, \
                 or connect as its owner",
            )),
        });
    }
    match fill(session, plan, progress, stop) {
        Ok(made) => Ok(made),
        Err(error) => {
            // Where the connection broke, the next run finds what is left by the schema's comment.
            let _ = session.execute("ROLLBACK");
            if let Ok(made) = look(session) {
                let _ = remove(session, &made);
            }
            let refused = error
                .chain()
                .find_map(|cause| cause.downcast_ref::<QueryError>());
            let lost = error.chain().any(|cause| cause.is::<ConnectError>());
            Err(match refused.map(QueryError::is_fatal) {
                Some(false) => error.context(Failure::target(NOT_MADE)),
                None if !lost => error,
                _ => error.context(Failure::target(GONE)),
            })
        }
    }
}

fn fill(
    session: &mut Session,
    plan: &WorkloadPlan,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<Made> {
    find_ours(session)?;
    if !plan.without_pgbench_tables {
        pgbench_tables::fill(session, plan, progress, stop)?;
    }
    if stop.asked() {
        bail!(Failure::interrupted());
    }
    session.execute("BEGIN")?;
    for statement in &plan.setup {
        let statement = statement.replace(":scale", &plan.scale.to_string());
        session
            .execute(&statement)
            .with_context(|| format!("the workload's set-up fails at: {statement}"))?;
    }
    let made = note(session)?;
    session.execute("COMMIT")?;
    if !plan.setup.is_empty() {
        for table in tables(session)? {
            session.execute(&format!("VACUUM (ANALYZE) {table}"))?;
        }
    }
    progress(1.0);
    Ok(made)
}

/// Reads every table and key of ours once, as far as the buffers hold them.
///
/// # Errors
/// Where the server refuses.
pub fn read_in(session: &mut Session) -> anyhow::Result<()> {
    session.execute("SET max_parallel_workers_per_gather = 0")?;
    // After VACUUM both counts could be answered from the key alone, and the table stay unread.
    session.execute("SET enable_indexonlyscan = off")?;
    let tables = session.rows(
        "SELECT pg_catalog.quote_ident(c.relname) AS name, a.attname AS key \
         FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] \
         WHERE n.nspname = 'pgassay' AND c.relkind = 'r'",
    )?;
    for row in &tables.rows {
        let [Some(table), key] = row.as_slice() else {
            continue;
        };
        session.value(&format!("SELECT count(*) FROM {SCHEMA}.{table}"))?;
        if let Some(key) = key {
            session.execute(
                "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = on",
            )?;
            session.value(&format!(
                "SELECT count({key}) FROM {SCHEMA}.{table} WHERE {key} > 0"
            ))?;
            session.execute(
                "RESET enable_seqscan; RESET enable_bitmapscan; SET enable_indexonlyscan = off",
            )?;
        }
    }
    session.execute("RESET max_parallel_workers_per_gather; RESET enable_indexonlyscan")?;
    Ok(())
}

/// The triggers on our tables that we did not make, such as an event trigger of the database gives
/// to every new table: each change that is measured pays for them.
///
/// # Errors
/// Where the session broke.
pub fn foreign_triggers(
    session: &mut Session,
    plan: &WorkloadPlan,
) -> anyhow::Result<Option<String>> {
    let our_own = |statement: &String| statement.to_ascii_uppercase().contains("TRIGGER");
    if plan.setup.iter().any(our_own) {
        return Ok(None);
    }
    Ok(session.value(&format!(
        "SELECT pg_catalog.string_agg(pg_catalog.format('%s on %s, which calls %s', t.tgname, \
             c.relname, t.tgfoid::pg_catalog.regproc), '; ' ORDER BY c.relname, t.tgname) \
         FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{SCHEMA}' AND NOT t.tgisinternal"
    ))?)
}

/// Lets a session find our tables, and no others, by their bare names.
///
/// # Errors
/// Where the session broke.
pub fn find_ours(session: &mut Session) -> anyhow::Result<()> {
    session.execute(&format!("SET search_path = {SCHEMA}"))?;
    Ok(())
}

/// Writes into the schema's comment what lies in it, so that a later run can remove what a killed
/// one left; to be called in the transaction that made it.
pub(super) fn note(session: &mut Session) -> anyhow::Result<Made> {
    let made = look(session)?;
    let comment = made.comment();
    session.execute(&format!("COMMENT ON SCHEMA {SCHEMA} IS '{comment}'"))?;
    Ok(made)
}

/// Brings a launched server into the state in which every trial of a writing workload begins.
///
/// # Errors
/// Where a statement fails, naming it.
pub fn settle(session: &mut Session, statements: &[String]) -> anyhow::Result<()> {
    for statement in statements {
        let run = |session: &mut Session, text: &str| {
            session
                .execute(text)
                .with_context(|| format!("before a trial: {text}"))
        };
        if statement == VACUUM_OURS {
            for table in tables(session)? {
                run(session, &format!("VACUUM {table}"))?;
            }
        } else {
            run(session, statement)?;
        }
    }
    Ok(())
}

/// Asks the workload's question after the load; the answer in words where it is not yes.
///
/// # Errors
/// Where the session broke.
pub fn verify(session: &mut Session, plan: &WorkloadPlan) -> anyhow::Result<Option<String>> {
    let Some(question) = &plan.verify else {
        return Ok(None);
    };
    // No statement of ours outlasts a second in a server of somebody else; in our own there is time.
    match session.value(question) {
        Ok(Some(answer)) if answer == "t" => Ok(None),
        Ok(_) => Ok(Some(format!(
            "after the load the tables contradict themselves; the question was: {question}"
        ))),
        Err(error) if error.is_fatal() => Err(error.into()),
        Err(error) => Ok(Some(format!("the tables could not be verified: {error}"))),
    }
}

/// What lies in our schema, by OID.
fn look(session: &mut Session) -> anyhow::Result<Made> {
    let oid = |text: Option<&str>| {
        text.and_then(|t| t.parse().ok())
            .context("an OID is missing")
    };
    let schema = session.rows(&format!(
        "SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'"
    ))?;
    let tables = session.rows(&format!(
        "SELECT c.oid FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p') ORDER BY c.oid"
    ))?;
    Ok(Made {
        schema: oid(schema.first("oid"))?,
        tables: tables
            .rows
            .iter()
            .map(|row| oid(row.first().and_then(|value| value.as_deref())))
            .collect::<anyhow::Result<_>>()?,
    })
}

/// The names of the tables in our schema that hold rows.
fn tables(session: &mut Session) -> anyhow::Result<Vec<String>> {
    let rows = session.rows(&format!(
        "SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{SCHEMA}' AND c.relkind = 'r' ORDER BY c.relpages"
    ))?;
    Ok(rows
        .rows
        .into_iter()
        .filter_map(|row| row.into_iter().next().flatten())
        .collect())
}

/// Removes what was made, each by its recorded OID and nothing that depends on it.
///
/// # Errors
/// Where something is in the way, such as a table that somebody else put into the schema.
pub fn remove(session: &mut Session, made: &Made) -> anyhow::Result<()> {
    for oid in &made.tables {
        // The name is asked for by OID: a table of the same name made by another stays.
        let name = session.value(&format!(
            "SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) \
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.oid = {oid} AND n.oid = {}",
            made.schema
        ))?;
        if let Some(name) = name {
            session
                .execute(&format!("DROP TABLE {name}"))
                .with_context(|| format!("cannot remove {name}"))?;
        }
    }
    let schema = session.value(&format!(
        "SELECT pg_catalog.quote_ident(nspname) FROM pg_catalog.pg_namespace WHERE oid = {}",
        made.schema
    ))?;
    if let Some(schema) = schema {
        session
            .execute(&format!("DROP SCHEMA {schema}"))
            .with_context(|| format!("cannot remove the schema {schema}"))?;
    }
    Ok(())
}
