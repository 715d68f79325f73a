//! Window functions that add their rows up anew for each row, since what leaves the window can't be taken out again.

use super::shapes::{At, Shown, advice};
use crate::finding::Confidence;

/// Aggregates over numbers that have no inverse for floating-point ones (pg_aggregate.aggminvtransfn).
const ADDED_UP: &[&str] = &[
    "avg(",
    "sum(",
    "stddev(",
    "variance(",
    "var_samp(",
    "stddev_samp(",
];
/// Milliseconds that a row takes where its whole window is added up: some hundred values. One value takes a thousandth.
const LONG_MS: f64 = 0.01;
const FLOATING: &[&str] = &["double precision", "real"];

/// Whether a statement has a frame whose beginning moves along: `ROWS BETWEEN 999 PRECEDING AND …`.
fn moves(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let modes = ["rows ", "range ", "groups "].iter();
    let mut frames = modes.flat_map(|mode| {
        let found = lower.match_indices(mode);
        found.map(|(at, mode)| &lower[at + mode.len()..])
    });
    frames.any(|frame| {
        let bounds = frame.split(')').next().unwrap_or_default();
        let begins = bounds.split(" and ").next().unwrap_or_default();
        let begins = begins.trim_start_matches("between ").trim_end();
        let named = |end: &str| begins.ends_with(end);
        begins != "unbounded preceding"
            && (named(" preceding") || named("current row") || named(" following"))
    })
}

/// The column of floating-point numbers that a select list adds up over a window.
fn added_up<'f>(at: &'f At, output: &str) -> Option<(&'static str, &'f str)> {
    let lower = output.to_ascii_lowercase();
    let of_columns = at
        .plan
        .relations
        .values()
        .flat_map(|facts| facts.types.iter());
    let floating = of_columns.filter(|(_, kind)| FLOATING.contains(&kind.as_str()));
    let mut all = floating.flat_map(|(column, _)| ADDED_UP.iter().map(move |name| (*name, column)));
    let (name, column) = all.find(|(name, column)| {
        lower.match_indices(name).any(|(at, _)| {
            let inside = lower[at + name.len()..]
                .split(')')
                .next()
                .unwrap_or_default();
            let behind = lower[at + name.len() + inside.len()..].trim_start_matches(')');
            let own = inside
                .rsplit('.')
                .next()
                .unwrap_or(inside)
                .trim_matches('"');
            own == column.as_str() && behind.trim_start().starts_with("over ")
        })
    })?;
    Some((name.trim_end_matches('('), column))
}

/// A moving window over floating-point numbers.
pub(super) fn moving(at: &At) -> Option<Shown> {
    let node = at.node;
    let output = node
        .conditions
        .get("Output")
        .filter(|_| node.kind == "WindowAgg")?;
    let (name, column) = added_up(at, output).filter(|_| moves(&at.statement.text))?;
    let all = at.plan.root.all();
    let total: f64 = all.iter().filter_map(|(_, n)| Some(n.work?.ms)).sum();
    let part = node.work?.ms / total.max(f64::MIN_POSITIVE);
    let rows = node.actual_rows.unwrap_or(node.rows);
    if node.work?.ms < LONG_MS * rows {
        return None;
    }
    Some(Shown {
        cost: part * at.plan.root.cost,
        left: None,
        saw: format!(
            "{name}({column}) over a window that moves along adds all its rows up anew for each row: {column} is a floating-point number, of which \
             none can be taken out of a sum again."
        ),
        steps: vec![
            advice(format!(
                "{name}({column}::numeric) (or an integer of a smaller unit): for these the value that leaves the window is subtracted"
            )),
            advice(format!(
                "or the difference of two running sums: sum({column}) OVER (ORDER BY …) minus the same some rows before (lag), where rounding does not matter"
            )),
        ],
        seen: vec![format!(
            "{:.1} ms of {total:.1} ms of an execution, for {:.0} rows",
            node.work?.ms, rows
        )],
        confidence: Confidence::High,
    })
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::{found_with, one};
    use super::*;
    use crate::Finding;
    use pgassay_model::observed::plans::{Node, Plan, RelationFacts, Work};

    /// Plan of PostgreSQL 15 for averages over frames of a thousand rows each, of a column of this type.
    fn averaged(text: &str, kind: &str) -> Vec<Finding> {
        let node = |kind: &str, cost: f64, ms: f64, nodes: Vec<Node>| Node {
            kind: kind.into(),
            rows: 20_000.0,
            actual_rows: Some(20_000.0),
            work: Some(Work {
                loops: 1.0,
                ms,
                ..Work::default()
            }),
            cost,
            nodes,
            ..Node::default()
        };
        let scan = Node {
            relation: Some("public.reading".into()),
            ..node("Seq Scan", 367.0, 2.538, vec![])
        };
        let sort = node("Sort", 1845.77, 5.074, vec![scan]);
        let root = Node {
            conditions: [("Output".to_owned(), "at, avg(v) OVER (?)".to_owned())].into(),
            ..node("WindowAgg", 2145.77, 2112.41, vec![sort])
        };
        let facts = RelationFacts {
            types: [("v".to_owned(), kind.to_owned())].into(),
            ..RelationFacts::default()
        };
        let plan = Plan {
            root,
            relations: [("public.reading".to_owned(), facts)].into(),
            ..Plan::default()
        };
        found_with(vec![], |observed| {
            observed.statements = Some(statement(text, Some(plan)));
        })
    }

    #[test]
    fn a_moving_frame_over_floating_point_numbers_is_found() {
        let over = |frame: &str| {
            format!("SELECT at, avg(v) OVER (ORDER BY at ROWS BETWEEN {frame}) FROM reading")
        };
        let moving = over("$1 PRECEDING AND CURRENT ROW");
        let found = averaged(&moving, "double precision");
        let finding = one(&found, "window-recomputed");
        assert!(
            finding
                .saw
                .starts_with("avg(v) over a window that moves along"),
            "{}",
            finding.saw
        );
        assert_eq!(finding.confidence, Confidence::High);
        assert!(
            finding
                .evidence
                .iter()
                .any(|e| e == "2112.4 ms of 2120.0 ms of an execution, for 20000 rows"),
            "{finding:#?}"
        );
        let growing = over("UNBOUNDED PRECEDING AND CURRENT ROW");
        for (text, kind) in [(&moving, "numeric"), (&growing, "double precision")] {
            let found = averaged(text, kind);
            assert!(found.iter().all(|f| f.id != "window-recomputed"), "{text}");
        }
    }

    #[test]
    fn a_frame_moves_where_its_beginning_does() {
        assert!(moves(
            "SELECT avg(v) OVER (ORDER BY at ROWS BETWEEN $1 PRECEDING AND CURRENT ROW)"
        ));
        assert!(moves("SELECT avg(v) OVER (ROWS 9 PRECEDING)"));
        assert!(moves(
            "SELECT avg(v) OVER (ORDER BY at ROWS BETWEEN CURRENT ROW AND $1 FOLLOWING)"
        ));
        assert!(!moves(
            "SELECT avg(v) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND $1 PRECEDING)"
        ));
        assert!(!moves(
            "SELECT sum(v) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        ));
        assert!(!moves("SELECT sum(v) OVER (PARTITION BY a) FROM t"));
    }
}
