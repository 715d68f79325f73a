//! What the server is asked: plain SQL that any version from 9.6 on answers, each
//! question on its own, so that one that is refused costs no other.
//!
//! Answers come as JSON rows under the view's own column names, which differ by
//! version; the rules pick what they know.

use std::collections::BTreeMap;
use std::time::Duration;

use pgassay_model::reading::Reading;
use pgassay_pgwire::{QueryError, Session};

/// A question to the server.
struct Question {
    /// Its name in the facts.
    id: &'static str,
    /// The first version, as `server_version_num`, that is asked in these words.
    from: u32,
    /// The first version that is not asked so any more.
    until: u32,
    /// A statement that returns rows.
    sql: &'static str,
}

const ANY: u32 = u32::MAX;

/// All questions. Of two with one id the version decides.
const QUESTIONS: &[Question] = &[
    Question {
        id: "role",
        from: 0,
        until: ANY,
        sql: "SELECT current_setting('is_superuser') = 'on' AS superuser, \
              EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_monitor' \
                      AND pg_has_role(oid, 'usage')) AS monitor, \
              pg_is_in_recovery() AS in_recovery, \
              quote_ident(current_user) AS name, quote_ident(current_database()) AS database",
    },
    Question {
        id: "sessions",
        from: 100_000,
        until: ANY,
        sql: "SELECT coalesce(state, '') AS state, coalesce(backend_type, '') AS backend_type, \
              count(*) AS sessions, \
              max(extract(epoch FROM clock_timestamp() - xact_start)) AS oldest_transaction_s, \
              max(extract(epoch FROM clock_timestamp() - state_change)) AS oldest_change_s \
              FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
              AND coalesce(application_name, '') <> 'pgassay observer' GROUP BY 1, 2",
    },
    Question {
        id: "sessions",
        from: 0,
        until: 100_000,
        sql: "SELECT coalesce(state, '') AS state, 'client backend' AS backend_type, \
              count(*) AS sessions, \
              max(extract(epoch FROM clock_timestamp() - xact_start)) AS oldest_transaction_s, \
              max(extract(epoch FROM clock_timestamp() - state_change)) AS oldest_change_s \
              FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
              AND coalesce(application_name, '') <> 'pgassay observer' GROUP BY 1",
    },
    // What overrules the server's files elsewhere than in this session; a value may be a secret.
    Question {
        id: "overrides",
        from: 0,
        until: ANY,
        sql: "SELECT o.database, o.role, o.function, split_part(o.pair, '=', 1) AS name, \
              CASE WHEN split_part(o.pair, '=', 1) !~ '(conninfo|password|passphrase|secret|token|command|key)' \
                   AND o.pair !~ '^[^=]*[.]' \
                   THEN substr(o.pair, strpos(o.pair, '=') + 1) END AS setting FROM ( \
              SELECT quote_ident(d.datname) AS database, quote_ident(r.rolname) AS role, NULL AS function, \
                     unnest(s.setconfig) AS pair \
              FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase \
              LEFT JOIN pg_roles r ON r.oid = s.setrole \
              UNION ALL SELECT NULL, NULL, p.oid::regprocedure::text, unnest(p.proconfig) \
              FROM pg_proc p WHERE p.proconfig IS NOT NULL) o LIMIT 500",
    },
    Question {
        id: "databases",
        from: 0,
        until: ANY,
        sql: "SELECT sum(numbackends) AS backends, sum(blks_hit) AS blks_hit, \
              sum(blks_read) AS blks_read, sum(xact_commit) AS commits, \
              sum(tup_returned) AS tup_returned, \
              sum(tup_inserted + tup_updated + tup_deleted) AS tup_written, \
              sum(temp_bytes) AS temp_bytes \
              FROM pg_stat_database",
    },
    Question {
        id: "size",
        from: 0,
        until: ANY,
        sql: "SELECT sum(pg_database_size(oid)) AS bytes FROM pg_database \
              WHERE has_database_privilege(oid, 'connect')",
    },
    // Counters outlive a restart: a rate is over the time since its own view's reset, by the server's clock.
    Question {
        id: "bgwriter",
        from: 0,
        until: ANY,
        sql: "SELECT *, extract(epoch FROM clock_timestamp() - stats_reset) AS since_reset_s \
              FROM pg_stat_bgwriter",
    },
    Question {
        id: "checkpointer",
        from: 170_000,
        until: ANY,
        sql: "SELECT *, extract(epoch FROM clock_timestamp() - stats_reset) AS since_reset_s \
              FROM pg_stat_checkpointer",
    },
    Question {
        id: "wal",
        from: 140_000,
        until: ANY,
        sql: "SELECT *, extract(epoch FROM clock_timestamp() - stats_reset) AS since_reset_s \
              FROM pg_stat_wal",
    },
    Question {
        id: "io",
        from: 160_000,
        until: ANY,
        sql: "SELECT * FROM pg_stat_io",
    },
    Question {
        id: "jit",
        from: 110_000,
        until: ANY,
        sql: "SELECT pg_jit_available() AS available",
    },
    Question {
        id: "build",
        from: 0,
        until: ANY,
        sql: "SELECT name, setting FROM pg_config",
    },
    Question {
        id: "extensions",
        from: 0,
        until: ANY,
        sql: "SELECT extname AS name, extversion AS version FROM pg_extension",
    },
    Question {
        id: "horizon",
        from: 0,
        until: ANY,
        // Whose own transaction is the oldest comes first of those with the same xmin. A parallel worker has its
        // leader's snapshot. VACUUM holds none, unless it is VACUUM FULL; 9.6 shows autovacuum by its statement only. Of
        // sessions of other roles a role without pg_read_all_stats sees what they hold, and not since when: the oldest of
        // these is a row of its own.
        sql: "SELECT * FROM ( \
              SELECT 'prepared transaction' AS kind, gid AS name, \
                     age(transaction) AS transactions, \
                     extract(epoch FROM clock_timestamp() - prepared) AS seconds, true AS own_transaction, \
                     '' AS application \
              FROM pg_prepared_xacts \
              UNION ALL SELECT CASE WHEN r.pid IS NULL THEN 'replication slot' ELSE 'standby' END, \
                     CASE WHEN r.pid IS NULL THEN s.slot_name::text ELSE r.application_name END, age(s.xmin), NULL, \
                     false, '' \
              FROM pg_replication_slots s LEFT JOIN pg_stat_replication r \
              ON r.pid = (to_json(s) ->> 'active_pid')::int AND s.plugin IS NULL WHERE s.xmin IS NOT NULL \
              UNION ALL SELECT 'standby', application_name, age(backend_xmin), NULL, false, '' \
              FROM pg_stat_replication WHERE backend_xmin IS NOT NULL \
              UNION ALL SELECT 'session', pid::text, greatest(age(backend_xmin), age(backend_xid)), \
                     extract(epoch FROM clock_timestamp() - xact_start), \
                     coalesce(age(backend_xid) >= greatest(age(backend_xmin), age(backend_xid)), false), application_name \
              FROM pg_stat_activity a \
              WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL \
                    AND pid <> pg_backend_pid() \
                    AND coalesce(application_name, '') <> 'pgassay observer' \
                    AND coalesce(query, '') !~* \
                        '^[[:space:]]*(/[*].*?[*]/[[:space:]]*)*(autovacuum:|vacuum(?![[:alnum:]_])(?![[:space:]]+full|[[:space:]]*[(][^)]*full))' \
                    AND coalesce(to_json(a) ->> 'backend_type', '') NOT IN ('parallel worker', 'autovacuum worker') \
              UNION ALL (SELECT 'hidden session', pid::text, greatest(age(backend_xmin), age(backend_xid)), NULL, \
                     false, application_name \
              FROM pg_stat_activity \
              WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NULL \
                    AND usesysid IS NOT NULL AND coalesce(state, 'disabled') = 'disabled' \
                    AND pid <> pg_backend_pid() AND pid NOT IN (SELECT pid FROM pg_stat_replication) \
                    AND coalesce(application_name, '') <> 'pgassay observer' ORDER BY 3 DESC LIMIT 1)) held \
              ORDER BY transactions DESC, kind = 'hidden session' DESC, own_transaction DESC, \
                       seconds DESC NULLS LAST LIMIT 20",
    },
    Question {
        id: "invalid_indexes",
        from: 0,
        until: ANY,
        sql: "SELECT format('%I.%I', n.nspname, x.relname) AS index, \
              format('%I.%I', n.nspname, t.relname) AS table, \
              pg_relation_size(t.oid) AS table_bytes, \
              EXISTS (SELECT FROM pg_locks l WHERE l.relation = t.oid AND l.granted \
                      AND l.mode = 'ShareUpdateExclusiveLock' AND l.pid <> pg_backend_pid() \
                      AND l.database = (SELECT oid FROM pg_database \
                                        WHERE datname = current_database())) AS table_locked \
              FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid \
              JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = x.relnamespace \
              WHERE NOT i.indisvalid AND x.relkind = 'i' ORDER BY 3 DESC LIMIT 20",
    },
    // The columns in any order, as long as an index begins with them.
    Question {
        id: "unindexed_foreign_keys",
        from: 0,
        until: ANY,
        sql: "SELECT format('%I.%I', n.nspname, t.relname) AS table, \
              (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.place) \
               FROM unnest(c.conkey) WITH ORDINALITY k(number, place) \
               JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number) AS columns, \
              c.confrelid::regclass::text AS referenced, pg_relation_size(t.oid) AS bytes, \
              pg_stat_get_tuples_deleted(c.confrelid) AS referenced_deletes \
              FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid \
              JOIN pg_namespace n ON n.oid = t.relnamespace \
              WHERE c.contype = 'f' AND t.relkind = 'r' AND NOT EXISTS ( \
                SELECT FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indisvalid \
                AND i.indpred IS NULL \
                AND (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey) \
              ORDER BY 4 DESC LIMIT 20",
    },
    Question {
        id: "dead_rows",
        from: 0,
        until: ANY,
        sql: "SELECT format('%I.%I', s.schemaname, s.relname) AS table, s.n_live_tup AS live, \
              s.n_dead_tup AS dead, \
              coalesce(c.reloptions::text ~ 'autovacuum_enabled=(off|false|no|0)', false) \
                AS switched_off \
              FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid \
              WHERE s.n_dead_tup >= 1000 ORDER BY s.n_dead_tup DESC LIMIT 20",
    },
    // Tables whose pages are mostly empty, by what their rows should take.
    Question {
        id: "empty_pages",
        from: 0,
        until: ANY,
        sql: "SELECT format('%I.%I', n.nspname, c.relname) AS table, c.relpages AS pages, \
              c.reltuples AS rows, c.relallvisible AS all_visible, s.width AS width, \
              current_setting('block_size')::int AS block_size, \
              coalesce(substring(c.reloptions::text FROM 'fillfactor=([0-9]+)')::int, 100) AS fillfactor, \
              pg_stat_get_numscans(c.oid) AS scans \
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
              JOIN LATERAL (SELECT sum(p.avg_width) AS width FROM pg_stats p \
                            WHERE p.schemaname = n.nspname AND p.tablename = c.relname) s ON true \
              WHERE c.relkind IN ('r', 'm') AND c.relpages >= 500 AND c.reltuples > 0 \
              AND s.width IS NOT NULL \
              ORDER BY c.relpages::float8 * current_setting('block_size')::int \
                       - c.reltuples * s.width DESC LIMIT 20",
    },
    // Tables that log the whole old row of each update and delete.
    Question {
        id: "identity_full",
        from: 100_000,
        until: ANY,
        sql: "SELECT format('%I.%I', n.nspname, c.relname) AS table, c.reltuples AS rows, \
              pg_table_size(c.oid) AS bytes, \
              pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid) AS changed, \
              EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) AS has_primary_key, \
              (SELECT quote_ident(x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid \
               WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate \
               AND i.indpred IS NULL AND i.indexprs IS NULL AND NOT EXISTS ( \
                 SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attnotnull \
                 AND a.attnum = ANY (i.indkey)) LIMIT 1) AS key, \
              EXISTS (SELECT FROM pg_publication p WHERE p.puballtables) \
              OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prrelid = c.oid) AS published \
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
              WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.relreplident = 'f' \
              ORDER BY 4 DESC NULLS LAST LIMIT 20",
    },
    Question {
        id: "standbys",
        from: 0,
        until: ANY,
        sql: "SELECT application_name, state, sync_state FROM pg_stat_replication",
    },
    Question {
        id: "decoders",
        from: 0,
        until: ANY,
        sql: "SELECT count(*) AS active FROM pg_replication_slots \
              WHERE slot_type = 'logical' AND active",
    },
    Question {
        id: "archiver",
        from: 0,
        until: ANY,
        // Of the command itself, which may hold a secret, only the name of what compresses.
        sql: "SELECT archived_count, failed_count, \
              coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) \
                  AS failed_last, \
              substring(current_setting('archive_command') FROM \
                  '\\m(xz|lzma|bzip2|gzip|pigz|zstd|lz4|lzop|brotli|7z)\\M') AS compressor \
              FROM pg_stat_archiver",
    },
    Question {
        id: "archive backlog",
        from: 120_000,
        until: ANY,
        sql: "SELECT count(*) AS waiting FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'",
    },
    Question {
        id: "relation locks",
        from: 0,
        until: ANY,
        sql: "SELECT count(*) FILTER (WHERE fastpath) AS fast, \
              count(*) FILTER (WHERE NOT fastpath) AS shared, \
              count(DISTINCT pid) FILTER (WHERE NOT fastpath) AS backends \
              FROM pg_locks WHERE locktype = 'relation' AND granted \
              AND mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock') \
              AND pid <> pg_backend_pid()",
    },
];

/// The settings without those that may hold a secret: their value is left out.
const SETTINGS: &str = "SELECT name, CASE WHEN name ~ \
     '(conninfo|password|passphrase|secret|token|command|key)' THEN NULL ELSE setting END \
     AS setting, unit, source, pending_restart FROM pg_settings";

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of the questions.
#[derive(Default)]
pub struct Answers {
    /// Question to its answer.
    pub readings: BTreeMap<String, Reading>,
    /// Why the session ended before all were put.
    pub lost: Option<String>,
}

/// Puts all questions. A broken connection ends it; what was answered stays.
pub fn ask(session: &mut Session) -> Answers {
    // Each question has a second in the server.
    session.set_read_timeout(Some(PATIENCE));
    let mut asking = Asking {
        session,
        lost: None,
    };
    let readings = asking.all();
    let lost = asking.lost;
    session.set_read_timeout(None);
    Answers { readings, lost }
}

/// A session under questions, and the first error that ended it.
struct Asking<'a> {
    session: &'a mut Session,
    lost: Option<String>,
}

impl Asking<'_> {
    fn all(&mut self) -> BTreeMap<String, Reading> {
        let mut answers = BTreeMap::new();
        let version = match self.value("SELECT pg_catalog.version()") {
            Ok(Some(text)) => Reading::Text(text),
            Ok(None) => Reading::Unavailable("version() is null".into()),
            Err(e) => Reading::Unavailable(e.to_string()),
        };
        answers.insert("version".to_owned(), version);
        let number: u32 = match self.value("SHOW server_version_num") {
            Ok(Some(text)) => text.parse().unwrap_or(0),
            _ => 0,
        };
        answers.insert("settings".to_owned(), self.answer(SETTINGS));
        for question in QUESTIONS {
            let reading = if (question.from..question.until).contains(&number) {
                self.answer(question.sql)
            } else if answers.contains_key(question.id)
                || QUESTIONS
                    .iter()
                    .any(|q| q.id == question.id && (q.from..q.until).contains(&number))
            {
                continue;
            } else {
                Reading::Unavailable(format!(
                    "this version has no such view (it came with {})",
                    question.from / 10_000
                ))
            };
            answers.insert(question.id.to_owned(), reading);
        }
        answers.insert("statements".to_owned(), self.statements());
        answers
    }

    /// Sums over pg_stat_statements, where the database has it. Texts of statements
    /// are not read.
    fn statements(&mut self) -> Reading {
        let schema = self.value(
            "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e \
         JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace \
         WHERE e.extname = 'pg_stat_statements'",
        );
        match schema {
            Ok(Some(schema)) => self.answer(
                // Columns differ by the extension's version; those that it lacks come as null.
                &format!(
                    "SELECT sum(calls) AS calls, \
                 sum(coalesce((j->>'total_exec_time')::float8, (j->>'total_time')::float8)) \
                     AS execution_ms, \
                 sum((j->>'jit_functions')::float8) AS jit_functions, \
                 sum((j->>'jit_generation_time')::float8 + (j->>'jit_inlining_time')::float8 \
                     + (j->>'jit_optimization_time')::float8 + (j->>'jit_emission_time')::float8) \
                     AS jit_ms \
                 FROM (SELECT calls, pg_catalog.to_jsonb(s) AS j \
                       FROM {schema}.pg_stat_statements(false) s) s"
                ),
            ),
            Ok(None) => Reading::Unavailable(
                "the extension pg_stat_statements is not in this database".to_owned(),
            ),
            Err(e) => Reading::Unavailable(e.to_string()),
        }
    }

    /// The rows of a statement as a JSON array. The settings hold for the transaction
    /// only, so that a pooler's other clients never see them.
    fn answer(&mut self, sql: &str) -> Reading {
        let wrapped = format!(
            "BEGIN READ ONLY; \
         SET LOCAL search_path = pg_catalog; \
         SET LOCAL statement_timeout = 1000; \
         SET LOCAL lock_timeout = 200; \
         SELECT coalesce(json_agg(row_to_json(q)), '[]') FROM ({sql}) q; \
         COMMIT"
        );
        match self.session.query(&wrapped) {
            Ok(results) => {
                let value = results
                    .into_iter()
                    .find_map(|result| result.rows.into_iter().next()?.into_iter().next()?);
                value.map_or_else(
                    || Reading::Unavailable("the server answered nothing".to_owned()),
                    Reading::Text,
                )
            }
            Err(error) => {
                if matches!(error, QueryError::Server(_)) {
                    let _ = self.session.execute("ROLLBACK");
                }
                self.note(&error);
                Reading::Unavailable(error.to_string())
            }
        }
    }

    fn value(&mut self, sql: &str) -> Result<Option<String>, QueryError> {
        let value = self.session.catalog_value(sql);
        if let Err(error) = &value {
            self.note(error);
        }
        value
    }

    /// Keeps why the session ended; later errors only say that it has.
    fn note(&mut self, error: &QueryError) {
        if error.is_fatal() {
            self.lost.get_or_insert_with(|| error.to_string());
        }
    }
}
