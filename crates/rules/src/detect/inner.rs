//! Statements that run within functions and triggers: what is wrong with those that take most of the time, as a table of
//! forms.

use pgassay_model::observed::plans::Node;
use pgassay_text::quote::quote_ident;

use super::conditions::conjuncts;
use crate::finding::StepKind;

/// What mends a statement within a function, by its text and its plan.
pub(super) fn step(text: &str, root: Option<&Node>) -> Option<(StepKind, String)> {
    refreshed(text)
        .or_else(|| extreme(text, root?))
        .or_else(|| scanned(root?))
}

fn sql(text: String) -> Option<(StepKind, String)> {
    Some((StepKind::Sql, text))
}

fn refreshed(text: &str) -> Option<(StepKind, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is = |at: usize, word: &str| words.get(at).is_some_and(|w| w.eq_ignore_ascii_case(word));
    if !(is(0, "refresh") && is(1, "materialized")) {
        return None;
    }
    let name = words.get(if is(3, "concurrently") { 4 } else { 3 })?;
    sql(format!(
        "REFRESH MATERIALIZED VIEW CONCURRENTLY {name};   -- by a job every few minutes, and not for each statement that writes; or a table in its place, to which a trigger adds \
         the difference of the rows written"
    ))
}

/// A table that is read whole, with no condition.
fn whole(root: &Node) -> Option<&str> {
    let all = root.all().into_iter().map(|(_, node)| node);
    let mut scans =
        all.filter(|node| node.kind == "Seq Scan" && !node.conditions.contains_key("Filter"));
    scans.next()?.relation.as_deref()
}

/// The smallest or largest value of a table that is read whole for it.
fn extreme(text: &str, root: &Node) -> Option<(StepKind, String)> {
    let table = whole(root)?;
    let lower = text.to_ascii_lowercase();
    let column = ["max(", "min("].iter().find_map(|call| {
        let (_, behind) = lower.split_once(call)?;
        let name = behind[..behind.find(')')?].trim().to_owned();
        let name = name.rsplit('.').next()?.trim_matches('"').to_owned();
        let plain = |c: char| c.is_alphanumeric() || c == '_';
        (!name.is_empty() && name.chars().all(plain)).then_some(name)
    })?;
    let numbers = lower.contains(") +");
    let instead = match numbers {
        true => {
            "; to number rows, a sequence in the place of it (GENERATED ALWAYS AS IDENTITY, nextval('…')), which reads and locks nothing"
        }
        false => "",
    };
    sql(format!(
        "CREATE INDEX CONCURRENTLY ON {table} ({});   -- then one entry is read in the place of the whole table{instead}",
        quote_ident(&column)
    ))
}

/// A table that is read whole for the few rows that a comparison leaves.
fn scanned(root: &Node) -> Option<(StepKind, String)> {
    let all = root.all().into_iter().map(|(_, node)| node);
    let scans = all.filter(|node| {
        let given = node.actual_rows.unwrap_or(node.rows).max(1.0);
        node.kind == "Seq Scan"
            && node
                .work
                .is_some_and(|work| work.removed >= 20.0 * given && work.removed >= 1000.0)
    });
    let scan = scans.max_by(|a, b| {
        let ms = |node: &Node| node.work.map_or(0.0, |work| work.ms);
        ms(a).total_cmp(&ms(b))
    })?;
    let columns = conjuncts(scan.conditions.get("Filter")?)
        .into_iter()
        .filter_map(|part| {
            let (left, _) = part.split_once(" = ")?;
            let left = left.trim_matches(['(', ')']);
            let name = left.rsplit('.').next()?.trim_matches('"');
            let plain = |c: char| c.is_alphanumeric() || c == '_';
            (!name.is_empty() && name.chars().all(plain)).then(|| quote_ident(name))
        });
    let columns: Vec<String> = columns.collect();
    if columns.is_empty() {
        return None;
    }
    sql(format!(
        "CREATE INDEX CONCURRENTLY ON {} ({});",
        scan.relation.as_deref()?,
        columns.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::observed::plans::Work;

    fn scan(filter: Option<&str>, removed: f64) -> Node {
        Node {
            kind: "Seq Scan".into(),
            relation: Some("public.t".into()),
            actual_rows: Some(1.0),
            conditions: filter
                .map(|f| ("Filter".to_owned(), f.to_owned()))
                .into_iter()
                .collect(),
            work: Some(Work {
                removed,
                ..Work::default()
            }),
            ..Node::default()
        }
    }

    fn text(text: &str, node: &Node) -> String {
        step(text, Some(node))
            .map(|(_, text)| text)
            .unwrap_or_default()
    }

    #[test]
    fn statements_within_functions_have_remedies_of_their_own() {
        let whole = scan(None, 0.0);
        let numbered = text("SELECT max(no) + $1 FROM t", &whole);
        assert!(
            numbered.starts_with("CREATE INDEX CONCURRENTLY ON public.t (no);")
                && numbered.contains("IDENTITY"),
            "{numbered}"
        );
        assert!(text("REFRESH MATERIALIZED VIEW v", &whole).contains("CONCURRENTLY v;"));
        let found = text(
            "SELECT a FROM t WHERE b = $1",
            &scan(Some("((t.b = $1) AND (t.\"C\" > $2))"), 90_000.0),
        );
        assert_eq!(found, "CREATE INDEX CONCURRENTLY ON public.t (b);");
        assert!(
            step(
                "SELECT a FROM t WHERE b = 1",
                Some(&scan(Some("(t.b = $1)"), 5.0))
            )
            .is_none()
        );
        assert!(step("SELECT sum(a) FROM t", Some(&whole)).is_none());
    }
}
