//! Statements that lock rows of more tables than they mean to.

/// How the locking clauses of SELECT begin (manual, "SELECT": The Locking Clause).
const CLAUSES: &[&str] = &[
    " for update",
    " for no key update",
    " for share",
    " for key share",
];

/// The clause of a statement that joins tables and locks the rows of all of them, as no `OF` says which, and the name by which
/// the first of them is known.
pub fn locks_all(text: &str) -> Option<(String, String)> {
    let lower = text.to_ascii_lowercase();
    let clauses = CLAUSES.iter().filter_map(|c| Some((lower.rfind(c)?, *c)));
    let (at, clause) = clauses.max()?;
    let behind = lower[at + clause.len()..].trim_start();
    let from = lower.find(" from ")? + " from ".len();
    let tables = text.get(from..at)?;
    if behind.starts_with("of ") || !tables.to_ascii_lowercase().contains(" join ") {
        return None;
    }
    let mut words = tables.split_whitespace();
    let table = words.next()?;
    let next = words.next().unwrap_or("join");
    let name = match next.to_ascii_lowercase().as_str() {
        "as" => words.next()?,
        "join" | "inner" | "left" | "right" | "full" | "cross" | "natural" => table,
        _ => next,
    };
    // Without the schema, which the clause does not take; and no subquery, function or keyword.
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_\"".contains(c))
    };
    let parts = table.split('.').all(is_name)
        && !table.eq_ignore_ascii_case("only")
        && !table.eq_ignore_ascii_case("lateral");
    let name = name.rsplit('.').next()?;
    (parts && is_name(name)).then(|| (clause.trim().to_ascii_uppercase(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_that_locks_all_its_rows_is_known() {
        let of = |text| locks_all(text).map(|(clause, name)| format!("{clause} OF {name}"));
        let joined = "SELECT r.id FROM reservation r JOIN event e ON e.id = r.event_id WHERE r.id = $1 FOR UPDATE";
        assert_eq!(of(joined).as_deref(), Some("FOR UPDATE OF r"));
        assert_eq!(
            of("SELECT 1 FROM a JOIN b USING (id) FOR NO KEY UPDATE SKIP LOCKED").as_deref(),
            Some("FOR NO KEY UPDATE OF a")
        );
        assert_eq!(
            of("select 1 from a as x join b on true for share").as_deref(),
            Some("FOR SHARE OF x")
        );
    }

    #[test]
    fn a_schema_is_no_part_of_what_is_locked() {
        let seen = locks_all("SELECT 1 FROM public.a JOIN b ON true FOR UPDATE").unwrap();
        assert_eq!(seen.1, "a");
    }

    #[test]
    fn what_says_which_or_has_one_table_is_none() {
        for other in [
            "SELECT r.id FROM a r JOIN b e ON true WHERE r.id = $1 FOR UPDATE OF r",
            "SELECT id FROM a WHERE id = $1 FOR UPDATE",
            "SELECT r.id FROM a r JOIN b e ON true",
            "UPDATE a SET n = 1",
            "SELECT 1 FROM (SELECT id FROM a) x JOIN b ON true FOR UPDATE",
            "SELECT extract(epoch from r.at) FROM r JOIN b ON true FOR UPDATE",
            "SELECT 1 FROM ONLY a JOIN b ON true FOR UPDATE",
            "",
        ] {
            assert_eq!(locks_all(other), None, "{other}");
        }
    }
}
