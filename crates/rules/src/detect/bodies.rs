//! What functions are, beyond being called: what their source does in loops, and what they say of their rows.

use pgassay_model::observed::plans::{DEFAULT_ROWS, LoopFacts, Node, Plan};

use super::conditions::words;
use super::hits::{Hit, Part, joined, with_plans};
use super::late::source;
use super::plans::{FEW_ROWS, read_by_scans};
use super::shapes::{At, Shown};
use super::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Work;

pub(super) const DETECTORS: &[Detector] = &[
    run("loop-concatenates", |e| looping(e, concatenates)),
    run("loop-catches-errors", |e| looping(e, catches)),
    run("loop-takes-by-number", |e| looping(e, takes)),
];

/// What the loops of a function do too often.
struct Told {
    saw: String,
    seen: Vec<String>,
    sure: bool,
    step: String,
}

/// What a loop of this function means.
type Look = fn(&Evidence, &str, &LoopFacts) -> Option<Told>;

/// Statements that call functions whose loops show something.
fn looping(evidence: &Evidence, look: Look) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan: &Plan| {
        let mut loops = plan.loops.iter();
        let told = loops.find_map(|(function, facts)| look(evidence, function, facts))?;
        let within = evidence.profile.and_then(|p| p.within(Work::Procedural));
        let part = within.map_or(Part::of_all(1.0), |share| {
            Part::of_samples(statement, share)
        });
        let mut seen = told.seen;
        seen.extend(within.map(|share| {
            format!(
                "{} of the CPU samples in such functions and in what they execute",
                tenths(share)
            )
        }));
        Some(Hit {
            statement,
            part,
            left: None,
            saw: told.saw,
            confidence: match told.sure {
                true => Confidence::High,
                false => Confidence::Medium,
            },
            evidence: seen,
            steps: vec![(StepKind::Advice, told.step)],
        })
    });
    joined(&run, hits)
}

/// The share of the CPU samples in copying memory from which on it is what a loop does.
const COPYING: f64 = 0.15;

fn concatenates(evidence: &Evidence, function: &str, facts: &LoopFacts) -> Option<Told> {
    let variable = facts.concatenated.first()?;
    let copying: Option<f64> = evidence.profile.map(|profile| {
        let copies = profile
            .functions
            .iter()
            .filter(|f| f.symbol.contains("memcpy") || f.symbol.contains("memmove"));
        copies.map(|f| f.own_share).sum()
    });
    // Short texts are copied in no time.
    if copying.is_some_and(|share| share < 0.2 * COPYING) {
        return None;
    }
    Some(Told {
        saw: format!(
            "{function} puts {variable} together in a loop ({variable} := {variable} || …): each round copies all of it so far, so the \
             work grows with the square of the rounds."
        ),
        seen: copying
            .map(|share| format!("{} of the CPU samples in copying memory", tenths(share)))
            .into_iter()
            .collect(),
        sure: copying.is_some_and(|share| share >= COPYING),
        step: match facts.documents.first() {
            Some(kind) => format!(
                "build {variable} by one {kind}_agg({kind}_build_object(…) ORDER BY …) over the query that the loop goes through: it writes each element once; \
                 {variable} := {variable} || … copies the whole document in each round"
            ),
            None => format!(
                "build {variable} by one string_agg(… ORDER BY …) over the query that the loop goes through; where a loop must stay, append to \
             an array and join it at the end (array_to_string)"
            ),
        },
    })
}

/// The share of the CPU samples that a function must have for what it takes by number to matter.
const TAKING: f64 = 0.3;

fn takes(evidence: &Evidence, function: &str, facts: &LoopFacts) -> Option<Told> {
    let within = evidence.profile.and_then(|p| p.within(Work::Procedural));
    if within.is_some_and(|share| share < TAKING) {
        return None;
    }
    let (saw, step) = match (facts.elements.first(), facts.characters.first()) {
        (Some(document), _) => (
            format!(
                "{function} goes through {document} by number in a loop ({document} -> i): each round begins with the whole value, which, kept compressed or apart from its row, is \
                 unpacked anew each time."
            ),
            format!(
                "take all elements at once in {function}: FOR e IN SELECT value FROM jsonb_array_elements({document}) LOOP …, which unpacks {document} once; best one statement without a loop: \
                 SELECT sum((e ->> 'key')::int) FROM table, jsonb_array_elements(column) e, in a function of LANGUAGE sql"
            ),
        ),
        (None, Some(text)) => (
            format!(
                "{function} goes through {text} by the number of the character in a loop (substr({text}, i, 1)): in an encoding of several bytes a character is found by counting from the \
                 beginning, so the work grows with the square of the length; and each round is executed by PL/pgSQL."
            ),
            format!(
                "treat {text} as a whole in {function}: regexp_replace({text}, '[^a-z]', '', 'g'), translate(), regexp_count(); where each character must be seen, FOREACH c IN ARRAY \
                 string_to_array({text}, NULL) LOOP …, which takes it apart once"
            ),
        ),
        (None, None) => return None,
    };
    Some(Told {
        saw,
        seen: Vec::new(),
        sure: within.is_some(),
        step,
    })
}

/// Subtransactions a call from which on they are what a function does.
const SUBTRANSACTIONS: f64 = 10.0;

fn catches(evidence: &Evidence, function: &str, facts: &LoopFacts) -> Option<Told> {
    let error = facts.caught.first()?;
    let growth = evidence.run?.observed?.growth.as_ref();
    // From 13 on, under a name of its version.
    let caches = growth
        .map(|growth| growth.slru.as_slice())
        .unwrap_or_default();
    let of = caches
        .iter()
        .filter(|row| row.name.to_ascii_lowercase().starts_with("subtrans"));
    let looked: f64 = of
        .map(|row| row.by("blks_hit") + row.by("blks_zeroed"))
        .sum();
    let failed = growth.and_then(|growth| {
        let mut tables = growth.tables.iter();
        tables.find(|t| {
            let (inserted, updated) = (t.by("n_tup_ins"), t.by("n_tup_upd"));
            inserted >= 100.0 && updated >= 0.5 * inserted && updated <= 1.1 * inserted
        })
    });
    let mut seen = Vec::new();
    if looked > 0.0 {
        seen.push(format!(
            "{looked:.0} look-ups of subtransactions in the measured time"
        ));
    }
    seen.extend(failed.filter(|_| error == "unique_violation").map(|table| {
        format!(
            "{}: {:.0} rows inserted and {:.0} updated: of each insert that fails a dead row is left",
            table.name,
            table.by("n_tup_ins"),
            table.by("n_tup_upd")
        )
    }));
    Some(Told {
        saw: format!(
            "{function} catches {error} within a loop: each round begins a subtransaction, and rolls it back where the error comes."
        ),
        sure: looked >= SUBTRANSACTIONS * 10.0,
        seen,
        step: match error.as_str() {
            "unique_violation" if facts.aggregates.iter().any(|name| name == "max") => {
                "take the number from a sequence or an identity column, which gives each session its own, in the place of max(…) + 1, which is the same for all who look at the same time: each then \
                 waits for the one before, fails, and tries again"
            }
            "unique_violation" => {
                "where rows with the same key mean the same thing, INSERT … ON CONFLICT (key) DO UPDATE (or DO NOTHING) in the place of INSERT and the handler, best for all rows in one \
                 statement without a loop; where the key is a number to be found, a sequence"
            }
            _ => {
                "ask beforehand what would raise the error, or put the handler around the loop and not into it; best one statement for all \
                 rows without a loop"
            }
        }
        .to_owned(),
    })
}

/// A function in FROM that says nothing of its rows, joined with a table that is read whole for as many as
/// are taken by default.
pub(super) fn unsaid(at: &At) -> Option<Shown> {
    let node = at.node;
    if !matches!(node.kind.as_str(), "Hash Join" | "Merge Join") {
        return None;
    }
    let [one, other] = node.nodes.get(..2)? else {
        return None;
    };
    let (one, other) = (source(one), source(other));
    let of = |side: &Node| side.kind == "Function Scan" && side.rows == DEFAULT_ROWS;
    let (function, scan) = match (of(one), of(other)) {
        (true, false) => (one, other),
        (false, true) => (other, one),
        _ => return None,
    };
    let name = function.function.as_deref()?;
    let signature = at.plan.unsaid_rows.get(name)?;
    let (table, facts) = (scan.relation.as_ref()?, at.facts(scan)?);
    let rows = facts.rows.filter(|rows| *rows >= FEW_ROWS)?;
    let joined = node
        .conditions
        .get("Hash Cond")
        .or_else(|| node.conditions.get("Merge Cond"))?;
    let mut indexes = facts.indexes.iter().filter(|i| i.valid && !i.partial);
    let index = indexes.find(|i| {
        i.first
            .as_deref()
            .is_some_and(|first| words(joined).any(|w| w == first))
    })?;
    let (scans, each) = read_by_scans(at.run, table)?;
    if scan.kind != "Seq Scan" || each < 0.3 * rows {
        return None;
    }
    let given = at.statement.counters.as_ref().and_then(|c| c.rows);
    Some(Shown {
        // What stands above the join is made for as many rows, too.
        cost: at.plan.root.cost,
        left: None,
        saw: format!(
            "The planner takes {name} to give {DEFAULT_ROWS:.0} rows, as any function that says nothing of them, and reads {table} whole, \
             {rows:.0} rows, to join them, though {} leads to those of one.",
            index.name
        ),
        steps: vec![(
            StepKind::Sql,
            format!("ALTER FUNCTION {signature} ROWS 10;   -- as many as it gives on average"),
        )],
        seen: [
            Some(format!(
                "{scans:.0} sequential scans of {table} in the measured time, {each:.0} rows each"
            )),
            given.map(|rows| format!("a call of the statement gives {rows:.1} rows")),
        ]
        .into_iter()
        .flatten()
        .collect(),
        confidence: match given {
            Some(rows) if rows <= 0.1 * DEFAULT_ROWS => Confidence::Medium,
            _ => Confidence::Low,
        },
    })
}
/// Rows that a function's scan throws away from which on it matters.
const THROWN_AWAY: f64 = 100.0;

/// A function that is scanned and not inlined, with rows that the statement throws away: by a condition, or by a LIMIT.
pub(super) fn not_inlined(at: &At) -> Option<Shown> {
    let node = at.node;
    let name = node
        .function
        .as_deref()
        .filter(|_| node.kind == "Function Scan")?;
    let (keeps, steps) = barred(at, name)?;
    let made = made(at, name);
    let (what, thrown) = match node.conditions.get("Filter") {
        Some(filter) => (
            format!("{filter} is looked at when all its rows are there"),
            node.work.map(|work| work.removed),
        ),
        None => {
            let given = node.actual_rows?;
            let limit = at.parent.filter(|parent| parent.kind == "Limit")?;
            let made = made.filter(|made| *made > given)?;
            let wanted = limit.actual_rows.unwrap_or(limit.rows);
            (
                format!("all its rows are made, {made:.0}, before LIMIT takes {wanted:.0} of them"),
                Some(made - given),
            )
        }
    };
    if thrown.is_some_and(|thrown| thrown < THROWN_AWAY) {
        return None;
    }
    Some(Shown {
        cost: at.cost(node),
        left: None,
        saw: format!("{name} {keeps}: {what}."),
        steps,
        seen: thrown
            .map(|thrown| format!("{thrown:.0} rows are thrown away each time"))
            .into_iter()
            .collect(),
        confidence: match thrown {
            Some(_) => Confidence::High,
            None => Confidence::Medium,
        },
    })
}

/// Rows that the longest statement within a function made.
fn made(at: &At, name: &str) -> Option<f64> {
    let is_only = at.plan.functions.len() == 1 && at.plan.functions.contains_key(name);
    let executed = at.plan.executed.as_ref().filter(|_| is_only)?;
    executed.inner.first()?.root.as_ref()?.actual_rows
}

/// What keeps a function from becoming a part of the statement, and what is done about it.
fn barred(at: &At, name: &str) -> Option<(String, Vec<(StepKind, String)>)> {
    if let Some(clause) = at.plan.set_clauses.get(name) {
        let resets = clause.settings.iter();
        let resets: Vec<String> = resets
            .map(|name| format!("ALTER FUNCTION {} RESET {name};", clause.signature))
            .collect();
        let step = format!(
            "{}   -- with the names within qualified by their schemas; then it is inlined, and an index serves the condition",
            resets.join(" ")
        );
        let keeps = format!(
            "is a function in SQL with a SET clause ({}), and is not inlined for that",
            clause.settings.join(", ")
        );
        return Some((keeps, vec![(StepKind::Sql, step)]));
    }
    let definition = at
        .plan
        .definitions
        .get(name)
        .filter(|definition| definition.set)?;
    let parameter = (
        StepKind::Advice,
        format!(
            "or give {name} what the statement asks for as parameters, the compared value and the limit, and have it compare and stop within"
        ),
    );
    match at.plan.functions.get(name)?.as_str() {
        "sql" if !definition.bars.is_empty() => {
            let changes = definition.bars.iter().map(|bar| match bar.as_str() {
                "VOLATILE" => "STABLE",
                "STRICT" => "CALLED ON NULL INPUT",
                _ => "SECURITY INVOKER",
            });
            let changes: Vec<&str> = changes.collect();
            let step = format!(
                "ALTER FUNCTION {} {};   -- if it changes nothing and needs no rights of its owner: then it is inlined, and conditions and limits reach its tables",
                definition.signature,
                changes.join(" ")
            );
            Some((
                format!(
                    "is a function in SQL that is {}, and is not inlined for that",
                    definition.bars.join(" and ")
                ),
                vec![(StepKind::Sql, step), parameter],
            ))
        }
        "plpgsql" => {
            let step = format!(
                "write {name} as a function in SQL, a single SELECT, STABLE (CREATE OR REPLACE FUNCTION … LANGUAGE sql STABLE AS $$ SELECT … $$), or as a view: it becomes a \
                 part of the statement then, and the condition and the limit reach the tables and their indexes"
            );
            Some((
                "is a function in PL/pgSQL, of which a statement gets the whole result".to_owned(),
                vec![(StepKind::Advice, step), parameter],
            ))
        }
        _ => None,
    }
}
