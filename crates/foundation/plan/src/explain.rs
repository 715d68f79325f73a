//! EXPLAIN's JSON as nodes, and what executions tell of each.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_text::quote::quote_ident;
use serde_json::{Map, Value};

use crate::{Clause, Expr, Node, NodeType, Operation, Relationship, Work};

/// Nodes below each other that are kept.
const DEEPEST: usize = 60;

/// The topmost node of a plan, with all below.
pub fn node(value: &Value) -> Node {
    below(value, 0, &InitPlans::of(value))
}

/// InitPlans: uncorrelated subqueries and common table expressions. EXPLAIN includes their time in the node that first
/// refers to them.
#[derive(Default)]
struct InitPlans {
    /// By how the node that asks names it: milliseconds and blocks.
    by_name: BTreeMap<String, (f64, f64)>,
}

impl InitPlans {
    fn of(plan: &Value) -> Self {
        let mut init_plans = Self::default();
        let mut left = vec![plan];
        while let Some(value) = left.pop() {
            left.extend(inputs(value));
            let Some(name) = value["Subplan Name"]
                .as_str()
                .filter(|_| is_init_plan(value))
            else {
                continue;
            };
            let name = match (name.strip_prefix("CTE "), name.split_once(" (returns ")) {
                (Some(cte), _) => cte.to_owned(),
                // Up to 16 its value is a parameter: `InitPlan 1 (returns $0)`.
                (None, Some((_, parameter))) => parameter.trim_end_matches(')').to_owned(),
                (None, None) => name.to_owned(),
            };
            init_plans
                .by_name
                .insert(name, (total_ms(value), blocks(value)));
        }
        init_plans
    }

    /// Milliseconds and blocks of those that a node refers to.
    fn within(&self, value: &Value) -> (f64, f64) {
        if self.by_name.is_empty() {
            return (0.0, 0.0);
        }
        let asked = conditions(value);
        let mentions = |name: &str| match name.strip_prefix('$').map(str::parse) {
            Some(number) => {
                number.is_ok_and(|number| asked.iter().any(|of| of.params().contains(&number)))
            }
            None => asked
                .iter()
                .any(|of| of.subplans().iter().any(|(_, of)| *of == name)),
        };
        let asks = |name: &str| match value["CTE Name"].as_str() {
            Some(cte) => cte == name,
            None => mentions(name),
        };
        let asked = self.by_name.iter().filter(|(name, _)| asks(name));
        asked.fold((0.0, 0.0), |(ms, blocks), (_, of)| {
            (ms + of.0, blocks + of.1)
        })
    }
}

/// The conditions of a node, with their literals.
fn conditions(value: &Value) -> Vec<Expr> {
    let texts = Clause::ALL
        .iter()
        .filter_map(|clause| value[clause.as_str()].as_str());
    texts.map(Expr::parse).collect()
}

fn inputs(value: &Value) -> impl Iterator<Item = &Value> {
    value["Plans"].as_array().into_iter().flatten()
}

fn is_init_plan(value: &Value) -> bool {
    value["Parent Relationship"] == "InitPlan"
}

/// A figure of a node; 0 where it has none.
fn figure(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(0.0)
}

fn total_ms(value: &Value) -> f64 {
    figure(value, "Actual Total Time") * figure(value, "Actual Loops")
}

fn blocks(value: &Value) -> f64 {
    const COUNTED: &[&str] = &[
        "Shared Hit Blocks",
        "Shared Read Blocks",
        "Local Hit Blocks",
        "Local Read Blocks",
    ];
    COUNTED.iter().filter_map(|key| value[*key].as_f64()).sum()
}

fn below(value: &Value, depth: usize, init_plans: &InitPlans) -> Node {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let list = |key: &str| -> Vec<Expr> {
        let list = value[key].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(Expr::redacted).collect()
    };
    let condition = |clause: &Clause| {
        let condition = match &value[clause.as_str()] {
            Value::String(text) => Expr::redacted(text),
            Value::Array(_) => Expr::List(list(clause.as_str())),
            _ => return None,
        };
        Some((clause.clone(), condition))
    };
    Node {
        kind: NodeType::from(value["Node Type"].as_str().unwrap_or_default()),
        operation: value["Operation"].as_str().map(Operation::from),
        relation: text("Relation Name").map(|name| match value["Schema"].as_str() {
            Some(schema) => format!("{}.{}", quote_ident(schema), quote_ident(&name)),
            None => quote_ident(&name),
        }),
        alias: text("Alias"),
        index: text("Index Name"),
        conditions: Clause::ALL.iter().filter_map(condition).collect(),
        sort_key: list("Sort Key"),
        group_key: list("Group Key"),
        relationship: value["Parent Relationship"]
            .as_str()
            .map(Relationship::from),
        subplan: text("Subplan Name").filter(|name| name.starts_with("SubPlan")),
        join: value["Join Type"].as_str().map(Into::into),
        cte: text("CTE Name"),
        computes: text("Subplan Name")
            .and_then(|name| name.strip_prefix("CTE ").map(str::to_owned)),
        function: text("Function Name"),
        subplans_removed: value["Subplans Removed"].as_f64(),
        rows: figure(value, "Plan Rows"),
        actual_rows: value["Actual Rows"]
            .as_f64()
            .filter(|_| value["Actual Loops"] != 0),
        work: work(value, init_plans),
        width: figure(value, "Plan Width"),
        cost: figure(value, "Total Cost"),
        other: value.as_object().map(other).unwrap_or_default(),
        nodes: match depth {
            DEEPEST.. => Vec::new(),
            _ => inputs(value)
                .map(|child| below(child, depth + 1, init_plans))
                .collect(),
        },
    }
}

/// Properties that fields of a node hold, with those of [`Clause`].
const NAMED: &[&str] = &[
    "Actual Rows",
    "Alias",
    "CTE Name",
    "Function Name",
    "Group Key",
    "Index Name",
    "Join Type",
    "Node Type",
    "Operation",
    "Parent Relationship",
    "Plan Rows",
    "Plan Width",
    "Plans",
    "Relation Name",
    "Schema",
    "Sort Key",
    "Subplan Name",
    "Subplans Removed",
    "Total Cost",
];

/// All other properties.
fn other(properties: &Map<String, Value>) -> Map<String, Value> {
    let named = |key: &str| NAMED.contains(&key) || !matches!(Clause::from(key), Clause::Other(_));
    // The fields of a node are serialized in lower case. EXPLAIN's own properties begin with a capital.
    let is_property = |key: &str| key.starts_with(|c: char| c.is_ascii_uppercase());
    let other = properties
        .iter()
        .filter(|(key, _)| is_property(key) && !named(key));
    other
        .map(|(key, value)| (key.clone(), redacted(value)))
        .collect()
}

/// A property without literals.
fn redacted(value: &Value) -> Value {
    match value {
        Value::String(text) => Expr::redacted(text).to_string().into(),
        Value::Array(values) => values.iter().map(redacted).collect(),
        Value::Object(properties) => {
            let properties = properties
                .iter()
                .map(|(key, value)| (key.clone(), redacted(value)));
            Value::Object(properties.collect())
        }
        other => other.clone(),
    }
}

/// What a node that ran did: none without EXPLAIN ANALYZE.
fn work(value: &Value, init_plans: &InitPlans) -> Option<Work> {
    let loops = value["Actual Loops"]
        .as_f64()
        .filter(|loops| *loops > 0.0)?;
    let driven = || inputs(value).filter(|input| !is_init_plan(input));
    let (asked_ms, asked_blocks) = init_plans.within(value);
    let own = |all: f64, of: &dyn Fn(&Value) -> f64, asked: f64| {
        (all - driven().map(of).sum::<f64>() - asked).max(0.0)
    };
    let temporary = |of: &Value| figure(of, "Temp Written Blocks");
    Some(Work {
        loops,
        removed: figure(value, "Rows Removed by Filter")
            + figure(value, "Rows Removed by Join Filter")
            + figure(value, "Rows Removed by Index Recheck"),
        ms: own(total_ms(value), &total_ms, asked_ms),
        blocks: own(blocks(value), &blocks, asked_blocks),
        temporary_blocks: own(temporary(value), &temporary, 0.0),
    })
}

/// Whether a plan was made without the values: its conditions name parameters.
pub fn is_generic(plan: &Value) -> bool {
    // Up to 16 the values of subqueries are parameters, too.
    let mut returned = BTreeSet::from([0]);
    let mut named = BTreeSet::new();
    let mut left = vec![plan];
    while let Some(value) = left.pop() {
        left.extend(inputs(value));
        let name = value["Subplan Name"].as_str().unwrap_or_default();
        let parameters = name
            .split_once("(returns ")
            .map(|(_, behind)| Expr::parse(behind.trim_end_matches(')')));
        returned.extend(parameters.iter().flat_map(Expr::params));
        named.extend(conditions(value).iter().flat_map(Expr::params));
    }
    !named.is_subset(&returned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Node {
        node(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_node_keeps_no_literal() {
        let text = r#"{"Node Type": "Seq Scan", "Schema": "public", "Relation Name": "My t",
            "Filter": "((t.mail)::text = 'secret'::text)", "Plan Rows": 3, "Total Cost": 7.5, "Heap Fetches": 3,
            "Remote SQL": "SELECT id FROM t WHERE mail = 'secret'", "rows": 1, "Workers": [{"Worker Number": 1, "Sort Method": "external merge"}]}"#;
        let node = read(text);
        assert_eq!(node.relation.as_deref(), Some("public.\"My t\""));
        assert_eq!(
            node.filter().unwrap().to_string(),
            "((t.mail)::text = $1::text)"
        );
        assert_eq!((node.rows, node.cost), (3.0, 7.5));
        let other = serde_json::json!({"Heap Fetches": 3, "Remote SQL": "SELECT id FROM t WHERE mail = $1",
            "Workers": [{"Worker Number": 1, "Sort Method": "external merge"}]});
        assert_eq!(Value::from(node.other.clone()), other);
        let text = serde_json::to_string(&node).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(serde_json::from_str::<Node>(&text).unwrap(), node);
    }

    #[test]
    fn init_plans_count_once() {
        let text = r#"{"Node Type": "Aggregate", "Actual Total Time": 100, "Actual Loops": 1, "Actual Rows": 1, "Plans": [
            {"Node Type": "Aggregate", "Parent Relationship": "InitPlan", "Subplan Name": "InitPlan 1 (returns $0)",
             "Actual Total Time": 80, "Actual Loops": 1, "Actual Rows": 1, "Shared Hit Blocks": 700, "Plans": [
               {"Node Type": "Seq Scan", "Actual Total Time": 79, "Actual Loops": 1, "Actual Rows": 9, "Shared Hit Blocks": 700}]},
            {"Node Type": "Index Scan", "Index Cond": "(t.id > $0)", "Parent Relationship": "Outer",
             "Actual Total Time": 95, "Actual Loops": 1, "Actual Rows": 5, "Shared Hit Blocks": 720}]}"#;
        let root = read(text);
        let scan = root.nodes[1].work.unwrap();
        assert_eq!((scan.ms, scan.blocks), (15.0, 20.0));
        let all: f64 = root.all().iter().map(|(_, n)| n.work.unwrap().ms).sum();
        assert!((all - 100.0).abs() < 1e-9, "{all}");
        assert!(!is_generic(&serde_json::from_str(text).unwrap()));
        let generic = text.replace("t.id > $0", "t.id > $1");
        assert!(is_generic(&serde_json::from_str(&generic).unwrap()));
        let literal = text.replace("t.id > $0", "t.id > '$1'");
        assert!(!is_generic(&serde_json::from_str(&literal).unwrap()));

        let text = r#"{"Node Type": "Aggregate", "Actual Total Time": 50, "Actual Loops": 1, "Actual Rows": 1, "Plans": [
            {"Node Type": "Seq Scan", "Parent Relationship": "InitPlan", "Subplan Name": "CTE m",
             "Actual Total Time": 30, "Actual Loops": 1, "Actual Rows": 9},
            {"Node Type": "CTE Scan", "CTE Name": "m", "Actual Total Time": 45, "Actual Loops": 1, "Actual Rows": 9}]}"#;
        let root = read(text);
        let own: Vec<f64> = root.all().iter().map(|(_, n)| n.work.unwrap().ms).collect();
        assert_eq!(own, [5.0, 30.0, 15.0]);
    }
}
