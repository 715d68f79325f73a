//! Plans that auto_explain wrote into the log, as JSON or as text (PostgreSQL manual, "auto_explain"):
//! both become EXPLAIN's JSON.

use pgassay_plan::Clause;
use serde_json::{Map, Value, json};

/// Nodes below each other that are read.
const DEEPEST: usize = 200;
/// Nodes whose `on` names a table.
const OF_TABLES: &[&str] = &[
    "Seq Scan",
    "Index Scan",
    "Index Only Scan",
    "Bitmap Heap Scan",
    "Tid Scan",
    "Tid Range Scan",
    "Sample Scan",
    "Foreign Scan",
    "ModifyTable",
];
/// What a text plan calls nodes that write.
const WRITES: &[&str] = &["Insert", "Update", "Delete", "Merge"];

/// A plan as it was logged.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedPlan {
    /// The statement's text, with its literals.
    pub query: String,
    /// The topmost node, in the form of `EXPLAIN (FORMAT JSON)`.
    pub root: Value,
}

/// The plan of a record's message, behind `duration: … ms  `; none where it is none, or in another
/// format (`auto_explain.log_format` may be xml or yaml).
pub fn plan(text: &str) -> Option<LoggedPlan> {
    let text = text.strip_prefix("plan:")?.trim_start();
    if text.starts_with('{') {
        let mut json: Value = serde_json::from_str(text).ok()?;
        return Some(LoggedPlan {
            query: json["Query Text"].as_str()?.to_owned(),
            root: json.get_mut("Plan").map(Value::take)?,
        });
    }
    let body = text.strip_prefix("Query Text:")?;
    let lines: Vec<&str> = body.lines().collect();
    let top = lines.iter().position(|line| node(line).is_some())?;
    let query = lines[..top]
        .iter()
        .filter(|line| !line.starts_with("Query Parameters:"));
    let query: Vec<&str> = query.copied().collect();
    Some(LoggedPlan {
        query: query.join("\n").trim().to_owned(),
        root: tree(&lines[top..])?,
    })
}

/// A line that begins a node: how far its arrow is indented, and the node.
fn node(line: &str) -> Option<(usize, Map<String, Value>)> {
    let (head, figures) = line.split_once("  (cost=")?;
    let indent = head.len() - head.trim_start().len();
    let name = head.trim_start();
    let name = name.strip_prefix("->").unwrap_or(name).trim_start();
    let (planned, actual) = match figures.split_once("(actual ") {
        Some((planned, actual)) => (planned, Some(actual)),
        None => (figures, None),
    };
    let mut node = Map::new();
    let cost = planned.split_once("..")?.1.split_whitespace().next()?;
    node.insert("Total Cost".to_owned(), json!(cost.parse::<f64>().ok()?));
    node.insert("Plan Rows".to_owned(), json!(figure(planned, "rows=")?));
    node.insert("Plan Width".to_owned(), json!(figure(planned, "width=")?));
    if let Some(rows) = actual.and_then(|actual| figure(actual, "rows=")) {
        node.insert("Actual Rows".to_owned(), json!(rows));
    }
    named(name, &mut node);
    Some((indent, node))
}

fn figure(text: &str, name: &str) -> Option<f64> {
    let rest = text.split_once(name)?.1;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// What `Index Scan using t_pkey on public.t x` says.
fn named(name: &str, node: &mut Map<String, Value>) {
    let mut put = |key: &str, value: &str| node.insert(key.to_owned(), Value::from(value));
    let (name, on) = match name.split_once(" on ") {
        Some((name, on)) => (name, Some(on)),
        None => (name, None),
    };
    let (name, index) = match name.split_once(" using ") {
        Some((name, index)) => (name, Some(index)),
        None => (name, None),
    };
    let name = name
        .strip_prefix("Parallel ")
        .unwrap_or(name)
        .trim_end_matches(" Backward");
    let mut kind = name.to_owned();
    if WRITES.contains(&name) {
        put("Operation", name);
        kind = "ModifyTable".to_owned();
    } else if name.ends_with("Aggregate") {
        kind = "Aggregate".to_owned();
    } else if name.ends_with(" Join") {
        kind = ["Left", "Right", "Full", "Semi", "Anti"]
            .iter()
            .fold(kind, |kind, side| kind.replace(&format!(" {side}"), ""));
        if kind.starts_with("Nested Loop") {
            kind = "Nested Loop".to_owned();
        }
    }
    put("Node Type", &kind);
    if let Some(index) = index {
        put("Index Name", &identifier(index).0);
    }
    let Some(on) = on else { return };
    let (first, rest) = identifier(on);
    if kind == "Bitmap Index Scan" {
        put("Index Name", &first);
    } else if OF_TABLES.contains(&kind.as_str()) {
        match rest.strip_prefix('.') {
            Some(table) => {
                put("Schema", &first);
                put("Relation Name", &identifier(table).0);
            }
            None => drop(put("Relation Name", &first)),
        }
    }
}

/// The identifier with which a text begins, unquoted, and what follows.
fn identifier(text: &str) -> (String, &str) {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find(['.', ' ', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut name = String::new();
    while let Some((part, after)) = rest.split_once('"') {
        name += part;
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return (name, after),
        }
    }
    (name + rest, "")
}

/// The nodes of a text plan, each below the one that it is indented under.
fn tree(lines: &[&str]) -> Option<Value> {
    let mut open: Vec<(usize, Map<String, Value>)> = Vec::new();
    for line in lines {
        if let Some((indent, node)) = node(line) {
            if !open.is_empty() && !line.trim_start().starts_with("->") {
                break;
            }
            while open.len() > 1 && open.last().is_some_and(|(above, _)| *above >= indent) {
                close(&mut open);
            }
            if open.len() >= DEEPEST {
                return None;
            }
            open.push((indent, node));
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let Some((key, value)) = line.trim_start().split_once(": ") else {
            continue;
        };
        let of = open.iter_mut().rev().find(|(above, _)| *above < indent);
        if let Some((_, node)) = of {
            let value = match key {
                "Sort Key" | "Group Key" | "Presorted Key" | "Output" => json!([value]),
                _ if !matches!(Clause::from(key), Clause::Other(_)) => Value::from(value),
                _ => match value.trim().parse::<f64>() {
                    Ok(number) if number.is_finite() => json!(number),
                    _ => Value::from(value),
                },
            };
            node.insert(key.to_owned(), value);
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop().map(|(_, root)| Value::Object(root))
}

/// The innermost node is whole.
fn close(open: &mut Vec<(usize, Map<String, Value>)>) {
    let Some((_, node)) = open.pop() else { return };
    let Some((_, above)) = open.last_mut() else {
        return;
    };
    let children = above.entry("Plans").or_insert_with(|| json!([]));
    if let Some(children) = children.as_array_mut() {
        children.push(Value::Object(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // As PostgreSQL 15 wrote it, of a made-up table.
    const TEXT: &str = "plan:\nQuery Text: SELECT *\n  FROM \"My t\" a JOIN u ON u.id = a.id WHERE a.x = 'secret' ORDER BY a.y\n\
        Sort  (cost=180.60..181.10 rows=200 width=12) (actual time=1.200..1.300 rows=4000 loops=1)\n  \
          Sort Key: a.y\n  Sort Method: quicksort  Memory: 25kB\n  \
          ->  Hash Left Join  (cost=10.00..170.00 rows=200 width=12) (actual time=0.100..1.000 rows=4000 loops=1)\n        \
                Hash Cond: (a.id = u.id)\n        \
                ->  Seq Scan on public.\"My t\" a  (cost=0.00..155.00 rows=200 width=8) (actual time=0.010..0.900 rows=4000 loops=1)\n              \
                      Filter: (x = 'secret'::text)\n              Rows Removed by Filter: 6000\n        \
                ->  Hash  (cost=5.00..5.00 rows=100 width=4) (actual time=0.050..0.050 rows=100 loops=1)\n              \
                      ->  Index Only Scan using u_pkey on u  (cost=0.00..5.00 rows=100 width=4) (actual time=0.010..0.030 rows=100 loops=1)";

    #[test]
    fn a_plan_in_text_has_the_form_of_one_in_json() {
        let logged = plan(TEXT).unwrap();
        assert!(
            logged.query.starts_with("SELECT *\n  FROM") && logged.query.ends_with("ORDER BY a.y")
        );
        let root = &logged.root;
        assert_eq!(root["Node Type"], "Sort");
        assert_eq!(
            (root["Plan Rows"].as_f64(), root["Actual Rows"].as_f64()),
            (Some(200.0), Some(4000.0))
        );
        assert_eq!(root["Sort Key"][0], "a.y");
        let join = &root["Plans"][0];
        assert_eq!(
            (join["Node Type"].as_str(), join["Hash Cond"].as_str()),
            (Some("Hash Join"), Some("(a.id = u.id)"))
        );
        let scan = &join["Plans"][0];
        assert_eq!(scan["Node Type"], "Seq Scan");
        assert_eq!(
            (scan["Schema"].as_str(), scan["Relation Name"].as_str()),
            (Some("public"), Some("My t"))
        );
        assert_eq!(scan["Filter"], "(x = 'secret'::text)");
        assert_eq!(scan["Rows Removed by Filter"], 6000.0);
        let index = &join["Plans"][1]["Plans"][0];
        assert_eq!(
            (
                index["Index Name"].as_str(),
                index["Relation Name"].as_str()
            ),
            (Some("u_pkey"), Some("u"))
        );
        assert_eq!(index["Total Cost"], 5.0);
    }

    #[test]
    fn a_plan_in_json_is_taken_as_it_is() {
        let text = r#"plan:
{
  "Query Text": "UPDATE t SET a = 1",
  "Plan": {"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "t", "Plan Rows": 0}
}"#;
        let logged = plan(text).unwrap();
        assert_eq!(logged.query, "UPDATE t SET a = 1");
        assert_eq!(logged.root["Operation"], "Update");
    }

    #[test]
    fn writes_and_odd_names() {
        let of = |line: &str| Value::Object(node(line).unwrap().1);
        let update = of("Update on public.t  (cost=0.00..1.00 rows=0 width=0)");
        assert_eq!(
            (update["Node Type"].as_str(), update["Operation"].as_str()),
            (Some("ModifyTable"), Some("Update"))
        );
        let quoted = of(
            "  ->  Parallel Seq Scan on \"a \"\" b\".\"c.d\" x  (cost=0.00..1.00 rows=1 width=4)",
        );
        assert_eq!(
            (quoted["Schema"].as_str(), quoted["Relation Name"].as_str()),
            (Some("a \" b"), Some("c.d"))
        );
        let nested =
            of("->  Nested Loop Anti Join  (cost=0.00..1.00 rows=1 width=4) (never executed)");
        assert_eq!(nested["Node Type"], "Nested Loop");
        assert!(nested["Actual Rows"].is_null());
        for text in [
            "plan:",
            "plan:\nQuery Text: x",
            "plan:\n{",
            "plan:\nQuery Text: x\n\"  (cost=..",
            "statement: x",
        ] {
            assert_eq!(plan(text), None, "{text}");
        }
    }
}
