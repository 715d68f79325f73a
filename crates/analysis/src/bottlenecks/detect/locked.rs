//! Statements that lock rows of more tables than they mean to.

/// How the locking clauses of SELECT begin (manual, "SELECT": The Locking Clause).
const CLAUSES: &[&str] = &[
    " for update",
    " for no key update",
    " for share",
    " for key share",
];

/// The first table's name in a statement that joins tables and locks the rows of all of them, as no `OF` says which; the
/// alias, if it has one.
pub(super) fn locks_all(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (at, clause) = CLAUSES
        .iter()
        .filter_map(|c| Some((lower.rfind(c)?, *c)))
        .max()?;
    let behind = lower[at + clause.len()..].trim_start();
    let from = lower.find(" from ")? + " from ".len();
    let joins = lower
        .get(from..at)
        .is_some_and(|tables| tables.contains(" join "));
    if behind.starts_with("of ") || !joins {
        return None;
    }
    let mut words = text[from..at].split_whitespace();
    let table = words.next()?;
    let next = words.next().unwrap_or("join");
    let alias = match next.to_ascii_lowercase().as_str() {
        "as" => words.next()?,
        "join" | "inner" | "left" | "right" | "full" | "cross" | "natural" => table,
        _ => next,
    };
    Some(alias.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_that_locks_all_its_rows_is_known() {
        let of = |text| locks_all(text);
        let joined = "SELECT r.id FROM reservation r JOIN event e ON e.id = r.event_id WHERE r.id = $1 FOR UPDATE";
        assert_eq!(of(joined).as_deref(), Some("r"));
        assert_eq!(
            of("SELECT 1 FROM a JOIN b USING (id) FOR NO KEY UPDATE SKIP LOCKED").as_deref(),
            Some("a")
        );
        assert_eq!(
            of("select 1 from a as x join b on true for share").as_deref(),
            Some("x")
        );
    }

    #[test]
    fn what_says_which_or_has_one_table_is_none() {
        for other in [
            "SELECT r.id FROM a r JOIN b e ON true WHERE r.id = $1 FOR UPDATE OF r",
            "SELECT id FROM a WHERE id = $1 FOR UPDATE",
            "SELECT r.id FROM a r JOIN b e ON true",
            "UPDATE a SET n = 1",
            "",
        ] {
            assert_eq!(locks_all(other), None, "{other}");
        }
    }
}
