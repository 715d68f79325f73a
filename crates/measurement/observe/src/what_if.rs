//! Plans that a statement would have under other settings: the planner is asked again, in the same
//! read-only transaction, with one setting changed for that question alone. Who asks so executes nothing.
//!
//! Where the statement is one of our load that is quick and only reads, it is executed under both plans, and times are
//! compared ([`time`]). Settings of what an operation costs change the unit in which plans are compared: for these that is
//! the only way ([`at_other_costs`]).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pgassay_model::observed::plans::{Alternative, DISABLE_COST, Node, NodeType};
use pgassay_pgwire::Session;
use pgassay_plan::explain::node;
use pgassay_text::quote::quote_literal;
use serde_json::Value;

use super::catalogues::Catalogues;
use super::executed::Executed;

/// Settings of the planner, beside those that begin with `enable_`, of which a value that is not the server's
/// own may spoil plans.
const PLANNER: &[&str] = &[
    "constraint_exclusion",
    "debug_parallel_query",
    "force_parallel_mode",
    "from_collapse_limit",
    "geqo",
    "geqo_effort",
    "geqo_generations",
    "geqo_pool_size",
    "geqo_threshold",
    "join_collapse_limit",
];
/// Settings of what the planner takes operations to cost. Those that are meant to be set to the machine are tried only
/// where they go the other way ([`AWAY`]).
const COSTS: &[&str] = &[
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "effective_cache_size",
    "min_parallel_index_scan_size",
    "min_parallel_table_scan_size",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "random_page_cost",
    "seq_page_cost",
];
/// Whether a value goes that way from what the server comes with.
type Away = fn(f64, f64) -> bool;

/// Of effective_cache_size, which others have reason to set, values that tell the planner of a smaller cache than it takes
/// any machine to have.
const AWAY: &[(&str, Away)] = &[("effective_cache_size", |own, default| own < default)];
/// What the server comes with is meant for disks that turn, and what was just executed lies in memory. From that value on
/// another is tried, so many times what a page in sequence costs.
const RANDOM: &str = "random_page_cost";
const OF_DISKS: f64 = 2.0;
/// Whether expressions are compiled: that makes no other plan, and takes its time before the first row.
const COMPILES: &str = "jit";
const OF_MEMORY: f64 = 1.1;
/// Milliseconds of an execution below which no other plan is tried.
const LEAST_MS: f64 = 0.2;
/// Milliseconds that a plan which costs less is given at least.
const LEAST_LIMIT_MS: f64 = 100.0;
/// Executions of each plan, of which the shortest counts.
const TIMES: usize = 4;

/// Questions for a statement at most, and after how long no more is asked.
const MOST: usize = 16;
const LONGEST: Duration = Duration::from_secs(2);
/// Relations up to which all orders of joins are tried: planning takes exponentially longer with each.
const MOST_JOINED: u64 = 13;
/// A plan is kept from this part of the cost on.
const KEPT: f64 = 0.9;

/// A setting of the session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    name: String,
    /// In its own unit.
    own: String,
    /// What the server comes with.
    default: String,
    /// As `SHOW` has it.
    shown: String,
}

/// The planner's settings as the session has them; afterwards the search path is the catalogues'.
pub(super) fn settings(catalogues: &mut Catalogues<'_>) -> Vec<Setting> {
    asked(catalogues, "enable_", PLANNER)
}

/// The settings whose names begin so, and those of these names.
fn asked(catalogues: &mut Catalogues<'_>, begin: &str, names: &[&str]) -> Vec<Setting> {
    let names: Vec<String> = names.iter().map(|name| quote_literal(name)).collect();
    let begins = match begin {
        "" => String::new(),
        begin => format!("name LIKE {} OR ", quote_literal(&format!("{begin}%"))),
    };
    let sql = format!(
        "SELECT name, setting, boot_val, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings \
         WHERE {begins}name IN ({})",
        names.join(", ")
    );
    let rows = catalogues.rows::<4>("settings of the planner", &sql);
    rows.into_iter()
        .filter_map(|row| {
            let [Some(name), Some(own), Some(default), Some(shown)] = row else {
                return None;
            };
            Some(Setting {
                name,
                own,
                default,
                shown,
            })
        })
        .collect()
}

/// A value to try for a setting.
#[derive(Debug, PartialEq)]
struct Trial<'s> {
    setting: &'s Setting,
    value: String,
}

/// What is worth a question about a plan over so many relations.
fn trials(settings: &[Setting], relations: u64) -> Vec<Trial<'_>> {
    let mut trials = Vec::new();
    let number = |text: &str| text.parse::<u64>().ok();
    let geqo = settings.iter().any(|s| s.name == "geqo" && s.own == "on");
    for setting in settings {
        let trial = |value: String| Trial { setting, value };
        let raised = match setting.name.as_str() {
            "join_collapse_limit" | "from_collapse_limit" => number(&setting.own)
                .filter(|limit| *limit < relations)
                .filter(|_| relations <= MOST_JOINED)
                .map(|limit| {
                    // The value that the server comes with does, where it is enough.
                    let default = number(&setting.default).unwrap_or(0);
                    match limit < default {
                        true => default.max(relations).to_string(),
                        false => relations.to_string(),
                    }
                }),
            "geqo_threshold" => number(&setting.own)
                .filter(|limit| geqo && *limit <= relations && relations <= MOST_JOINED)
                .map(|_| (relations + 1).to_string()),
            _ if setting.own != setting.default => Some(setting.default.clone()),
            _ => None,
        };
        trials.extend(raised.map(trial));
    }
    trials.truncate(MOST);
    trials
}

/// The plans under other settings that cost less than this one. `plan` asks for the statement's plan anew.
pub(super) fn alternatives(
    catalogues: &mut Catalogues<'_>,
    settings: &[Setting],
    base: &Node,
    mut plan: impl FnMut(&mut Session) -> Result<Node, String>,
) -> Vec<Alternative> {
    let begun = Instant::now();
    let mut found = Vec::new();
    for trial in trials(settings, relations(base)) {
        if begun.elapsed() > LONGEST {
            break;
        }
        let name = &trial.setting.name;
        let set = format!(
            "SAVEPOINT pgassay_what_if; SET LOCAL {name} = {}",
            quote_literal(&trial.value)
        );
        let session = &mut *catalogues.session;
        let set = session.execute(&set).map_err(|error| error.to_string());
        let planned = set.and_then(|()| plan(session));
        if session
            .execute("ROLLBACK TO SAVEPOINT pgassay_what_if")
            .is_err()
        {
            break;
        }
        let about = format!("its plan with {name} = {}", trial.value);
        let Some(root) = catalogues.noted(&about, planned) else {
            continue;
        };
        if shape(&root) != shape(base) && cost(&root) < KEPT * cost(base) {
            found.push(Alternative {
                setting: name.clone(),
                value: trial.setting.shown.clone(),
                is_default: trial.value == trial.setting.default,
                tried: trial.value,
                root,
                times_ms: None,
            });
        }
    }
    found
}

/// The shortest of a few executions under these settings, with its milliseconds; of fewer from when on no more is asked, and
/// none after one that failed.
fn shortest(executed: &mut Executed, settings: &str, begun: Instant) -> Option<(Value, f64)> {
    let mut shortest: Option<(Value, f64)> = None;
    for _ in 0..TIMES {
        let (said, ms) = executed.again(settings)?;
        if shortest.as_ref().is_none_or(|(_, least)| ms < *least) {
            shortest = Some((said, ms));
        }
        if begun.elapsed() > LONGEST {
            break;
        }
    }
    shortest
}

/// Executes the plans that cost less, and the statement's own.
pub(super) fn time(executed: &mut Executed, found: &mut [Alternative]) {
    if !executed.is_repeatable() || executed.ms() < LEAST_MS {
        return;
    }
    let by_cost = found.iter_mut().filter(|a| a.times_ms.is_none());
    let by_cost: Vec<_> = by_cost.collect();
    let begun = Instant::now();
    if by_cost.is_empty() {
        return;
    }
    let Some((_, own)) = shortest(executed, "", begun) else {
        return;
    };
    for other in by_cost {
        if begun.elapsed() > LONGEST {
            break;
        }
        // One that takes longer than this is no better.
        let limit = (2.0 * own).max(LEAST_LIMIT_MS).ceil();
        let (name, value) = (&other.setting, quote_literal(&other.tried));
        let set = format!("SET LOCAL {name} = {value}; SET LOCAL statement_timeout = {limit}");
        other.times_ms = match shortest(executed, &set, begun) {
            Some((said, ms)) => {
                other.root = node(&said["Plan"]);
                Some((own, ms))
            }
            None => Some((own, limit)),
        };
    }
}

/// Plans under the default value of each cost setting, with their times.
pub(super) fn at_other_costs(
    executed: &mut Executed,
    not_observed: &mut Vec<String>,
) -> Vec<Alternative> {
    if !executed.is_repeatable() || executed.ms() < LEAST_MS {
        return Vec::new();
    }
    let compiled = executed.said.get("JIT").is_some();
    let names: Vec<&str> = COSTS.iter().copied().chain([COMPILES]).collect();
    let catalogues = &mut Catalogues::new(executed.session(), not_observed);
    let asked = asked(catalogues, "", &names);
    let away = costs_tried(&asked, compiled);
    if away.is_empty() {
        return Vec::new();
    }
    let base = node(&executed.said["Plan"]);
    let begun = Instant::now();
    let Some((_, base_ms)) = shortest(executed, "", begun) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for Trial { setting, value } in away {
        if begun.elapsed() > LONGEST {
            break;
        }
        let set = format!("SET LOCAL {} = {}", setting.name, quote_literal(&value));
        let Some((said, ms)) = shortest(executed, &set, begun) else {
            continue;
        };
        let root = node(&said["Plan"]);
        if setting.name == COMPILES || shape(&root) != shape(&base) {
            // Our own questions are not compiled.
            let value_shown = match setting.name == COMPILES {
                true => "on".to_owned(),
                false => setting.shown.clone(),
            };
            found.push(Alternative {
                setting: setting.name.clone(),
                value: value_shown,
                is_default: value == setting.default,
                tried: value,
                root,
                times_ms: Some((base_ms, ms)),
            });
        }
    }
    found
}

/// The values of settings of costs that are worth an execution.
fn costs_tried(settings: &[Setting], compiled: bool) -> Vec<Trial<'_>> {
    let number = |text: &str| text.parse::<f64>().ok();
    let own = |name: &str| number(&settings.iter().find(|s| s.name == name)?.own);
    let sequential = own("seq_page_cost").filter(|cost| *cost > 0.0);
    let tried = settings.iter().filter_map(|setting| {
        let value = match setting.name.as_str() {
            COMPILES => compiled.then(|| "off".to_owned())?,
            RANDOM => {
                let sequential = sequential?;
                let turns = number(&setting.own)? >= OF_DISKS * sequential;
                turns.then(|| (OF_MEMORY * sequential).to_string())?
            }
            name => {
                let row = AWAY.iter().find(|(known, _)| *known == name);
                let away = row.is_none_or(|(_, away)| {
                    let numbers = number(&setting.own).zip(number(&setting.default));
                    numbers.is_some_and(|(own, default)| away(own, default))
                });
                let away = away && setting.own != setting.default;
                away.then(|| setting.default.clone())?
            }
        };
        Some(Trial { setting, value })
    });
    tried.collect()
}

/// A plan's cost without what is added for nodes that may not be used.
fn cost(root: &Node) -> f64 {
    root.cost % DISABLE_COST
}

/// What a plan does, node by node.
fn shape(root: &Node) -> Vec<(&NodeType, Option<&str>, Option<&str>, bool)> {
    let all = root.all().into_iter();
    all.map(|(parent, node)| {
        let hashed = parent.is_some_and(|parent| parent.hashes(node));
        (
            &node.kind,
            node.alias.as_deref(),
            node.index.as_deref(),
            hashed,
        )
    })
    .collect()
}

/// Relations that a plan joins.
fn relations(root: &Node) -> u64 {
    let all = root.all().into_iter();
    let names: BTreeSet<&str> = all.filter_map(|(_, n)| n.alias.as_deref()).collect();
    names.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, own: &str, default: &str) -> Setting {
        Setting {
            name: name.to_owned(),
            own: own.to_owned(),
            default: default.to_owned(),
            shown: own.to_owned(),
        }
    }

    #[test]
    fn a_page_anywhere_is_tried_at_what_it_costs_in_memory() {
        let tried = |settings: &[Setting]| {
            let trials = costs_tried(settings, false).into_iter();
            trials
                .map(|t| (t.setting.name.clone(), t.value))
                .collect::<Vec<_>>()
        };
        let sequential = setting("seq_page_cost", "1", "1");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (own, expected) in [("4", Some("1.1")), ("400", Some("1.1")), ("1.5", None)] {
            let found = tried(&[setting(RANDOM, own, "4"), sequential.clone()]);
            let expected: Vec<_> = expected
                .map(|value| pair(RANDOM, value))
                .into_iter()
                .collect();
            assert_eq!(found, expected, "{own}");
        }
        // In the unit that the server has.
        let found = tried(&[
            setting(RANDOM, "0.4", "4"),
            setting("seq_page_cost", "0.1", "1"),
        ]);
        let value: f64 = found[0].1.parse().unwrap();
        assert!((value - 0.11).abs() < 1e-9, "{found:?}");
        // Others have reason for a larger cache, nobody for a smaller one than any machine has.
        let cache = |own: &str| tried(&[setting("effective_cache_size", own, "524288")]);
        assert_eq!(cache("8192"), [pair("effective_cache_size", "524288")]);
        assert_eq!(cache("1048576"), []);
        // What was not compiled is no faster without it.
        let jit = [setting(COMPILES, "on", "on")];
        assert_eq!(costs_tried(&jit, false), []);
        assert_eq!(costs_tried(&jit, true)[0].value, "off");
    }

    fn tried(settings: &[Setting], relations: u64) -> Vec<(String, String)> {
        let trials = trials(settings, relations).into_iter();
        trials.map(|t| (t.setting.name.clone(), t.value)).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_is_as_the_server_comes_is_not_tried() {
        let sound = [
            setting("enable_nestloop", "on", "on"),
            setting("join_collapse_limit", "8", "8"),
            setting("geqo", "on", "on"),
            setting("geqo_threshold", "12", "12"),
        ];
        assert_eq!(tried(&sound, 3), []);
        let spoilt = [
            setting("enable_nestloop", "off", "on"),
            setting("join_collapse_limit", "1", "8"),
        ];
        assert_eq!(
            tried(&spoilt, 3),
            [
                pair("enable_nestloop", "on"),
                pair("join_collapse_limit", "8")
            ]
        );
        // One relation alone is joined with none.
        assert_eq!(tried(&spoilt[1..], 1), []);
    }

    #[test]
    fn limits_are_raised_to_what_a_statement_joins() {
        let limits = [
            setting("join_collapse_limit", "8", "8"),
            setting("geqo", "on", "on"),
            setting("geqo_threshold", "5", "12"),
        ];
        assert_eq!(
            tried(&limits, 10),
            [
                pair("join_collapse_limit", "10"),
                pair("geqo_threshold", "11")
            ]
        );
        assert_eq!(tried(&limits[..1], 40), []);
    }
}
