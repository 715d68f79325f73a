//! Window functions that add their rows up anew for each row, since what leaves the window can't be taken out again.

use super::shapes::{At, Shown, advice};
use crate::bottlenecks::finding::Confidence;

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
    lower.match_indices(" preceding").any(|(at, _)| {
        let before = lower[..at].rsplit([' ', '(']).next().unwrap_or_default();
        before != "unbounded"
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
    use super::*;

    #[test]
    fn a_frame_moves_where_its_beginning_does() {
        assert!(moves(
            "SELECT avg(v) OVER (ORDER BY at ROWS BETWEEN $1 PRECEDING AND CURRENT ROW)"
        ));
        assert!(moves("SELECT avg(v) OVER (ROWS 9 PRECEDING)"));
        assert!(!moves(
            "SELECT sum(v) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        ));
        assert!(!moves("SELECT sum(v) OVER (PARTITION BY a) FROM t"));
    }
}
