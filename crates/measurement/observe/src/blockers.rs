//! Who holds up the sessions that wait for locks. The question takes all partitions of the lock
//! table for a moment, once for each session that waits: so it is put seldom, and for few of them.

use std::time::{Duration, Instant};

use pgassay_model::observed::blockers::{Holder, NOTIFY};
use pgassay_pgwire::Session;

use pgassay_text::normalise::normalise;

/// How often it is asked at most.
const PERIOD: Duration = Duration::from_millis(400);
/// Sessions that wait of which it is asked.
const ASKED: u32 = 20;
/// A look that takes longer is the last one.
const TOO_LONG: Duration = Duration::from_millis(100);

/// What a session waits to lock, in words. An object of another database has no name here, and before 14
/// the function that describes objects fails for one that is gone.
fn locked(major: u32) -> String {
    let described = match major {
        14.. => "pg_describe_object(l.classid, l.objid, l.objsubid::int)",
        _ => "l.classid::regclass || ' ' || l.objid",
    };
    format!(
        "CASE WHEN l.locktype = 'object' AND l.database = 0 AND l.objid = 0 \
           AND l.classid = 'pg_database'::regclass THEN '{NOTIFY}' \
         WHEN l.database NOT IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) \
           THEN l.locktype || ' of another database' \
         WHEN l.locktype = 'relation' THEN (SELECT format('%I.%I', n.nspname, c.relname) \
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = l.relation) \
         WHEN l.locktype = 'object' THEN {described} END"
    )
}

/// Whom those first in line wait for. `pg_blocking_pids` gives 0 for a prepared transaction. Only one of
/// those who wait for a row waits for the transaction that holds it, so these come first.
fn question(major: u32) -> String {
    let locked = locked(major);
    format!(
        "WITH waiting AS (SELECT pid, wait_event FROM pg_stat_get_activity(NULL) \
           WHERE wait_event_type = 'Lock' AND wait_event <> 'extend' \
           ORDER BY wait_event <> 'transactionid' LIMIT {ASKED}), \
         wanted AS (SELECT DISTINCT ON (l.pid) l.pid, {locked} AS object FROM pg_locks l \
           WHERE NOT l.granted AND l.locktype IN ('relation', 'object') \
           AND l.pid IN (SELECT pid FROM waiting)), \
         pairs AS (SELECT w.wait_event AS awaited, coalesce(o.object, '') AS object, b.pid \
           FROM waiting w LEFT JOIN wanted o ON o.pid = w.pid, unnest(pg_blocking_pids(w.pid)) b(pid)), \
         held AS (SELECT pid, max(mode) FILTER (WHERE mode = 'AccessExclusiveLock') AS whole, max(mode) AS strong \
           FROM pg_locks WHERE granted AND locktype = 'relation' AND pid IN (SELECT pid FROM pairs) \
           AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') GROUP BY 1) \
         SELECT p.awaited, CASE WHEN p.pid = 0 THEN 'prepared transaction' ELSE coalesce(a.state, '') END, \
           coalesce(a.wait_event_type || ':' || a.wait_event, ''), coalesce(a.query, ''), \
           coalesce(a.application_name, ''), coalesce(h.whole, h.strong, ''), count(*), \
           max(extract(epoch FROM clock_timestamp() - a.xact_start)), p.object \
         FROM pairs p LEFT JOIN pg_stat_get_activity(NULL) a ON a.pid = p.pid \
         LEFT JOIN held h ON h.pid = p.pid \
         WHERE p.pid = 0 OR a.pid IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6, p.object"
    )
}

/// When it is asked next, if at all.
#[derive(Debug)]
pub struct Looking {
    next: Option<Instant>,
}

impl Default for Looking {
    fn default() -> Self {
        Self {
            next: Some(Instant::now()),
        }
    }
}

impl Looking {
    /// Whether to ask now.
    pub fn is_due(&self) -> bool {
        self.next.is_some_and(|next| Instant::now() >= next)
    }

    /// Asks who holds whom up.
    ///
    /// # Errors
    /// Why it can't be known; it is not asked again.
    pub fn ask(&mut self, session: &mut Session) -> Result<Vec<Holder>, String> {
        let begun = Instant::now();
        self.next = None;
        let before = format!(
            "{}SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = 1000; ",
            session.uncompiled()
        );
        let question = question(session.major().unwrap_or(0));
        let results = session.read_only(&before, &question);
        let results = results.map_err(|error| error.to_string())?;
        let took = begun.elapsed();
        if took < TOO_LONG {
            self.next = Some(begun + PERIOD.max(40 * took));
        }
        let rows = results.into_iter().find(|r| !r.columns.is_empty());
        Ok(rows.map_or_else(Vec::new, |r| {
            r.rows.into_iter().filter_map(holder).collect()
        }))
    }
}

fn holder(row: Vec<Option<String>>) -> Option<Holder> {
    let [
        awaited,
        state,
        waits_at,
        query,
        application,
        mode,
        pairs,
        oldest,
        object,
    ] = <[Option<String>; 9]>::try_from(row).ok()?;
    Some(Holder {
        awaited: awaited?,
        object: object?,
        state: state?,
        waits_at: waits_at?,
        statement: normalise(&query?).text,
        application: application?,
        mode: mode?,
        pairs: pairs?.parse().ok()?,
        oldest_s: oldest.and_then(|seconds| seconds.parse().ok()),
    })
}
