//! What the server's own counters grow by over a window, beyond those of the samplers: the rows of
//! statistics views, of which only those that grew are kept.

use std::collections::BTreeMap;
use std::time::Instant;

use pgassay_model::observed::growth::{Grown, GrowthRecord, HoldsHorizon};
use pgassay_pgwire::{ResultSet, Session};
use pgassay_text::normalise::normalise;
use pgassay_text::own::OBSERVER;

/// Rows of a view that are kept.
const KEPT: usize = 30;

/// A statistics view.
struct View {
    /// Where its growth goes.
    of: fn(&mut GrowthRecord) -> &mut Vec<Grown>,
    /// What it is called where it can't be read.
    title: &'static str,
    /// The first version that has it.
    from: u32,
    /// Its rows: `name`, maybe `of`, and whatever counts.
    sql: &'static str,
    /// Counters by which the busiest rows are told.
    weight: &'static [&'static str],
}

const VIEWS: &[View] = &[
    View {
        of: |record| &mut record.tables,
        title: "tables",
        from: 0,
        sql: "SELECT format('%I.%I', s.schemaname, s.relname) AS name, s.*, i.heap_blks_read, \
              i.heap_blks_hit, i.idx_blks_read, i.idx_blks_hit, i.toast_blks_read, \
              i.toast_blks_hit, c.relpages, c.reltuples, c.relallvisible, t.relpages AS toast_pages, \
              (c.relreplident = 'f')::int AS identity_full, \
              extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)) AS since_vacuum, \
              extract(epoch FROM clock_timestamp() - greatest(s.last_analyze, s.last_autoanalyze)) AS since_analyze \
              FROM pg_stat_user_tables s JOIN pg_statio_user_tables i USING (relid) \
              JOIN pg_class c ON c.oid = s.relid LEFT JOIN pg_class t ON t.oid = c.reltoastrelid",
        weight: &[
            "heap_blks_read",
            "heap_blks_hit",
            "idx_blks_read",
            "idx_blks_hit",
            "n_tup_ins",
            "n_tup_upd",
            "n_tup_del",
        ],
    },
    View {
        of: |record| &mut record.indexes,
        title: "indexes",
        from: 0,
        sql: "SELECT format('%I.%I', s.schemaname, s.indexrelname) AS name, \
              format('%I.%I', s.schemaname, s.relname) AS of, s.idx_scan, s.idx_tup_read, \
              s.idx_tup_fetch, i.idx_blks_read, i.idx_blks_hit, c.relpages, c.reltuples \
              FROM pg_stat_user_indexes s JOIN pg_statio_user_indexes i USING (indexrelid) \
              JOIN pg_class c ON c.oid = s.indexrelid",
        weight: &["idx_blks_read", "idx_blks_hit"],
    },
    View {
        of: |record| &mut record.slru,
        title: "SLRU caches",
        from: 130_000,
        sql: "SELECT * FROM pg_stat_slru",
        weight: &["blks_read", "blks_written"],
    },
    View {
        of: |record| &mut record.functions,
        title: "functions",
        from: 0,
        sql: "SELECT format('%I.%I', schemaname, funcname) AS name, sum(calls) AS calls, \
              sum(total_time) AS total_time, sum(self_time) AS self_time \
              FROM pg_stat_user_functions GROUP BY 1",
        weight: &["self_time"],
    },
    View {
        of: |record| &mut record.catalogs,
        title: "catalogues",
        from: 0,
        sql: "SELECT s.relname AS name, s.n_tup_ins, s.n_tup_upd, s.n_tup_del, s.n_live_tup, \
              s.n_dead_tup, i.heap_blks_hit, i.heap_blks_read, c.relpages, c.reltuples, c.relallvisible \
              FROM pg_stat_sys_tables s JOIN pg_statio_sys_tables i USING (relid) \
              JOIN pg_class c ON c.oid = s.relid WHERE s.schemaname = 'pg_catalog'",
        weight: &[
            "n_tup_ins",
            "n_tup_upd",
            "n_tup_del",
            "heap_blks_hit",
            "heap_blks_read",
        ],
    },
];

/// Columns of figures that are no counters: how a row stands.
const STATE: &[&str] = &[
    "n_live_tup",
    "n_dead_tup",
    "n_mod_since_analyze",
    "n_ins_since_vacuum",
    "relpages",
    "reltuples",
    "relallvisible",
    "toast_pages",
    "identity_full",
    "since_vacuum",
    "since_analyze",
];
/// Columns that only name something.
const NAMES: &[&str] = &["name", "of", "relid", "schemaname", "relname"];

/// What keeps dead rows: sessions' snapshots and transactions, prepared transactions, slots, and standbys that report
/// their oldest snapshot (hot_standby_feedback), by a slot or without one. A statement that has just begun keeps
/// none that count, and vacuum is no session whose snapshot keeps rows, unless it is VACUUM FULL; the server calls
/// autovacuum's statements so. Of sessions of other roles a role without pg_read_all_stats sees what they hold, and neither
/// since when nor their statement: the oldest of these is a row of its own (`hidden session`). A session of another database holds rows here only
/// by its transaction's id, which is the xmin of snapshots that are taken meanwhile. A parallel worker has its leader's
/// snapshot. Whose own transaction is the oldest comes first of those with the same xmin. The last column is what it
/// holds, of a session in which transaction. Slots of 9.4 do not show who reads them. (pg_stat_replication would go through
/// all sessions each time that it is named.)
fn horizon() -> String {
    format!(
        "WITH senders AS (SELECT a.pid, a.application_name, a.backend_xmin \
    FROM pg_stat_get_wal_senders() w, pg_stat_get_activity(w.pid) a), \
    sessions AS (SELECT a.*, CASE WHEN datid <> (SELECT oid FROM pg_database WHERE datname = current_database()) \
      THEN NULL ELSE backend_xmin END AS xmin FROM pg_stat_get_activity(NULL) a WHERE pid <> pg_backend_pid() \
      AND coalesce(query, '') !~* '^[[:space:]]*(/[*].*?[*]/[[:space:]]*)*(autovacuum:|vacuum(?![[:alnum:]_])(?![[:space:]]+full|[[:space:]]*[(][^)]*full))' \
      AND coalesce(to_json(a) ->> 'backend_type', '') <> 'parallel worker' \
      AND coalesce(application_name, '') <> '{OBSERVER}') SELECT * FROM ( \
    SELECT 'session' AS kind, pid::text AS name, greatest(age(xmin), age(backend_xid)) AS transactions, \
      extract(epoch FROM clock_timestamp() - xact_start) AS seconds, state, application_name AS application, \
      query AS statement, false AS catalogs_only, coalesce(age(backend_xid) >= greatest(age(xmin), age(backend_xid)), \
      false) AS own_transaction, concat_ws('/', xact_start, CASE WHEN age(backend_xid) >= greatest(age(xmin), \
      age(backend_xid)) THEN backend_xid ELSE xmin END) AS holds \
    FROM sessions WHERE (xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL \
    UNION ALL (SELECT 'hidden session', pid::text, greatest(age(xmin), age(backend_xid)), NULL, '', application_name, '', \
      false, false, concat_ws('/', xmin, backend_xid) FROM sessions WHERE (xmin IS NOT NULL OR backend_xid IS NOT NULL) \
      AND xact_start IS NULL AND usesysid IS NOT NULL AND coalesce(state, 'disabled') = 'disabled' \
      AND pid NOT IN (SELECT pid FROM senders) ORDER BY 3 DESC LIMIT 1) \
    UNION ALL SELECT 'prepared transaction', gid, age(transaction), \
      extract(epoch FROM clock_timestamp() - prepared), '', '', '', false, true, transaction::text FROM pg_prepared_xacts \
    UNION ALL SELECT CASE WHEN r.pid IS NULL OR s.plugin IS NOT NULL THEN 'replication slot' ELSE 'standby' END, \
      CASE WHEN r.pid IS NULL OR s.plugin IS NOT NULL THEN s.slot_name::text ELSE r.application_name END, \
      greatest(age(s.xmin), age(s.catalog_xmin)), NULL, CASE WHEN s.active THEN 'active' ELSE 'inactive' END, '', \
      s.plugin::text, s.xmin IS NULL, false, concat_ws('/', s.xmin, s.catalog_xmin) \
      FROM pg_replication_slots s LEFT JOIN senders r ON r.pid = (to_json(s) ->> 'active_pid')::int \
      WHERE s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL \
    UNION ALL SELECT 'standby', application_name, age(backend_xmin), NULL, '', '', '', false, false, backend_xmin::text \
      FROM senders WHERE backend_xmin IS NOT NULL) held \
    ORDER BY transactions DESC, kind = 'hidden session' DESC, own_transaction DESC, seconds DESC NULLS LAST LIMIT 10"
    )
}

type Rows = BTreeMap<String, (Option<String>, BTreeMap<String, f64>)>;

/// What stood in the views at the beginning of a window.
#[derive(Debug)]
pub struct Stood {
    at: Instant,
    statements: Result<Rows, String>,
    views: Vec<Result<Rows, String>>,
    /// With what each holds.
    horizon: Result<Vec<(HoldsHorizon, String)>, String>,
}

impl Stood {
    /// Reads all views.
    pub fn read(session: &mut Session) -> Self {
        let version = number(session);
        Self {
            at: Instant::now(),
            statements: statements(session),
            views: VIEWS
                .iter()
                .map(|view| match version {
                    Some(version) if version < view.from => Ok(Rows::new()),
                    _ => ask(session, view.sql),
                })
                .collect(),
            horizon: answer(session, &horizon()).map(|answer| held(answer.unwrap_or_default())),
        }
    }

    /// What the rows grew by until now.
    pub fn until(self, now: Self) -> GrowthRecord {
        let mut record = GrowthRecord {
            elapsed_ns: now.at.duration_since(self.at).as_nanos() as u64,
            ..GrowthRecord::default()
        };
        match (self.statements, now.statements) {
            (Ok(then), Ok(now)) => {
                record.statements = grown(&then, now, &["total_exec_time", "total_time"]);
            }
            (Err(why), _) | (_, Err(why)) => record.unread.push(why),
        }
        match (self.horizon, now.horizon) {
            (Ok(then), Ok(now)) => record.horizon = since(&then, now),
            (Err(why), _) | (_, Err(why)) => {
                record.unread.push(format!("what holds dead rows: {why}"));
            }
        }
        let views = self.views.into_iter().zip(now.views);
        for (view, (then, now)) in VIEWS.iter().zip(views) {
            match (then, now) {
                (Ok(then), Ok(now)) => *(view.of)(&mut record) = grown(&then, now, view.weight),
                (Err(why), _) | (_, Err(why)) => {
                    record
                        .unread
                        .push(format!("counters of {}: {why}", view.title));
                }
            }
        }
        record
    }
}

fn number(session: &mut Session) -> Option<u32> {
    session.value("SHOW server_version_num").ok()??.parse().ok()
}

/// Sums of pg_stat_statements by the statement's number, of this database; none where the extension is not in it. Texts are
/// not read: with many long ones that takes long, and writes temporary files.
fn statements(session: &mut Session) -> Result<Rows, String> {
    let schema = column(
        session,
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
         WHERE e.extname = 'pg_stat_statements'",
    )?;
    let Some(schema) = schema.first() else {
        return Ok(Rows::new());
    };
    const WANTED: &str = "'calls', 'total_exec_time', 'total_time', 'plans', 'total_plan_time', \
                          'rows', 'shared_blks_hit', 'shared_blks_read', 'temp_blks_written', \
                          'wal_bytes'";
    // Columns differ by the extension's version.
    let columns = column(
        session,
        &format!(
            "SELECT attname FROM pg_attribute WHERE attrelid = '{schema}.pg_stat_statements'::regclass \
             AND attname IN ({WANTED})"
        ),
    )?;
    let sums: Vec<String> = columns
        .iter()
        .map(|name| format!("sum({name}) AS {name}"))
        .collect();
    ask(
        session,
        &format!(
            "SELECT queryid AS name, {} FROM {schema}.pg_stat_statements(false) \
             WHERE queryid IS NOT NULL AND dbid = (SELECT oid FROM pg_database \
             WHERE datname = current_database()) GROUP BY 1",
            sums.join(", ")
        ),
    )
    .map_err(|why| format!("counters of statements: {why}"))
}

/// A question's rows.
fn ask(session: &mut Session, sql: &str) -> Result<Rows, String> {
    Ok(answer(session, sql)?.map(rows).unwrap_or_default())
}

fn answer(session: &mut Session, sql: &str) -> Result<Option<ResultSet>, String> {
    let before = format!(
        "{}SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = 3000; SET LOCAL lock_timeout = 200; ",
        session.uncompiled()
    );
    let results = session.ask_again(&before, sql);
    let mut results = results.map_err(|error| error.to_string())?.into_iter();
    Ok(results.find(|result| !result.columns.is_empty()))
}

/// The first column of an answer.
fn column(session: &mut Session, sql: &str) -> Result<Vec<String>, String> {
    let found = answer(session, sql)?
        .map(|answer| answer.rows)
        .unwrap_or_default();
    let first = found.into_iter().filter_map(|row| row.into_iter().next()?);
    Ok(first.collect())
}

/// What holds the horizon, and whether it held the same before.
fn since(then: &[(HoldsHorizon, String)], now: Vec<(HoldsHorizon, String)>) -> Vec<HoldsHorizon> {
    let from_before = |held: &HoldsHorizon, what: &str| {
        let same = |(before, of): &(HoldsHorizon, String)| {
            before.kind == held.kind && before.name == held.name && of == what
        };
        then.iter().any(same)
    };
    let all = now.into_iter().map(|(held, what)| HoldsHorizon {
        from_before: from_before(&held, &what),
        ..held
    });
    all.collect()
}

fn held(answer: ResultSet) -> Vec<(HoldsHorizon, String)> {
    let one = |row: Vec<Option<String>>| {
        let [
            kind,
            name,
            transactions,
            seconds,
            state,
            application,
            statement,
            catalogs_only,
            own_transaction,
            holds,
        ] = <[Option<String>; 10]>::try_from(row).ok()?;
        let held = HoldsHorizon {
            kind: kind?,
            name: name?,
            transactions: transactions?.parse().ok()?,
            seconds: seconds.and_then(|seconds| seconds.parse().ok()),
            state: state.unwrap_or_default(),
            application: application.unwrap_or_default(),
            statement: normalise(&statement.unwrap_or_default()).text,
            catalogs_only: catalogs_only.as_deref() == Some("t"),
            own_transaction: own_transaction.as_deref() == Some("t"),
            from_before: false,
        };
        Some((held, holds.unwrap_or_default()))
    };
    answer.rows.into_iter().filter_map(one).collect()
}

fn rows(answer: ResultSet) -> Rows {
    let at = |name: &str| answer.columns.iter().position(|column| column == name);
    let (name, of) = (at("name"), at("of"));
    let figures = |row: &[Option<String>]| -> BTreeMap<String, f64> {
        let columns = answer.columns.iter().zip(row);
        columns
            .filter(|(column, _)| !NAMES.contains(&column.as_str()))
            .filter_map(|(column, value)| Some((column.clone(), value.as_ref()?.parse().ok()?)))
            .collect()
    };
    answer
        .rows
        .iter()
        .filter_map(|row| {
            let named = |at: Option<usize>| row.get(at?)?.clone();
            Some((named(name)?, (named(of), figures(row))))
        })
        .collect()
}

/// The rows that grew, the busiest first. One that was not there before began at nothing; one
/// whose counters went back was reset.
fn grown(then: &Rows, now: Rows, weight: &[&str]) -> Vec<Grown> {
    let mut rows: Vec<Grown> = now
        .into_iter()
        .filter_map(|(name, (of, figures))| {
            let before = then.get(&name).map(|(_, figures)| figures);
            let mut row = Grown {
                name,
                of,
                ..Grown::default()
            };
            for (column, value) in figures {
                if STATE.contains(&column.as_str()) {
                    row.state.insert(column, value);
                    continue;
                }
                let stood = before.and_then(|before| before.get(&column));
                let by = value - stood.copied().unwrap_or(0.0);
                if by > 0.0 {
                    row.grown.insert(column, by);
                }
            }
            (!row.grown.is_empty()).then_some(row)
        })
        .collect();
    let weight = |row: &Grown| weight.iter().map(|counter| row.by(counter)).sum::<f64>();
    rows.sort_by(|a, b| {
        let by_weight = weight(b).total_cmp(&weight(a));
        by_weight.then_with(|| a.name.cmp(&b.name))
    });
    rows.truncate(KEPT);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, &str, &str)]) -> Rows {
        self::rows(ResultSet {
            columns: ["name", "relid", "idx_scan", "n_dead_tup", "last_vacuum"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows
                .iter()
                .map(|(name, scans, dead)| {
                    let text = |text: &str| Some(text.to_owned());
                    vec![
                        text(name),
                        text("77"),
                        text(scans),
                        text(dead),
                        text("2026-11-22"),
                    ]
                })
                .collect(),
            tag: String::new(),
        })
    }

    #[test]
    fn vacuum_is_no_holder_and_hidden_sessions_come_first() {
        let sql = horizon();
        // With standard_conforming_strings = off a backslash in a literal would be an escape.
        assert!(!sql.contains('\\'), "{sql}");
        for words in [
            "(autovacuum:|vacuum(?!",
            "'hidden session' DESC, own_transaction DESC",
            "xact_start IS NULL AND usesysid IS NOT NULL",
        ] {
            assert!(sql.contains(words), "{words}: {sql}");
        }
    }

    #[test]
    fn what_held_the_same_before_is_told_from_what_has_moved_on() {
        let row = |name: &str, xmin: &str| {
            let standby = HoldsHorizon {
                kind: "standby".into(),
                name: name.into(),
                ..HoldsHorizon::default()
            };
            (standby, xmin.to_owned())
        };
        let then = [row("a", "740"), row("b", "740")];
        let now = since(
            &then,
            vec![row("a", "740"), row("b", "741"), row("c", "740")],
        );
        let before: Vec<bool> = now.iter().map(|held| held.from_before).collect();
        assert_eq!(before, [true, false, false]);
    }

    #[test]
    fn what_grew_is_kept_and_what_did_not_is_left_out() {
        let then = table(&[("a.x", "10", "5"), ("a.y", "10", "5"), ("a.z", "9", "5")]);
        let now = table(&[
            ("a.x", "12", "7"),
            ("a.y", "10", "9"),
            ("a.z", "3", "0"),
            ("a.n", "4", "0"),
        ]);
        let grown = grown(&then, now, &["idx_scan"]);
        let seen: Vec<(&str, f64)> = grown
            .iter()
            .map(|row| (row.name.as_str(), row.by("idx_scan")))
            .collect();
        assert_eq!(seen, [("a.n", 4.0), ("a.x", 2.0)]);
        assert_eq!(grown[1].stands("n_dead_tup"), Some(7.0));
        assert_eq!(grown[1].grown.len(), 1, "{grown:?}");
    }
}
