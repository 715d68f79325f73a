//! Plans of statements that somebody else sent, as a guest may ask for them: EXPLAIN without
//! ANALYZE, in a read-only transaction with a time limit, so that nothing is executed or written. Only those of a
//! load of ours are executed, too ([`super::executed`]).
//!
//! A statement is prepared in a form in which the server takes one statement only, and explained
//! with a generic plan (`plan_cache_mode`, from 12 on), which parameters don't change.
//!
//! A statement of another program is only explained where its role is the session's own ([`super::own_role`]).

use pgassay_model::observed::plans::{Execution, Expr, InnerStatement, Node, Plan, TriggerRun};
use pgassay_pgwire::{QueryError, Session};
use pgassay_plan::explain::{is_generic, node};
use serde_json::Value;

use super::catalogues::Catalogues;
use super::executed::{Executed, Inner, PLANNED, begins_with, inner};
use super::logged::Longest;
use super::own_role::may_plan;
use super::relations::{TABLES, relations};
use super::statements::Example;
use super::what_if;
use pgassay_text::normalise::normalise;
use pgassay_text::quote::quote_literal;

/// What is asked about.
const FUNCTIONS: &str = "functions of its plan";
/// The plan of a statement, or why there is none. `executed` is what came of executing it, where a load of ours sends
/// it. What could not be observed is added to `not_observed`, with the reason.
pub fn ask(
    session: &mut Session,
    example: &Example,
    executed: Option<Result<Executed, String>>,
    not_observed: &mut Vec<String>,
) -> Result<Plan, String> {
    let version: u32 = session
        .value("SHOW server_version_num")
        .map_err(|e| e.to_string())?
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let of = &example.normalised;
    if !begins_with(&of.text, PLANNED) {
        return Err("it is no statement that has a plan".to_owned());
    }
    if of.cut && !executed.as_ref().is_some_and(Result::is_ok) {
        return Err(
            "the server keeps only the beginning of its text (track_activity_query_size)"
                .to_owned(),
        );
    }
    if of.several {
        return Err("it was sent together with others in one text".to_owned());
    }
    let is_executed = executed.as_ref().is_some_and(Result::is_ok);
    if of.parameters > 0 && version < 120_000 && !is_executed {
        return Err("it has parameters, and generic plans came with PostgreSQL 12".to_owned());
    }
    let (mut executed, not_executed) = match executed {
        Some(Ok(executed)) => (Some(executed), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    let asked = Asked {
        example,
        version,
        executed: executed.as_ref(),
    };
    let mut prepared = false;
    let plan = asked.explain(session, &mut prepared, not_observed);
    let mut plan = plan.map(|plan| Plan {
        not_executed,
        ..plan
    });
    // Prepared statements are no part of the transaction; in one message, after which a pooler may turn to another backend.
    let _ = session.execute(match prepared {
        true => "ROLLBACK; DEALLOCATE pgassay_plan",
        false => "ROLLBACK",
    });
    if let (Ok(plan), Some(executed)) = (&mut plan, &mut executed) {
        add_inner(plan, executed, not_observed);
        what_if::time(executed, &mut plan.alternatives);
        let others = what_if::at_other_costs(executed, not_observed);
        plan.alternatives.extend(others);
        add_inner_relations(&mut Catalogues::new(session, not_observed), plan);
    }
    plan
}

/// Adds what the catalogues say of the tables that only statements within functions and triggers scan.
fn add_inner_relations(catalogues: &mut Catalogues<'_>, plan: &mut Plan) {
    let inner = plan.executed.iter().flat_map(|executed| &executed.inner);
    let roots: Vec<Node> = inner.filter_map(|inner| inner.root.clone()).collect();
    if roots.is_empty() {
        return;
    }
    let begun = begin(catalogues.session, "");
    let of_inner = Plan {
        root: Node {
            nodes: roots,
            ..Node::default()
        },
        ..Plan::default()
    };
    let begun = begun.and_then(|()| as_it_was_sent(catalogues.session));
    if catalogues.noted(TABLES, begun).is_some() {
        for (name, facts) in relations(catalogues, &of_inner) {
            plan.relations.entry(name).or_insert(facts);
        }
    }
    // Whatever came of it.
    let _ = catalogues.session.execute("ROLLBACK");
}

/// Begins a transaction in which nothing is written and nothing takes long.
fn begin(session: &mut Session, further: &str) -> Result<(), QueryError> {
    session.execute(&format!(
        "BEGIN READ ONLY; SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = 2000; \
         SET LOCAL lock_timeout = 200{further}"
    ))
}

/// Adds what ran within the functions and triggers of a statement.
fn add_inner(plan: &mut Plan, executed: &mut Executed, not_observed: &mut Vec<String>) {
    let Some(execution) = &mut plan.executed else {
        return;
    };
    if plan.functions.is_empty() && execution.triggers.is_empty() {
        return;
    }
    let of = |inner: Inner| InnerStatement {
        text: normalise(&inner.text).text,
        calls: inner.calls,
        ms: inner.ms,
        root: inner.root.as_ref().map(node),
    };
    let all = inner(executed, not_observed).into_iter();
    execution.inner = all.map(of).collect();
}

/// What is asked for.
struct Asked<'a> {
    example: &'a Example,
    version: u32,
    /// What came of executing it, where that was done.
    executed: Option<&'a Executed>,
}

impl Asked<'_> {
    fn explain(
        &self,
        session: &mut Session,
        prepared: &mut bool,
        not_observed: &mut Vec<String>,
    ) -> Result<Plan, String> {
        let said = |error: QueryError| error.to_string();
        let mode = match (self.version, self.values()) {
            (120_000.., None) => "; SET LOCAL plan_cache_mode = force_generic_plan",
            (120_000.., Some(_)) => "; SET LOCAL plan_cache_mode = force_custom_plan",
            _ => "",
        };
        let mode = format!("; SET LOCAL standard_conforming_strings = on{mode}");
        begin(session, &mode).map_err(said)?;
        as_it_was_sent(session).map_err(said)?;
        // What a load of ours sends is ours.
        if self.executed.is_none() {
            may_plan(session, self.example.role).map_err(|why| {
                let why = format!("{why}, or load auto_explain, which logs the plans of all roles");
                not_observed.push(why.clone());
                why
            })?;
            is_of_this_database(session, self.example)?;
        }
        let settings = what_if::settings(&mut Catalogues::new(session, not_observed));
        as_it_was_sent(session).map_err(said)?;
        // A statement that its load sends as another role is not planned as this one.
        let replans = self
            .executed
            .is_none_or(|executed| !executed.sent.may_change_role());
        let mut plan = Plan::default();
        if replans {
            if let Some(executed) = self.executed {
                executed.sent.prelude(session).map_err(said)?;
            }
            self.prepare(session)?;
            *prepared = true;
            let top = self.explained(session)?;
            plan.root = node(&top["Plan"]);
            plan.planning_ms = top["Planning Time"].as_f64();
        }
        if let Some(executed) = self.executed {
            plan.root = node(&executed.said["Plan"]);
            plan.executed = Some(ran(executed));
        }
        let catalogues = &mut Catalogues::new(session, not_observed);
        if replans {
            plan.alternatives =
                what_if::alternatives(catalogues, &settings, &plan.root, |session| {
                    // The server keeps a generic plan, whatever settings become.
                    session.execute("DEALLOCATE pgassay_plan").map_err(said)?;
                    self.prepare(session)?;
                    Ok(node(&self.explained(session)?["Plan"]))
                });
        }
        add_catalogues(catalogues, &mut plan);
        Ok(plan)
    }

    fn prepare(&self, session: &mut Session) -> Result<(), String> {
        let sql = self.executed.map_or(&self.example.sql, |e| &e.sent.sql);
        session
            .execute_single(&format!("PREPARE pgassay_plan AS {sql}"))
            .map_err(|error| error.to_string())
    }

    /// The values with which the plan that was executed was made; none where it is a generic one.
    fn values(&self) -> Option<&Executed> {
        self.executed
            .filter(|executed| !is_generic(&executed.said["Plan"]))
    }

    /// What EXPLAIN says of the prepared statement.
    fn explained(&self, session: &mut Session) -> Result<Value, String> {
        let nulls = |n: u32| format!("({})", vec!["NULL"; n as usize].join(", "));
        let values = match (self.executed, self.example.normalised.parameters) {
            (Some(executed), _) => executed.sent.arguments(),
            (None, 0) => String::new(),
            (None, n) => nulls(n),
        };
        let summary = if self.version >= 100_000 {
            ", SUMMARY"
        } else {
            ""
        };
        let text = session
            .value(&format!(
                "EXPLAIN (FORMAT JSON, VERBOSE{summary}) EXECUTE pgassay_plan{values}"
            ))
            .map_err(|error| error.to_string())?
            .ok_or("EXPLAIN gave nothing")?;
        let mut explained: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let top = explained.get_mut(0).ok_or("EXPLAIN gave nothing")?;
        Ok(top.take())
    }
}

/// What an execution tells beside its nodes.
fn ran(executed: &Executed) -> Execution {
    let triggers = executed.said["Triggers"].as_array().into_iter().flatten();
    let trigger = |of: &Value| {
        let text = |key: &str| of[key].as_str().map(str::to_owned);
        Some(TriggerRun {
            trigger: text("Trigger Name"),
            constraint: text("Constraint Name"),
            relation: text("Relation")?,
            ms: of["Time"].as_f64()?,
            calls: of["Calls"].as_f64()?,
        })
    };
    Execution {
        ms: executed.ms(),
        triggers: triggers.filter_map(trigger).collect(),
        inner: Vec::new(),
    }
}

/// A plan that the server logged, with what the catalogues say of it. What could not be observed is added to
/// `not_observed`.
pub fn logged(session: &mut Session, of: &Longest, not_observed: &mut Vec<String>) -> Plan {
    let database = of.database.as_str();
    let mut plan = Plan {
        root: node(&of.plan.root),
        logged: true,
        ..Plan::default()
    };
    let here = Catalogues::new(session, not_observed)
        .value("the database", "SELECT pg_catalog.current_database()");
    let elsewhere = !database.is_empty() && here.as_deref() != Some(database);
    if !elsewhere {
        let catalogues = &mut Catalogues::new(session, not_observed);
        let begun = begin(catalogues.session, "");
        let begun = begun.and_then(|()| as_it_was_sent(catalogues.session));
        if catalogues.noted(TABLES, begun).is_some() {
            add_catalogues(catalogues, &mut plan);
        }
        // Whatever came of it.
        let _ = catalogues.session.execute("ROLLBACK");
    }
    plan
}

/// Names are read as a statement's session reads them; the tables of a load of ours are found first.
fn as_it_was_sent(session: &mut Session) -> Result<(), QueryError> {
    let ours = session.catalog_value(
        "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = 'pgassay' AND nspowner = \
         (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user)",
    )?;
    session.execute("SET LOCAL search_path TO DEFAULT")?;
    if ours.is_some() {
        let path = session.search_path_behind("pgassay")?;
        session.execute(&format!("SET LOCAL search_path = {path}"))?;
    }
    Ok(())
}

/// What the catalogues say is beside the plan: it stands without.
fn add_catalogues(catalogues: &mut Catalogues<'_>, plan: &mut Plan) {
    let work_mem = catalogues.value(
        "work_mem",
        "SELECT 1024 * setting::float8 FROM pg_catalog.pg_settings WHERE name = 'work_mem'",
    );
    plan.work_mem_bytes = work_mem.and_then(|bytes| bytes.parse().ok());
    plan.relations = relations(catalogues, plan);
    functions(catalogues, plan);
}

/// Checks that a statement ran in the session's database.
fn is_of_this_database(session: &mut Session, example: &Example) -> Result<(), String> {
    let database = example.database.unwrap_or(0);
    let here = session.catalog_value(&format!(
        "SELECT oid = {database} FROM pg_database WHERE datname = current_database()"
    ));
    match here.map_err(|error| error.to_string())?.as_deref() {
        Some("t") => Ok(()),
        _ => Err("it ran in another database".to_owned()),
    }
}

/// Adds what the catalogues say of functions that interpret: their language, and how ALTER FUNCTION names those that
/// are VOLATILE. Functions in SQL that still stand in a plan were not inlined.
fn functions(catalogues: &mut Catalogues<'_>, plan: &mut Plan) {
    let all = plan.root.all();
    let conditions = all.iter().flat_map(|(_, node)| node.conditions.values());
    let mut names: Vec<String> = conditions.flat_map(Expr::calls).collect();
    names.extend(all.iter().filter_map(|(_, node)| node.function.clone()));
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return;
    }
    let names: Vec<String> = names.iter().map(|name| quote_literal(name)).collect();
    // With no schema in the search path, oid::regprocedure names its own.
    let sql = format!(
        "SELECT DISTINCT ON (p.proname) p.proname, l.lanname, \
         CASE WHEN p.provolatile = 'v' THEN p.oid::pg_catalog.regprocedure::text END \
         FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
         JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE p.proname IN ({}) AND l.lanname NOT IN ('internal', 'c') \
         AND n.nspname NOT IN ('pg_catalog', 'information_schema') \
         ORDER BY p.proname, l.lanname = 'sql'",
        names.join(", ")
    );
    for row in catalogues.rows::<3>(FUNCTIONS, &sql) {
        let [Some(name), Some(language), volatile] = row else {
            continue;
        };
        if let Some(signature) = volatile {
            plan.volatile.insert(name.clone(), signature);
        }
        plan.functions.insert(name, language);
    }
}
