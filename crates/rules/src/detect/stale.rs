//! Tables whose statistics are older than their rows, and what keeps them new.

use pgassay_model::observed::plans::Node;

use super::is_off;
use super::shapes::At;
use crate::finding::StepKind;

/// Rows of a table that change before autovacuum analyses it, as a part of all (`autovacuum_analyze_scale_factor`).
const CHANGED: f64 = 0.1;

/// Rows that change of a small table before its statistics are old.
const FEW: f64 = 10.0;

/// A table whose statistics are not those of its rows.
pub(super) struct Stale<'a> {
    table: &'a str,
    /// Whether it was ever analysed.
    analysed: bool,
    /// Rows that changed since.
    changed: Option<f64>,
    /// Whether autovacuum is switched off for it.
    off: Option<&'a str>,
}

impl<'a> Stale<'a> {
    pub(super) fn of(at: &'a At, table: &'a str, scan: &Node) -> Option<Self> {
        let facts = at.facts(scan)?;
        let grown = at.run.table(table);
        let stands = |figure: &str| grown.and_then(|grown| grown.stands(figure));
        let changed = stands("n_mod_since_analyze");
        let had = facts.rows.unwrap_or(0.0);
        let off = facts.options.get("autovacuum_enabled");
        let off = off.filter(|value| is_off(value));
        // VACUUM counts rows, and takes no statistics.
        let analysed =
            facts.rows.is_some() && (grown.is_none() || stands("since_analyze").is_some());
        let much = changed.is_some_and(|changed| changed >= (CHANGED * had).max(FEW));
        let unkept = off.is_some() && changed.is_none_or(|changed| changed > 0.0);
        // Nobody tells when a table was analysed whose counters were reset.
        let never = !analysed && (much || facts.rows.is_none());
        (much || unkept || never).then_some(Self {
            table,
            analysed,
            changed,
            off: off.map(String::as_str),
        })
    }

    /// How old they are.
    pub(super) fn said(&self) -> String {
        let Self { table, .. } = self;
        let mut said = match (self.analysed, self.changed) {
            (false, _) => format!("nothing tells that {table} was ever analysed"),
            (true, Some(changed)) => {
                format!("statistics of {table} are old: {changed:.0} of its rows changed since")
            }
            (true, None) => format!("statistics of {table} may be old"),
        };
        if let Some(value) = self.off {
            said += &format!("; autovacuum_enabled = {value} there, so that nobody takes new ones");
        }
        said
    }

    /// What keeps them new.
    pub(super) fn kept(&self) -> (StepKind, String) {
        match self.off {
            Some(_) => (
                StepKind::Sql,
                format!(
                    "ALTER TABLE {} RESET (autovacuum_enabled);   -- and ANALYZE at the end of what loads it",
                    self.table
                ),
            ),
            None => (
                StepKind::Advice,
                "have what loads or changes many rows end with ANALYZE of the table: autovacuum comes only when a part of all its rows has \
                 changed (autovacuum_analyze_scale_factor, a tenth)"
                    .to_owned(),
            ),
        }
    }
}
