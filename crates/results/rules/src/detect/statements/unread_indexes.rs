//! Indexes that nothing has read since their counters began: what is checked before they are dropped.

use crate::finding::StepKind;

/// The steps for these indexes. Counters may have been reset yesterday, and those of this server know nothing of what its
/// standbys read.
pub fn steps<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(StepKind, String)> {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        return Vec::new();
    }
    let literals = names
        .iter()
        .map(|name| format!("'{}'", name.replace('\'', "''")));
    let literals = literals.collect::<Vec<_>>().join(", ");
    let drops = names
        .iter()
        .map(|name| format!("DROP INDEX CONCURRENTLY {name};"));
    let drops = drops.collect::<Vec<_>>().join(" ");
    vec![
        (
            StepKind::Sql,
            format!(
                "SELECT s.indexrelid::regclass, s.idx_scan, d.stats_reset FROM pg_stat_user_indexes s, pg_stat_database d WHERE \
                 d.datname = current_database() AND s.indexrelid = ANY (ARRAY[{literals}]::regclass[]);   -- here and on each standby: \
                 was it read since, and does that time cover all that the application does"
            ),
        ),
        (
            StepKind::Advice,
            format!("if it is read nowhere, and enforces nothing: {drops}"),
        ),
    ]
}
