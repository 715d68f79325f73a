//! Commands that take a lock in the way of ordinary statements, and the forms of them that lock less.

/// Commands that take a lock in the way of ordinary statements, and what locks less; the first that a
/// statement begins with counts.
const GENTLER: &[(&str, &str)] = &[
    (
        "REFRESH MATERIALIZED VIEW",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY, which lets readers go on: it needs a unique index over columns of the \
         view, without a condition; and refresh less often",
    ),
    (
        "CREATE UNIQUE INDEX",
        "CREATE UNIQUE INDEX CONCURRENTLY, which lets writers go on",
    ),
    (
        "CREATE INDEX",
        "CREATE INDEX CONCURRENTLY, which lets writers go on",
    ),
    ("DROP INDEX", "DROP INDEX CONCURRENTLY"),
    (
        "REINDEX",
        "REINDEX … CONCURRENTLY (from 12 on), which lets readers and writers go on",
    ),
    (
        "VACUUM",
        "VACUUM without FULL, which lets readers and writers go on; where the file must shrink, pg_repack, or REPACK \
         CONCURRENTLY from 19 on",
    ),
    (
        "CLUSTER",
        "pg_repack, which rewrites the table beside it and locks it for a moment",
    ),
    (
        "TRUNCATE",
        "DELETE where readers must go on, or a partition that is dropped; and TRUNCATE as the last statement of a short \
         transaction",
    ),
    (
        "CREATE TRIGGER",
        "create triggers in a short transaction of their own: the lock is held until it ends",
    ),
    (
        "DROP",
        "drop in a short transaction of its own: the lock is held until it ends; partitions by DETACH PARTITION … \
         CONCURRENTLY first (from 14 on)",
    ),
    (
        "ALTER TABLE",
        "the form that locks less: ADD CONSTRAINT … NOT VALID and then VALIDATE, ADD COLUMN without a volatile default, \
         SET NOT NULL behind a validated CHECK, DETACH PARTITION … CONCURRENTLY; in a transaction of its own",
    ),
];

/// Whether a statement begins with these words.
fn begins(statement: &str, words: &str) -> bool {
    let mut own = statement.split_whitespace();
    words
        .split(' ')
        .all(|word| own.next().is_some_and(|own| own.eq_ignore_ascii_case(word)))
}

/// What locks less than a statement does; none where nothing is known to, or it is of that kind itself.
pub fn gentler(statement: &str) -> Option<&'static str> {
    // One that already is of the kind that locks less is held up by something else.
    let concurrent = statement
        .split_whitespace()
        .any(|word| word.eq_ignore_ascii_case("CONCURRENTLY"));
    let mut known = GENTLER.iter();
    let found = known.find(|(command, _)| begins(statement, command));
    found.filter(|_| !concurrent).map(|(_, gentler)| *gentler)
}

/// The command of a statement, in the words that are known of it; empty for others.
pub fn command(statement: &str) -> &'static str {
    let mut known = GENTLER.iter();
    known
        .find(|(command, _)| begins(statement, command))
        .map_or("", |(command, _)| command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_its_first_words() {
        assert_eq!(
            command("refresh  materialized view v"),
            "REFRESH MATERIALIZED VIEW"
        );
        assert_eq!(
            command("CREATE UNIQUE INDEX ON t (a)"),
            "CREATE UNIQUE INDEX"
        );
        assert_eq!(command("CREATE TABLE t ()"), "");
        assert!(gentler("DROP INDEX i").is_some_and(|g| g.contains("CONCURRENTLY")));
        assert_eq!(gentler("DROP INDEX CONCURRENTLY i"), None);
        assert_eq!(gentler("SELECT 1"), None);
    }
}
