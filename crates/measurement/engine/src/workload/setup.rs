//! Making in the database what a workload needs, bringing it into the same state before each trial,
//! asking afterwards whether all is well, and taking it away again.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgassay_model::workload::{DataSet, WorkloadPlan};
use pgassay_model::{Failure, FailureKind};
use pgassay_pgwire::{ConnectError, Connector, Conninfo, QueryError, Session};
use pgassay_sys::stop::Stop;

use super::order_entry;
use super::pgbench_tables;
use super::schema::{Made, SCHEMA, note};

/// What is said where the connection broke.
const GONE: &str = "the server went away while the tables were made";

/// What is said where the server refused.
const NOT_MADE: &str = "the tables could not be made";

/// Stands in `settle` for a VACUUM of each of our tables.
pub const VACUUM_OURS: &str = "VACUUM";

/// The option with which a session writes nothing, unless its statements say that they do.
pub const READ_ONLY: &str = "-c default_transaction_read_only=on";

/// The command line option for the backend with which a session finds our tables, and no others, by
/// their bare names. A connection to a server of somebody else gets its settings at its start or for
/// a transaction, never by a plain SET: behind a pooler others would inherit it.
pub const FIND_OURS: &str = "-c search_path=pgassay";

/// The option with which a session finds nothing by its bare name that is not PostgreSQL's own: for
/// those in which every statement is ours and names its schema.
pub const FIND_CATALOGS: &str = "-c search_path=pg_catalog";

/// The option with which a session of a workload finds its tables.
///
/// # Errors
/// Where the server can't be asked what its sessions find.
pub fn find_tables(plan: &WorkloadPlan, conninfo: &Conninfo) -> anyhow::Result<String> {
    if super::is_registered(plan) {
        return Ok(FIND_OURS.to_owned());
    }
    let path = search_path(plan, &mut pgassay_pgwire::connect(conninfo)?)?;
    Ok(format!("-c search_path={}", escaped(&path)))
}

/// Where a workload's statements find tables: those that we wrote find ours and no others, so that
/// nothing that the database's or the role's search_path names is run by them; scripts of the user
/// find ours first and then what the user's own sessions find.
fn search_path(plan: &WorkloadPlan, session: &mut Session) -> Result<String, QueryError> {
    if super::is_registered(plan) {
        return Ok(SCHEMA.to_owned());
    }
    session.search_path_behind(SCHEMA)
}

/// A value among the options of a start-up message, where blanks separate and a backslash escapes.
fn escaped(value: &str) -> String {
    let special = |c: char| c.is_ascii_whitespace() || c == '\\';
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if special(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Makes our schema and in it what the workload needs; `progress` is told the share done, 0 to 1.
///
/// # Errors
/// Where the server refuses, naming what. What was made until then stays: see [`undone`].
pub fn create(
    session: &mut Session,
    plan: &WorkloadPlan,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<Made> {
    if let Err(error) = make_schema(session) {
        let refused = refusal(&error).is_some_and(|query| !query.is_fatal());
        let error = error.context("cannot make the schema pgassay");
        return Err(match refused {
            false => error.context(Failure::target(GONE)),
            true => error.context(Failure::target(NOT_MADE).with_remedy(
                "the role needs CREATE on the database: GRANT CREATE ON DATABASE … TO …, \
                 or connect as its owner",
            )),
        });
    }
    fill(session, plan, progress, stop).map_err(|error| {
        let lost = error.chain().any(|cause| cause.is::<ConnectError>());
        match refusal(&error).map(QueryError::is_fatal) {
            Some(false) => error.context(Failure::target(NOT_MADE)),
            None if !lost => error,
            _ => error.context(Failure::target(GONE)),
        }
    })
}

/// What a statement came to, where one is behind the error.
fn refusal(error: &anyhow::Error) -> Option<&QueryError> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// The schema never is without its comment, by which a later run knows it: whoever is killed in
/// between leaves nothing.
fn make_schema(session: &mut Session) -> anyhow::Result<()> {
    let made = session
        .execute(&format!("BEGIN; CREATE SCHEMA {SCHEMA}"))
        .map_err(anyhow::Error::from)
        .and_then(|()| note(session))
        .and_then(|_| Ok(session.execute("COMMIT")?));
    if made.is_err() {
        // Where the session broke there is nothing to roll back.
        let _ = session.execute("ROLLBACK");
    }
    made
}

/// Removes what [`create`] made before its error, on a new connection where this one broke, and adds
/// to the error that it is still there where that fails.
pub fn undone(session: &mut Session, error: anyhow::Error) -> anyhow::Error {
    let _ = session.execute("ROLLBACK");
    let removed = remove_noted(session).or_else(|failed| match session.connector().cloned() {
        Some(connector) => remove_again(&connector),
        None => Err(failed),
    });
    match removed {
        Ok(_) => error,
        Err(failed) => {
            let failure = Failure::of(&error);
            let (kind, remedy) = failure.map_or((FailureKind::Target, None), |failure| {
                (failure.kind, failure.remedy.clone())
            });
            let message = format!("{error:#}; {}", still_there(&failed));
            Failure {
                kind,
                message,
                remedy: remedy.or_else(|| Some(REMOVED_LATER.to_owned())),
            }
            .into()
        }
    }
}

/// Removes our schema on a new connection, unless another pgassay has begun here since ours broke.
fn remove_again(connector: &Connector) -> anyhow::Result<bool> {
    let mut session = again(connector)?;
    let until = Instant::now() + PARTING;
    while session.value(TAKE_LOCK)?.as_deref() != Some("t") {
        if Instant::now() >= until {
            bail!(Failure::target("another pgassay measures in this database"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    remove_noted(&mut session)
}

/// Takes the lock that keeps a second pgassay out of a database until the session ends. The key is
/// "pgassay" in ASCII, cut to 8 bytes.
pub(super) const TAKE_LOCK: &str = "SELECT pg_catalog.pg_try_advisory_lock(31638865638023545)";

/// How long the lock is waited for after a session of ours was ended: its process holds it until it
/// has gone, which is after the client was told.
const PARTING: Duration = Duration::from_secs(5);

/// Asks for shared_buffers in bytes, whatever operators and functions the role's search_path shows.
pub const SHARED_BUFFERS: &str = "SELECT setting::pg_catalog.int8 OPERATOR(pg_catalog.*) \
            pg_catalog.current_setting('block_size')::pg_catalog.int8 \
     FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'shared_buffers'";

/// What becomes of a schema that could not be removed.
const REMOVED_LATER: &str =
    "the next run with --load in this database removes it, or DROP SCHEMA pgassay CASCADE";

/// That our schema stays, and why.
pub fn still_there(error: &anyhow::Error) -> String {
    format!("the schema pgassay is still there: {error:#}; {REMOVED_LATER}")
}

/// How long a server that restarts is waited for, to clean up in it.
const RESTART: Duration = Duration::from_secs(20);

/// A new session in a server that may be recovering from a crash at the moment.
///
/// # Errors
/// Where there is none to be had.
pub fn again(connector: &Connector) -> anyhow::Result<Session> {
    let until = Instant::now() + RESTART;
    loop {
        match connector.connect() {
            Err(e) if e.is_transient() && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(200));
            }
            connected => return Ok(connected?),
        }
    }
}

/// Removes our schema with what its comment lists; false where there is none.
///
/// # Errors
/// Where a schema of that name is not known by its comment, or something is in the way.
pub fn remove_noted(session: &mut Session) -> anyhow::Result<bool> {
    let found = session.catalog_rows(&format!(
        "SELECT n.oid, pg_catalog.obj_description(n.oid, 'pg_namespace') AS comment, \
                n.nspowner = (SELECT oid FROM pg_catalog.pg_roles \
                              WHERE rolname = current_user) AS own, \
                NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
                            WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass \
                              AND d.refobjid = n.oid) AS empty \
         FROM pg_catalog.pg_namespace n WHERE n.nspname = '{SCHEMA}'"
    ))?;
    if found.rows.is_empty() {
        return Ok(false);
    }
    let noted = found.first("comment").and_then(Made::from_comment);
    if let Some(made) = noted
        && found.first("oid") == Some(&made.schema.to_string())
    {
        remove(session, &made)?;
        return Ok(true);
    }
    let yes = |column| found.first(column) == Some("t");
    bail!(match yes("own") && yes("empty") && found.first("comment").is_none() {
        true => Failure::target(
            "the database has an empty schema `pgassay` of this role, without the comment by which \
             pgassay knows its own"
        )
        .with_remedy(
            "a pgassay that was killed may have left it; if nobody needs it: DROP SCHEMA pgassay"
        ),
        false => Failure::target("the database has a schema `pgassay` that pgassay did not make")
            .with_remedy("use another database, or remove the schema if nobody needs it"),
    })
}

fn fill(
    session: &mut Session,
    plan: &WorkloadPlan,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<Made> {
    if !plan.without_pgbench_tables {
        pgbench_tables::fill(session, plan, progress, stop)?;
    }
    match plan.data {
        Some(DataSet::OrderEntry) => order_entry::fill(session, plan.scale, progress, stop)?,
        None => {}
    }
    if stop.asked() {
        bail!(Failure::interrupted());
    }
    let path = search_path(plan, session)?;
    session.execute(&format!("BEGIN; SET LOCAL search_path = {path}"))?;
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
    // Whole tables, and then whole keys. After VACUUM both counts could be answered from the key
    // alone, and the table stay unread.
    // Up to 9.5 there are no parallel workers, nor their setting.
    const ALONE: &str = "SET LOCAL search_path = pg_catalog; \
                         SELECT set_config(name, '0', true) FROM pg_settings \
                         WHERE name = 'max_parallel_workers_per_gather'";
    const TABLE: &str = "SET LOCAL enable_indexonlyscan = off";
    const KEY: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off";
    let tables = session.catalog_rows(
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
        session.execute(&format!(
            "BEGIN; {ALONE}; {TABLE}; SELECT count(*) FROM {SCHEMA}.{table}; COMMIT"
        ))?;
        if let Some(key) = key {
            session.execute(&format!(
                "BEGIN; {ALONE}; {KEY}; SELECT count({key}) FROM {SCHEMA}.{table} WHERE {key} > 0; COMMIT"
            ))?;
        }
    }
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
    Ok(session.catalog_value(&format!(
        "SELECT pg_catalog.string_agg(pg_catalog.format('%s on %s, which calls %s', t.tgname, \
             c.relname, t.tgfoid::pg_catalog.regproc), '; ' ORDER BY c.relname, t.tgname) \
         FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{SCHEMA}' AND NOT t.tgisinternal"
    ))?)
}

/// Brings a launched server into the state in which every trial of a writing workload begins.
///
/// # Errors
/// Where a statement fails, naming it.
pub fn settle(session: &mut Session, statements: &[String]) -> anyhow::Result<()> {
    // Only servers that we launched are settled: nobody else has this connection.
    session.execute(&format!("SET search_path = {SCHEMA}"))?;
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
    let path = search_path(plan, session)?;
    session.execute(&format!("BEGIN READ ONLY; SET LOCAL search_path = {path}"))?;
    let answer = session.value(question);
    if !answer.as_ref().is_err_and(QueryError::is_fatal) {
        session.execute("ROLLBACK")?;
    }
    match answer {
        Ok(Some(answer)) if answer == "t" => Ok(None),
        Ok(_) => Ok(Some(format!(
            "after the load the tables contradict themselves; the question was: {question}"
        ))),
        Err(error) if error.is_fatal() => Err(error.into()),
        Err(error) => Ok(Some(format!("the tables could not be verified: {error}"))),
    }
}

/// Asks after the load whether the workload's conditions hold; those that do not, by name.
///
/// # Errors
/// Where the server refuses a question, or the session broke.
pub fn broken_conditions(
    session: &mut Session,
    plan: &WorkloadPlan,
) -> anyhow::Result<Vec<String>> {
    if plan.conditions.is_empty() {
        return Ok(Vec::new());
    }
    let path = search_path(plan, session)?;
    // One snapshot for all: somebody else may write meanwhile.
    session.execute(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = {path}"
    ))?;
    let broken =
        plan.conditions
            .iter()
            .filter_map(|condition| match session.value(&condition.question) {
                Ok(answer) if answer.as_deref() == Some("t") => None,
                Ok(_) => Some(Ok(condition.name.clone())),
                Err(error) => {
                    Some(Err(error).with_context(|| {
                        format!("condition {} can't be asked for", condition.name)
                    }))
                }
            });
    let broken: anyhow::Result<Vec<String>> = broken.collect();
    // Where the session broke there is nothing to end.
    let ended = session.execute("ROLLBACK");
    let broken = broken?;
    ended?;
    Ok(broken)
}

/// The names of the tables in our schema that hold rows.
fn tables(session: &mut Session) -> anyhow::Result<Vec<String>> {
    let rows = session.catalog_rows(&format!(
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
    for oid in &made.routines {
        let name = session.catalog_value(&format!(
            "SELECT CASE pg_catalog.to_jsonb(p) ->> 'prokind' WHEN 'p' THEN 'PROCEDURE ' \
                 ELSE 'FUNCTION ' END || p.oid::pg_catalog.regprocedure \
             FROM pg_catalog.pg_proc p WHERE p.oid = {oid} AND p.pronamespace = {}",
            made.schema
        ))?;
        if let Some(name) = name {
            session
                .execute(&format!("DROP {name}"))
                .with_context(|| format!("cannot remove the {name}"))?;
        }
    }
    for oid in &made.tables {
        // The name is asked for by OID: a table of the same name made by another stays.
        let name = session.catalog_value(&format!(
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
    let schema = session.catalog_value(&format!(
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
