//! What the catalogues say of the tables of a plan: columns, types, indexes, triggers, what refers to them.

use std::collections::BTreeMap;

use pgassay_model::observed::plans::{Plan, RelationFacts};
use pgassay_text::quote::quote_literal;

use super::catalogues::Catalogues;

/// What is asked about.
pub(super) const TABLES: &str = "tables of its plan";
/// Bytes from which on a column is wide.
const WIDE: u32 = 100;

/// The tables of a plan by their names.
pub(super) fn relations(
    catalogues: &mut Catalogues<'_>,
    plan: &Plan,
) -> BTreeMap<String, RelationFacts> {
    let all = plan.root.all();
    let mut names: Vec<&str> = all
        .iter()
        .filter_map(|(_, n)| n.relation.as_deref())
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return BTreeMap::new();
    }
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("({})", quote_literal(name)))
        .collect();
    let parted = Partitions::of(catalogues.session.major());
    let answer = catalogues.value(
        TABLES,
        &format!(
            "SELECT pg_catalog.json_object_agg(v.name, pg_catalog.json_build_object( \
               'rows', CASE WHEN c.reltuples > 0 THEN c.reltuples END, 'pages', c.relpages, \
               'partition_of', CASE WHEN p.inhparent IS NOT NULL THEN \
                 pg_catalog.json_build_array(p.inhparent::pg_catalog.regclass::text, \
                   (SELECT count(*) FROM pg_catalog.pg_inherits s WHERE s.inhparent = p.inhparent)) \
                 END, \
               'partition_key', {key}, \
               'columns', coalesce((SELECT pg_catalog.json_agg(a.attname) \
                 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
                 AND NOT a.attisdropped), '[]'), \
               'texts', coalesce((SELECT pg_catalog.json_agg(a.attname) \
                 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
                 AND a.atttypid IN ('text'::pg_catalog.regtype, 'varchar'::pg_catalog.regtype, \
                   'bpchar'::pg_catalog.regtype)), '[]'), \
               'types', coalesce((SELECT pg_catalog.json_object_agg(a.attname, \
                   pg_catalog.format_type(a.atttypid, NULL)) \
                 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
                 AND NOT a.attisdropped), '{{}}'), \
               'options', coalesce((SELECT pg_catalog.json_object_agg(pg_catalog.split_part(o, '=', 1), \
                   pg_catalog.split_part(o, '=', 2)) FROM pg_catalog.unnest(c.reloptions) o), '{{}}'), \
               'wide', coalesce((SELECT pg_catalog.json_object_agg(a.attname, pg_catalog.json_build_object( \
                   'bytes', s.avg_width, 'type', pg_catalog.format_type(a.atttypid, a.atttypmod), \
                   'storage', CASE a.attstorage WHEN 'p' THEN 'plain' WHEN 'm' THEN 'main' \
                     WHEN 'e' THEN 'external' ELSE 'extended' END)) \
                 FROM pg_catalog.pg_stats s JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname \
                 WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND NOT s.inherited \
                 AND s.avg_width >= {WIDE}), '{{}}'), \
               'indexes', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object( \
                 'name', i.indexrelid::pg_catalog.regclass::text, \
                 'method', (SELECT m.amname FROM pg_catalog.pg_class x JOIN pg_catalog.pg_am m ON m.oid = x.relam \
                           WHERE x.oid = i.indexrelid), \
                 'first', (SELECT a.attname FROM pg_catalog.pg_attribute a \
                           WHERE a.attrelid = c.oid AND a.attnum = i.indkey[0]), \
                 'columns', coalesce((SELECT pg_catalog.json_agg(a.attname ORDER BY k.place) \
                   FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place) \
                   JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number), '[]'), \
                 'valid', i.indisvalid, 'partial', i.indpred IS NOT NULL, \
                 'constraint', i.indisunique OR i.indisexclusion, \
                 'scans', pg_catalog.pg_stat_get_numscans(i.indexrelid))) \
                 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid), '[]'), \
               'triggers', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object( \
                 'name', t.tgname, 'function', f.proname, 'language', l.lanname, \
                 'for_each_row', t.tgtype & 1 = 1, 'events', pg_catalog.to_json(pg_catalog.array_remove(ARRAY[ \
                   CASE WHEN t.tgtype & 4 = 4 THEN 'Insert' END, \
                   CASE WHEN t.tgtype & 8 = 8 THEN 'Delete' END, \
                   CASE WHEN t.tgtype & 16 = 16 THEN 'Update' END], NULL)))) \
                 FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid \
                 JOIN pg_catalog.pg_language l ON l.oid = f.prolang \
                 WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'), '[]'), \
               'referenced_by', coalesce((SELECT pg_catalog.json_agg(r.of) FROM ( \
                 SELECT pg_catalog.json_build_object('table', pg_catalog.format('%I.%I', s.nspname, o.relname), \
                   'columns', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' \
                       ORDER BY k.place) FROM pg_catalog.unnest(x.conkey) WITH ORDINALITY k(number, place) \
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = k.number), \
                   'indexed', EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = x.conrelid \
                     AND i.indisvalid AND i.indpred IS NULL \
                     AND (i.indkey::int2[])[0:pg_catalog.cardinality(x.conkey) - 1] @> x.conkey), \
                   'rows', CASE WHEN o.reltuples > 0 THEN o.reltuples END) AS of \
                 FROM pg_catalog.pg_constraint x JOIN pg_catalog.pg_class o ON o.oid = x.conrelid \
                 JOIN pg_catalog.pg_namespace s ON s.oid = o.relnamespace \
                 WHERE x.confrelid = c.oid AND x.contype = 'f' ORDER BY o.reltuples DESC LIMIT 20) r), '[]'))) \
             FROM (VALUES {}) v(name) \
             JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(v.name) \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             LEFT JOIN pg_catalog.pg_inherits p ON p.inhrelid = c.oid AND {is}",
            names.join(", "),
            key = parted.key,
            is = parted.is,
        ),
    );
    let read = |text: String| catalogues.noted(TABLES, serde_json::from_str(&text));
    answer.and_then(read).unwrap_or_default()
}

/// How the catalogues show partitions, as expressions of SQL.
struct Partitions {
    /// The columns of the key, as a JSON array.
    key: &'static str,
    /// Whether it is one.
    is: &'static str,
}

impl Partitions {
    /// Of a server of this major version; declarative partitions came with 10.
    fn of(major: Option<u32>) -> Self {
        match major {
            Some(..10) => Self {
                key: "'[]'::pg_catalog.json",
                is: "false",
            },
            _ => Self {
                key: "coalesce((SELECT pg_catalog.json_agg(a.attname) FROM pg_catalog.pg_partitioned_table t \
                      JOIN pg_catalog.pg_attribute a ON a.attrelid = t.partrelid \
                      AND a.attnum = ANY (t.partattrs::int2[]) WHERE t.partrelid = p.inhparent), '[]')",
                is: "c.relispartition",
            },
        }
    }
}
