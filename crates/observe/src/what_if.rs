//! Plans that a statement would have under other settings: the planner is asked again, in the same
//! read-only transaction, with one setting changed for that question alone. Nothing is executed.
//!
//! Settings of what an operation costs change the unit in which plans are compared: for these the statement is executed
//! instead, where it is one of our load that is quick and only reads, and times are compared.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pgassay_model::observed::plans::{Alternative, DISABLE_COST, Node};
use pgassay_pgwire::Session;
use pgassay_text::quote::quote_literal;

use super::executed::Executed;
use super::explained::{drop_outputs, node};

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
    "hash_mem_multiplier",
    "join_collapse_limit",
    "work_mem",
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

/// Of random_page_cost and effective_cache_size, which others have reason to set, values that tell the planner of a slower
/// disk or a smaller cache than it takes any machine to have.
const AWAY: &[(&str, Away)] = &[
    ("random_page_cost", |own, default| own > default),
    ("effective_cache_size", |own, default| own < default),
];
/// The part of the time below which another plan is clearly faster, and milliseconds below which none is looked for.
const FASTER: f64 = 0.6;
const LEAST_MS: f64 = 0.2;
/// Executions of each plan, of which the shortest counts.
const TIMES: usize = 4;

/// Questions for a statement at most, and after how long no more is asked.
const MOST: usize = 16;
const LONGEST: Duration = Duration::from_secs(2);
/// So many times as much memory is tried, up to so many kB.
const MORE_MEMORY: u64 = 16;
const MOST_MEMORY_KB: u64 = 1 << 20;
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
pub(super) fn settings(session: &mut Session) -> Vec<Setting> {
    asked(session, "enable_", PLANNER)
}

/// The settings whose names begin so, and those of these names.
fn asked(session: &mut Session, begin: &str, names: &[&str]) -> Vec<Setting> {
    let names: Vec<String> = names.iter().map(|name| quote_literal(name)).collect();
    let begins = match begin {
        "" => String::new(),
        begin => format!("name LIKE {} OR ", quote_literal(&format!("{begin}%"))),
    };
    let found = session.catalog_rows(&format!(
        "SELECT name, setting, boot_val, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings \
         WHERE {begins}name IN ({})",
        names.join(", ")
    ));
    let rows = found.map(|found| found.rows).unwrap_or_default();
    rows.into_iter()
        .filter_map(|row| {
            let [Some(name), Some(own), Some(default), Some(shown)] =
                <[Option<String>; 4]>::try_from(row).ok()?
            else {
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
            "work_mem" => number(&setting.own)
                .map(|kb| (kb, kb.saturating_mul(MORE_MEMORY).min(MOST_MEMORY_KB)))
                .filter(|(own, more)| more > own)
                .map(|(_, more)| match more % 1024 {
                    0 => format!("{}MB", more / 1024),
                    _ => format!("{more}kB"),
                }),
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
    session: &mut Session,
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
        if session.execute(&set).is_err() {
            // The transaction is of no more use, and the plan is there.
            break;
        }
        let planned = plan(session);
        if session
            .execute("ROLLBACK TO SAVEPOINT pgassay_what_if")
            .is_err()
        {
            break;
        }
        let Ok(root) = planned else {
            continue;
        };
        // More memory may make the same plan cheaper; what may be used makes another.
        let may_be_same = matches!(name.as_str(), "work_mem" | "hash_mem_multiplier");
        let differs = may_be_same || shape(&root) != shape(base);
        if differs && cost(&root) < KEPT * cost(base) {
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

/// The plans that are faster with what the server comes with of a setting of costs.
pub(super) fn faster(executed: &mut Executed) -> Vec<Alternative> {
    if !executed.is_repeatable() || executed.ms() < LEAST_MS {
        return Vec::new();
    }
    let mut away = asked(executed.session(), "", COSTS);
    away.retain(|setting| {
        let row = AWAY.iter().find(|(name, _)| *name == setting.name);
        let numbers = setting.own.parse().ok().zip(setting.default.parse().ok());
        setting.own != setting.default
            && row.is_none_or(|(_, away)| numbers.is_some_and(|(own, default)| away(own, default)))
    });
    if away.is_empty() {
        return Vec::new();
    }
    let begun = Instant::now();
    let base = node(&executed.said["Plan"]);
    let mut shortest = |settings: &str| {
        let ran = (0..TIMES).filter_map(|_| executed.again(settings));
        ran.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let Some((_, base_ms)) = shortest("") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for setting in &away {
        if begun.elapsed() > LONGEST {
            break;
        }
        let set = format!(
            "SET LOCAL {} = {}",
            setting.name,
            quote_literal(&setting.default)
        );
        let Some((said, ms)) = shortest(&set) else {
            continue;
        };
        let mut root = node(&said["Plan"]);
        if ms < FASTER * base_ms && shape(&root) != shape(&base) {
            drop_outputs(&mut root, &|_| false);
            found.push(Alternative {
                setting: setting.name.clone(),
                value: setting.shown.clone(),
                tried: setting.default.clone(),
                is_default: true,
                root,
                times_ms: Some((base_ms, ms)),
            });
        }
    }
    found
}

/// A plan's cost without what is added for nodes that may not be used.
fn cost(root: &Node) -> f64 {
    root.cost % DISABLE_COST
}

/// What a plan does, node by node.
fn shape(root: &Node) -> Vec<(&str, Option<&str>, Option<&str>, bool)> {
    let all = root.all().into_iter();
    all.map(|(parent, node)| {
        let hashed = parent.is_some_and(|parent| parent.hashes(node));
        (
            node.kind.as_str(),
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

    #[test]
    fn memory_is_raised_up_to_a_bound() {
        let of = |kb: &str| tried(&[setting("work_mem", kb, "4096")], 1);
        assert_eq!(of("64"), [pair("work_mem", "1MB")]);
        assert_eq!(of("65"), [pair("work_mem", "1040kB")]);
        assert_eq!(of("524288"), [pair("work_mem", "1024MB")]);
        assert_eq!(of("1048576"), []);
    }
}
