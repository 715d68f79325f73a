//! How the servers of a comparison would run the workload's statements.

use serde::Deserialize;
use serde_json::Value;

use pgassay_model::comparison::ArmFacts;

/// A statement as a server explained it.
#[derive(Deserialize)]
struct Explained {
    statement: String,
    /// Absent where it could not be had, for the reason in `why`.
    plan: Option<Value>,
    /// Place of the script; absent in runs of before it was kept.
    script: Option<u32>,
    /// Place of the statement among the script's commands.
    command: Option<u32>,
}

/// How two servers would run one statement with the same values.
#[derive(Debug, PartialEq, Eq)]
pub struct PlanPair {
    /// Its text.
    pub statement: String,
    /// The script and the command, where that was recorded.
    pub place: Option<(u32, u32)>,
    /// The nodes at A.
    pub a: String,
    /// At the other.
    pub b: String,
}

impl PlanPair {
    /// Whether they would run it otherwise.
    pub fn changed(&self) -> bool {
        self.a != self.b
    }
}

/// The plans that both servers told, in the workload's order; a statement has several where it was
/// explained with several rows of values.
pub fn both(a: &ArmFacts, b: &ArmFacts) -> Vec<PlanPair> {
    let read = |facts: &ArmFacts| -> Option<Vec<Explained>> {
        serde_json::from_str(facts.plans.text()?).ok()
    };
    let (Some(a), Some(b)) = (read(a), read(b)) else {
        return Vec::new();
    };
    let pairs = a.into_iter().zip(&b).filter_map(|(a, b)| {
        let (x, y) = (a.plan.as_ref()?, b.plan.as_ref()?);
        Some(PlanPair {
            a: shape(x),
            b: shape(y),
            place: a.script.zip(a.command),
            statement: a.statement,
        })
    });
    pairs.collect()
}

/// The nodes of a plan with what they read, such as `Index Scan on t using i`.
fn shape(plan: &Value) -> String {
    let text = |node: &Value, key: &str| node.get(key)?.as_str().map(str::to_owned);
    let node = match plan {
        Value::Array(plans) => return plans.iter().map(shape).collect::<Vec<_>>().join("; "),
        Value::Object(object) if object.contains_key("Plan") => return shape(&object["Plan"]),
        node => node,
    };
    let mut shape_of = text(node, "Node Type").unwrap_or_else(|| "?".to_owned());
    for (word, key) in [("on", "Relation Name"), ("using", "Index Name")] {
        if let Some(name) = text(node, key) {
            shape_of.push_str(&format!(" {word} {name}"));
        }
    }
    if let Some(Value::Array(children)) = node.get("Plans") {
        let inner: Vec<String> = children.iter().map(shape).collect();
        shape_of.push_str(&format!(" ({})", inner.join(", ")));
    }
    shape_of
}
