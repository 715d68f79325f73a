//! `pgassay workload from-statements`: the mix that pg_stat_statements counted, its values drawn from the tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_observe::may_plan;
use pgassay_pgwire::{Conninfo, Session};
use pgassay_server::TargetSpec;
use pgassay_statements::conditions::{Role, aggregates, roles};
use pgassay_statements::draw::{Asked, Table, values};
use pgassay_statements::made::Made;
use pgassay_statements::sessions::{is_frame, is_work};
use pgassay_statements::template::{Template, cast_typed};
use pgassay_statements::write::{About, Draft, MOST_SCRIPTS, Values};
use pgassay_sys::stop::Stop;
use pgassay_text::own::TAG;

use super::tables::{Name, Wanted};
use super::{finish, refuse_there, values as described};
use super::{synthetic, tables};
use crate::cli::workload::FromStatementsArgs;
use crate::commands::progress::Progress;
use crate::commands::record;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;

/// Statements that are looked at.
const LOOKED_AT: usize = 300;
/// Why what asks for tables, sizes or settings is left out: programs like pg_dump and pgassay itself.
const OF_SERVER: &str = "it asks about the server";
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// A statement as pg_stat_statements counts it.
#[derive(Debug, Clone, Default)]
struct Counted {
    query: String,
    calls: u64,
    time_ms: f64,
    rows: u64,
    /// The role (an OID) that sent it.
    role: Option<u32>,
}

/// A statement that the server took.
struct Understood {
    counted: Counted,
    template: Template,
    types: Vec<String>,
    roles: BTreeMap<u32, Role>,
    aggregates: bool,
}

/// Makes a workload of a server's counters.
///
/// # Errors
/// Where the server can't be asked, or has no counters.
pub fn from_statements(
    args: &FromStatementsArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    refuse_there(&args.into)?;
    if args.statistics.is_some() && args.into.anonymise {
        bail!(
            Failure::usage("--anonymise would make values of which the data that is made from the statistics has none")
                .with_remedy("anonymise the statistics: pgassay workload statistics --anonymise")
        );
    }
    let spec: TargetSpec = args.target.parse().map_err(explain)?;
    let TargetSpec::Server(text) = spec else {
        bail!(
            Failure::usage("statements are taken from a running server")
                .with_remedy("name its URI or conninfo: 'host=/var/run/postgresql dbname=app'")
        );
    };
    let conninfo = Conninfo::parse(&text).map_err(|error| Failure::usage(error.to_string()))?;
    let mut session = pgassay_pgwire::connect(&conninfo.observing())?;
    let source = record::shown(&text);
    let counted = count(&mut session, args, terminal, stop)?;
    let file = args.into.to.display().to_string();
    let origin = match &args.statistics {
        Some(_) => described(&args.into, "drawn from data that is made from statistics"),
        None => described(&args.into, "drawn from tables and statistics"),
    };
    let mut made = Made::new(source, file, &origin, env!("CARGO_PKG_VERSION"));
    let mut understood = understand(&mut session, counted, &mut made, terminal, stop)?;
    let roots = tables::roots(&mut session)?;
    for one in &mut understood {
        of_whole_tables(one, &roots);
    }
    let wanted = wanted(&understood);
    let tables = match &args.statistics {
        Some(dir) => synthetic::tables(dir, &wanted, args.into.samples)?,
        None => read(&mut session, wanted, args, terminal, stop)?,
    };
    let drafts = draw(understood, &tables, &mut made);
    if drafts.is_empty() {
        let most = made.left_out.iter().max_by_key(|one| one.statements);
        let why = most.map_or_else(|| "none was counted".to_owned(), |one| one.why.clone());
        bail!(
            Failure::target(format!(
                "no statement of the server can be made a script: {why}"
            ))
            .with_remedy("run the application first, or take the workload from a log")
        );
    }
    made.notes.push(
        "pg_stat_statements knows no transactions: each statement is one by itself. Keys are drawn as the tables \
         hold them, which need not be how the application asks; a log has both (from-log)."
            .to_owned(),
    );
    let about = About {
        explanation: format!("the statements of {}", made.source),
        protocol: "prepared",
        sessions: None,
    };
    finish(drafts, &about, made, None, &args.into, terminal)
}

/// Reads rows and statistics of the tables.
fn read(
    session: &mut Session,
    wanted: Wanted,
    args: &FromStatementsArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<BTreeMap<Name, Table>> {
    terminal.announce(&format!(
        "at most {} rows of each of {} tables are read",
        args.into.samples,
        wanted.len()
    ));
    let mut tables = BTreeMap::new();
    for (name, columns) in wanted {
        if stop.asked() {
            return Err(Failure::interrupted().into());
        }
        match tables::read(session, &name, &columns, args.into.samples, args.into.seed) {
            Ok(table) => drop(tables.insert(name, table)),
            Err(why) => terminal.note(&format!("{}.{}: {why}", name.0, name.1)),
        }
    }
    Ok(tables)
}

/// The counters, since the last reset or over the time that was asked for.
fn count(
    session: &mut Session,
    args: &FromStatementsArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Vec<Counted>> {
    let before = counters(session)?;
    let Some(seconds) = args.seconds else {
        return Ok(before);
    };
    let progress = Progress::new(terminal, 1000);
    let length = Duration::from_secs(u64::from(seconds));
    let begin = Instant::now();
    progress.say(format!("counting statements for {seconds} s"));
    // Ctrl-C ends the count early: what was counted is used.
    while begin.elapsed() < length && !stop.asked() {
        std::thread::sleep(LOOK);
        progress.share(begin.elapsed().as_secs_f64() / length.as_secs_f64());
    }
    progress.clear();
    let before: HashMap<_, Counted> = before
        .into_iter()
        .map(|one| ((one.query.clone(), one.role), one))
        .collect();
    let mut after = counters(session)?;
    for one in &mut after {
        if let Some(before) = before.get(&(one.query.clone(), one.role))
            && before.calls <= one.calls
        {
            one.calls -= before.calls;
            one.time_ms -= before.time_ms;
            one.rows = one.rows.saturating_sub(before.rows);
        }
    }
    after.retain(|one| one.calls > 0);
    after.sort_by_key(|one| std::cmp::Reverse(one.calls));
    Ok(after)
}

fn counters(session: &mut Session) -> anyhow::Result<Vec<Counted>> {
    let refused = |error: pgassay_pgwire::QueryError| {
        Failure::target(format!("pg_stat_statements can't be read: {error}")).with_remedy(
            "the role needs pg_read_all_stats; the extension needs shared_preload_libraries",
        )
    };
    let schema = session
        .catalog_value(
            "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e \
             JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'",
        )
        .map_err(refused)?
        .ok_or_else(|| {
            Failure::target("the extension pg_stat_statements is not in this database").with_remedy(
                "shared_preload_libraries = 'pg_stat_statements', restart, CREATE EXTENSION pg_stat_statements; or take \
                 the workload from a log",
            )
        })?;
    let columns = session
        .catalog_rows(&format!(
            "SELECT a.attname FROM pg_catalog.pg_attribute a \
             WHERE a.attrelid = '{schema}.pg_stat_statements'::pg_catalog.regclass"
        ))
        .map_err(refused)?;
    let columns: BTreeSet<String> = columns.rows.into_iter().flatten().flatten().collect();
    let time = if columns.contains("total_exec_time") {
        "total_exec_time"
    } else {
        "total_time"
    };
    // Statements within functions are part of those that call them.
    let top = if columns.contains("toplevel") {
        "AND s.toplevel"
    } else {
        ""
    };
    let rows = session
        .catalog_rows(&format!(
            "SELECT s.query, sum(s.calls), sum(s.{time}), sum(s.rows), s.userid FROM {schema}.pg_stat_statements s \
             WHERE s.query NOT LIKE '%{TAG}%' AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) {top} \
             GROUP BY s.query, s.userid ORDER BY 2 DESC"
        ))
        .map_err(refused)?;
    let parsed = rows.rows.into_iter().filter_map(|row| {
        let mut row = row.into_iter();
        let query = row.next()??;
        let mut figure = || row.next().flatten().unwrap_or_default();
        let (calls, time, rows, role) = (figure(), figure(), figure(), figure());
        Some(Counted {
            query,
            calls: calls.parse().ok()?,
            time_ms: time.parse().ok()?,
            rows: rows.parse().ok()?,
            role: role.parse().ok(),
        })
    });
    Ok(parsed.collect())
}

/// Whether a statement sets something for its transaction. What else is in the transaction is not known here.
fn is_local_setting(query: &str) -> bool {
    let mut words = query.split_ascii_whitespace();
    let mut is = |word: &str| {
        words
            .next()
            .is_some_and(|one| one.eq_ignore_ascii_case(word))
    };
    is("SET") && is("LOCAL")
}

/// What the server says of each statement: its parameters' types, and what they are compared with.
fn understand(
    session: &mut Session,
    counted: Vec<Counted>,
    made: &mut Made,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Vec<Understood>> {
    let progress = Progress::new(terminal, 1000);
    progress.say("asking for plans");
    let all: f64 = counted.iter().map(|one| one.time_ms).sum();
    let work: Vec<Counted> = counted
        .into_iter()
        .filter(|one| !is_frame(&one.query) && !is_local_setting(&one.query))
        .collect();
    made.statements = work.iter().map(|one| one.calls).sum();
    made.time_covered = (all > 0.0).then_some(0.0);
    let length = work.len().min(LOOKED_AT);
    let mut understood = Vec::new();
    let mut planned = HashMap::new();
    for (n, mut one) in work.into_iter().enumerate() {
        if stop.asked() {
            return Err(Failure::interrupted().into());
        }
        progress.share(n as f64 / length.max(1) as f64);
        // Of the whole from here on.
        one.time_ms /= all.max(f64::MIN_POSITIVE);
        let fit = if n >= LOOKED_AT || understood.len() >= MOST_SCRIPTS {
            Err(format!(
                "rarer than the {} statements that were taken",
                understood.len()
            ))
        } else if one.query.starts_with("<insufficient privilege>") {
            Err("its text is hidden from this role: it needs pg_read_all_stats".to_owned())
        } else if !is_work(&one.query) {
            Err("no statement of a load".to_owned())
        } else if ["pg_catalog.", "pg_stat_", "pg_settings"]
            .iter()
            .any(|name| one.query.contains(name))
        {
            Err(OF_SERVER.to_owned())
        } else {
            let allowed = planned
                .entry(one.role)
                .or_insert_with(|| may_plan(session, one.role));
            allowed.clone().and_then(|()| plan(session, &one))
        };
        match fit {
            Ok((template, types, roles, aggregates)) => understood.push(Understood {
                counted: one,
                template,
                types,
                roles,
                aggregates,
            }),
            Err(why) => leave_out(made, why, &one),
        }
    }
    progress.clear();
    Ok(understood)
}

type Planned = (Template, Vec<String>, BTreeMap<u32, Role>, bool);

/// Prepares a statement and asks for its generic plan, in a read-only transaction that is rolled back.
fn plan(session: &mut Session, one: &Counted) -> Result<Planned, String> {
    let sql = cast_typed(&one.query);
    let template =
        Template::of_parameters(&sql, usize::MAX).map_err(|unfit| unfit.words().to_owned())?;
    let asked = prepared_plan(session, &sql);
    if asked.is_err() {
        let _ = session.execute("ROLLBACK");
    }
    let _ = session.execute("DEALLOCATE ALL");
    let (types, plan) = asked?;
    let (mut catalogs, mut others) = (0, 0);
    relations(&plan, &mut catalogs, &mut others);
    if catalogs > 0 && others == 0 {
        return Err(OF_SERVER.to_owned());
    }
    let roles = roles(&sql, &plan);
    Ok((template, types, roles, aggregates(&plan)))
}

/// Counts the relations of a plan, those of the system and others.
fn relations(plan: &serde_json::Value, catalogs: &mut u32, others: &mut u32) {
    if plan["Relation Name"].is_string() {
        match plan["Schema"].as_str() {
            Some("pg_catalog" | "information_schema") => *catalogs += 1,
            _ => *others += 1,
        }
    }
    for child in plan["Plans"].as_array().into_iter().flatten() {
        relations(child, catalogs, others);
    }
}

fn prepared_plan(
    session: &mut Session,
    sql: &str,
) -> Result<(Vec<String>, serde_json::Value), String> {
    let said = |error: pgassay_pgwire::QueryError| match error {
        pgassay_pgwire::QueryError::Server(error) => {
            format!("the server does not take it: {}", error.message)
        }
        error => error.to_string(),
    };
    session
        .execute(
            "BEGIN READ ONLY; SET LOCAL statement_timeout = 2000; SET LOCAL lock_timeout = 200; \
             SET LOCAL standard_conforming_strings = on; SET LOCAL plan_cache_mode = force_generic_plan; \
             SET LOCAL enable_partition_pruning = off",
        )
        .map_err(said)?;
    session
        .execute_single(&format!("PREPARE pgassay_statement AS {sql}"))
        .map_err(said)?;
    let types = session
        .rows(
            "SELECT pg_catalog.format_type(t, NULL) FROM pg_catalog.pg_prepared_statements s, \
             pg_catalog.unnest(s.parameter_types) WITH ORDINALITY AS p (t, n) \
             WHERE s.name OPERATOR(pg_catalog.=) 'pgassay_statement' ORDER BY n",
        )
        .map_err(said)?;
    let types: Vec<String> = types.rows.into_iter().flatten().flatten().collect();
    let values = match types.len() {
        0 => String::new(),
        n => format!("({})", vec!["NULL"; n].join(", ")),
    };
    let text = session
        .value(&format!(
            "EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE pgassay_statement{values}"
        ))
        .map_err(said)?
        .unwrap_or_default();
    session.execute("ROLLBACK").map_err(said)?;
    let explained: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok((types, explained[0]["Plan"].clone()))
}

/// A plan names partitions where the statement names the table that has them.
fn of_whole_tables(one: &mut Understood, roots: &BTreeMap<Name, Name>) {
    for role in one.roles.values_mut() {
        let (Role::Compared(column, _) | Role::Inserted(column) | Role::Assigned(column)) = role
        else {
            continue;
        };
        if let Some((schema, table)) = roots.get(&(column.schema.clone(), column.table.clone()))
            && !one.counted.query.contains(&column.table)
        {
            (column.schema, column.table) = (schema.clone(), table.clone());
        }
    }
}

/// The columns whose values are needed, by table.
fn wanted(understood: &[Understood]) -> Wanted {
    let mut wanted = Wanted::new();
    for role in understood.iter().flat_map(|one| one.roles.values()) {
        if let Role::Compared(column, _) | Role::Inserted(column) | Role::Assigned(column) = role {
            let table = (column.schema.clone(), column.table.clone());
            wanted
                .entry(table)
                .or_default()
                .insert(column.column.clone());
        }
    }
    wanted
}

fn draw(
    understood: Vec<Understood>,
    tables: &BTreeMap<(String, String), Table>,
    made: &mut Made,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut constants = 0;
    for one in understood {
        let asked = Asked {
            types: &one.types,
            roles: &one.roles,
            rows: (!one.aggregates)
                .then(|| one.counted.rows as f64 / one.counted.calls.max(1) as f64),
            tables,
        };
        match values(&asked) {
            Ok(drawing) => {
                constants += drawing.constants;
                made.covered += one.counted.calls;
                made.time_covered = made.time_covered.map(|share| share + one.counted.time_ms);
                drafts.push(Draft {
                    steps: vec![one.template],
                    count: one.counted.calls,
                    time_share: Some(one.counted.time_ms),
                    values: Values::Drawn(drawing.sources),
                    think_ms: None,
                });
            }
            Err(why) => leave_out(made, why, &one.counted),
        }
    }
    if constants > 0 {
        made.notes.push(format!(
            "{constants} parameters are compared with no column: each has one plausible value. Look for them in the file."
        ));
    }
    drafts
}

fn leave_out(made: &mut Made, why: String, one: &Counted) {
    made.leave_out(why.clone(), one.calls, None);
    if let Some(there) = made.left_out.iter_mut().find(|there| there.why == why) {
        let words: Vec<&str> = one.query.split_whitespace().collect();
        there.example.get_or_insert_with(|| words.join(" "));
    }
}
