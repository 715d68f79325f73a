//! What the server counts of its log and of its checkpoints, by version.

use pgassay_model::reading::Reading;

use super::{Scene, major_version};

/// The row that counts checkpoints, as JSON: of pg_stat_checkpointer from 17 on, of
/// pg_stat_bgwriter before.
pub(super) fn checkpoints(scene: &mut Scene) -> Reading {
    row(scene, |major| {
        let view = match major {
            Some(17..) => "pg_stat_checkpointer",
            _ => "pg_stat_bgwriter",
        };
        format!("SELECT pg_catalog.row_to_json(c) FROM pg_catalog.{view} c")
    })
}

/// The row of pg_stat_wal as JSON, which came with 14, and in it as `lsn` how many bytes of
/// log were ever inserted: that is exact at once, where backends report what they count up to
/// a second late. A standby inserts none.
pub(super) fn wal(scene: &mut Scene) -> Reading {
    row(scene, |major| {
        let position = match major {
            Some(..10) => "pg_current_xlog_insert_location",
            _ => "pg_current_wal_insert_lsn",
        };
        // Views of statistics have no column of this name.
        let (counted, from) = match major {
            Some(14..) => ("w.*, ", " FROM pg_catalog.pg_stat_wal w"),
            _ => ("", ""),
        };
        format!(
            "SELECT pg_catalog.row_to_json(r) FROM (SELECT {counted}CASE WHEN \
             pg_catalog.pg_is_in_recovery() THEN NULL ELSE \
             pg_catalog.{position}() - '0/0'::pg_catalog.pg_lsn END AS lsn{from}) r"
        )
    })
}

/// The only row and column of a statement that the server's major version decides.
fn row(scene: &mut Scene, statement: impl Fn(Option<u32>) -> String) -> Reading {
    let Some(session) = &mut scene.session else {
        return Reading::Unavailable("no session to ask".to_owned());
    };
    let sql = statement(major_version(session));
    match session.catalog_value(&sql) {
        Ok(Some(row)) => Reading::Text(row),
        Ok(None) => Reading::Unavailable("the server counts nothing of the kind".to_owned()),
        Err(e) => Reading::Unavailable(e.to_string()),
    }
}
