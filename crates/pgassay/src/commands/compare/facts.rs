//! What must not differ between the servers of a comparison beyond the plan, as one of them has it: how it
//! would run the workload's statements, and its tables.

use std::collections::HashMap;

use pgassay_engine::workload::{self, setup};
use pgassay_load::script::{Command, Part, Slot, Sql};
use pgassay_model::comparison::ArmFacts;
use pgassay_model::reading::Reading;
use pgassay_model::workload::WorkloadPlan;
use pgassay_pgwire::Session;
use serde_json::{Value, json};

use crate::commands::subject::Subject;

/// Rows of drawn values with which a script's statements are planned: what is common and what is rare may
/// be read in different ways.
const ROWS: usize = 3;

/// Statements with a plan.
const PLANNED: [&str; 6] = ["select", "insert", "update", "delete", "with", "merge"];

/// The tables that we made.
const OURS: &str = "SELECT pg_catalog.json_agg(pg_catalog.json_build_object( \
       'table', c.relname, 'bytes', pg_catalog.pg_total_relation_size(c.oid), \
       'rows', GREATEST(c.reltuples, 0)) ORDER BY c.relname) \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'pgassay' AND c.relkind IN ('r', 'p')";

/// The largest tables of somebody's own database.
const THEIRS: &str = "SELECT COALESCE(pg_catalog.json_agg(pg_catalog.json_build_object( \
       'table', t.name, 'bytes', pg_catalog.pg_total_relation_size(t.oid), \
       'rows', GREATEST(t.reltuples, 0)) ORDER BY t.name), '[]') \
     FROM (SELECT c.oid, c.reltuples, CASE n.nspname WHEN 'public' THEN c.relname \
         ELSE pg_catalog.concat(n.nspname, '.', c.relname) END AS name \
       FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
       WHERE c.relkind = 'r' AND c.relpersistence <> 't' \
         AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pgassay') \
       ORDER BY c.relpages DESC LIMIT 200) t";

/// The facts of one arm.
///
/// # Errors
/// Where the session broke.
pub fn of_arm(subject: &mut Subject, workload: &WorkloadPlan) -> anyhow::Result<ArmFacts> {
    let (plans, data) = if workload.is_on_own_tables() {
        let finds = setup::find_tables(workload, &subject.conninfo)?;
        let session = &mut pgassay_pgwire::connect(&subject.conninfo.with_options(&finds))?;
        (plans(session, workload)?, session.catalog_value(THEIRS)?)
    } else {
        let session = subject.session()?;
        (plans(session, workload)?, session.catalog_value(OURS)?)
    };
    Ok(ArmFacts {
        plans,
        data: data.map_or_else(
            || Reading::Unavailable("the server named no tables".to_owned()),
            Reading::Text,
        ),
    })
}

/// How the server would run each of the workload's statements; nothing is executed.
fn plans(session: &mut Session, workload: &WorkloadPlan) -> anyhow::Result<Reading> {
    let program = workload::program(workload)?;
    let mut plans: Vec<Value> = Vec::new();
    for (script, program) in program.scripts().iter().enumerate() {
        let rows = rows(&program.commands);
        for row in 0..rows {
            let mut values = HashMap::new();
            for (place, command) in program.commands.iter().enumerate() {
                match command {
                    Command::Draw(draw) => {
                        // The first, the middle and the last.
                        let drawn = draw.row(row * (draw.rows() - 1) / (rows - 1).max(1));
                        let literals = drawn.iter().map(|value| value.literal.as_ref());
                        values.extend(draw.slots.iter().copied().zip(literals));
                    }
                    Command::Sql(sql) if has_plan(sql) => {
                        let text = filled(sql, &values);
                        let mut entry = json!({
                            "statement": sql.text.trim().trim_end_matches(';'),
                            "script": script,
                            "command": place,
                        });
                        match session.value(&format!("EXPLAIN (FORMAT JSON) {text}")) {
                            Ok(Some(plan)) => entry["plan"] = serde_json::from_str(&plan)?,
                            Ok(None) => entry["why"] = "EXPLAIN said nothing".into(),
                            Err(error) if error.is_fatal() => return Err(error.into()),
                            Err(error) => entry["why"] = error.to_string().into(),
                        }
                        plans.push(entry);
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(Reading::Text(serde_json::to_string(&plans)?))
}

/// How many rows of values a script's statements are planned with.
fn rows(commands: &[Command]) -> usize {
    let drawn = commands.iter().filter_map(|command| match command {
        Command::Draw(draw) => Some(draw.rows()),
        _ => None,
    });
    drawn.max().unwrap_or(1).clamp(1, ROWS)
}

/// Whether the server can be asked for its plan: the second of several statements would be executed.
fn has_plan(sql: &Sql) -> bool {
    let verb = sql.text.split_whitespace().next().unwrap_or_default();
    !sql.is_several && PLANNED.iter().any(|known| verb.eq_ignore_ascii_case(known))
}

/// A statement with values in its variables' places. For those that no `\draw` gives any key does: the
/// shape is what is asked for.
fn filled(sql: &Sql, values: &HashMap<Slot, &str>) -> String {
    let parts = sql.parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Var(slot, _) => values.get(slot).copied().unwrap_or("1"),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_load::script::Program;

    #[test]
    fn statements_are_planned_with_the_values_that_they_have() {
        let mut program = Program::new();
        let text = "\\draw a b from 1 'x' 2 'it''s' 3 NULL 4 'y'\n\\set c random(1, 9)\n\
                    SELECT 1 FROM t WHERE a = :a AND b = :b AND c = :c;\n\
                    SELECT 1 \\; DELETE FROM t;\nCOMMIT;";
        program.add("s", text, 1).unwrap();
        let commands = &program.scripts()[0].commands;
        assert_eq!(rows(commands), 3);
        let Command::Draw(draw) = &commands[0] else {
            panic!("{commands:?}");
        };
        let literals = draw.row(1).iter().map(|value| value.literal.as_ref());
        let values: HashMap<Slot, &str> = draw.slots.iter().copied().zip(literals).collect();
        let sql: Vec<&Sql> = commands
            .iter()
            .filter_map(|command| match command {
                Command::Sql(sql) => Some(&**sql),
                _ => None,
            })
            .collect();
        assert!(filled(sql[0], &values).contains("a = 2 AND b = 'it''s' AND c = 1"));
        let planned: Vec<bool> = sql.iter().map(|sql| has_plan(sql)).collect();
        assert_eq!(planned, [true, false, false]);
    }
}
