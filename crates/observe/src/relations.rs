//! What the catalogues say of the tables of a plan: columns, types, indexes, triggers, policies, what refers to them.

use std::collections::BTreeMap;

use pgassay_model::observed::plans::{Plan, RelationFacts};
use pgassay_text::quote::quote_literal;
use serde_json::{Value, json};

use super::catalogues::Catalogues;
use super::explained::clean;

/// What is asked about.
pub(super) const TABLES: &str = "tables of its plan";

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
               'partition_key', {key}, 'default_partition', {default}, \
               'checks', coalesce((SELECT pg_catalog.json_object_agg(k.conname, \
                   pg_catalog.pg_get_expr(k.conbin, k.conrelid)) \
                 FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c' \
                 AND EXISTS (SELECT FROM pg_catalog.pg_depend d \
                   JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid \
                   JOIN pg_catalog.pg_language l ON l.oid = f.prolang \
                   WHERE d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND d.objid = k.oid \
                   AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
                   AND l.lanname NOT IN ('internal', 'c'))), '{{}}'), \
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
               'targets', coalesce((SELECT pg_catalog.json_object_agg(a.attname, a.attstattarget) \
                 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
                 AND NOT a.attisdropped AND a.attstattarget >= 0), '{{}}'), \
               'options', coalesce((SELECT pg_catalog.json_object_agg(pg_catalog.split_part(o, '=', 1), \
                   pg_catalog.split_part(o, '=', 2)) FROM pg_catalog.unnest(c.reloptions) o), '{{}}'), \
               'wrapper', (SELECT w.fdwname FROM pg_catalog.pg_foreign_table f \
                 JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver \
                 JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE f.ftrelid = c.oid), \
               'rules', coalesce((SELECT pg_catalog.json_object_agg(w.event, w.number) FROM ( \
                 SELECT CASE r.ev_type WHEN '2' THEN 'Update' WHEN '3' THEN 'Insert' ELSE 'Delete' END AS event, \
                   count(*) AS number FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid \
                   AND r.ev_type <> '1' AND r.ev_enabled <> 'D' GROUP BY 1) w), '{{}}'), \
               'indexes', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object( \
                 'name', i.indexrelid::pg_catalog.regclass::text, \
                 'method', (SELECT m.amname FROM pg_catalog.pg_class x JOIN pg_catalog.pg_am m ON m.oid = x.relam \
                           WHERE x.oid = i.indexrelid), \
                 'first', (SELECT a.attname FROM pg_catalog.pg_attribute a \
                           WHERE a.attrelid = c.oid AND a.attnum = i.indkey[0]), \
                 'columns', coalesce((SELECT pg_catalog.json_agg(a.attname ORDER BY k.place) \
                   FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place) \
                   JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number), '[]'), \
                 'expressions', coalesce((SELECT pg_catalog.json_agg(pg_catalog.pg_get_indexdef(i.indexrelid, k.place::int, true) \
                     ORDER BY k.place) \
                   FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place) WHERE k.number = 0), '[]'), \
                 'operator_class', coalesce((SELECT o.opcname FROM pg_catalog.pg_opclass o \
                   WHERE o.oid = (i.indclass::oid[])[0]), ''), \
                 'predicate', pg_catalog.pg_get_expr(i.indpred, i.indrelid, true), \
                 'valid', i.indisvalid, 'partial', i.indpred IS NOT NULL, \
                 'constraint', i.indisunique OR i.indisexclusion, \
                 'scans', pg_catalog.pg_stat_get_numscans(i.indexrelid))) \
                 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid), '[]'), \
               'triggers', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object( \
                 'name', t.tgname, 'function', f.proname, 'language', l.lanname, \
                 'for_each_row', t.tgtype & 1 = 1, 'before', t.tgtype & 2 = 2, 'events', pg_catalog.to_json(pg_catalog.array_remove(ARRAY[ \
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
                 WHERE x.confrelid = c.oid AND x.contype = 'f' ORDER BY o.reltuples DESC LIMIT 20) r), '[]'), \
               'policies', CASE WHEN c.relrowsecurity THEN (SELECT pg_catalog.json_object_agg(y.polname, \
                   coalesce(pg_catalog.pg_get_expr(y.polqual, y.polrelid), '')) \
                 FROM pg_catalog.pg_policy y WHERE y.polrelid = c.oid) END)) \
             FROM (VALUES {}) v(name) \
             JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(v.name) \
             LEFT JOIN pg_catalog.pg_inherits p ON p.inhrelid = c.oid AND {is}",
            names.join(", "),
            key = parted.key,
            default = parted.default,
            is = parted.is,
        ),
    );
    let read = |text: String| catalogues.noted(TABLES, serde_json::from_str(&text));
    let mut answer: Value = answer.and_then(read).unwrap_or_else(|| json!({}));
    let all = answer.as_object_mut().into_iter();
    let all = all.flat_map(|all| all.values_mut());
    for facts in all.filter_map(Value::as_object_mut) {
        // Conditions may hold literals.
        for name in ["policies", "checks"] {
            let Some(conditions) = facts.get_mut(name).and_then(Value::as_object_mut) else {
                facts.remove(name);
                continue;
            };
            for condition in conditions.values_mut() {
                *condition = Value::from(clean(condition.as_str().unwrap_or_default()));
            }
        }
        let indexes = facts.get_mut("indexes").and_then(Value::as_array_mut);
        for index in indexes.into_iter().flatten() {
            let all = index["expressions"].as_array_mut().into_iter().flatten();
            for expression in all {
                *expression =
                    Value::from(clean_definition(expression.as_str().unwrap_or_default()));
            }
            if let Some(predicate) = index["predicate"].as_str() {
                index["predicate"] = Value::from(clean_definition(predicate));
            }
        }
    }
    let read = catalogues.noted(TABLES, serde_json::from_value(answer));
    read.unwrap_or_default()
}

/// How the catalogues show partitions, as expressions of SQL.
struct Partitions {
    /// The columns of the key, as a JSON array.
    key: &'static str,
    /// Whether it is the default partition.
    default: &'static str,
    /// Whether it is one.
    is: &'static str,
}

impl Partitions {
    /// Of a server of this major version; declarative partitions came with 10.
    fn of(major: Option<u32>) -> Self {
        match major {
            Some(..10) => Self {
                key: "'[]'::pg_catalog.json",
                default: "false",
                is: "false",
            },
            _ => Self {
                key: "coalesce((SELECT pg_catalog.json_agg(a.attname) FROM pg_catalog.pg_partitioned_table t \
                      JOIN pg_catalog.pg_attribute a ON a.attrelid = t.partrelid \
                      AND a.attnum = ANY (t.partattrs::int2[]) WHERE t.partrelid = p.inhparent), '[]')",
                default: "coalesce(pg_catalog.pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', false)",
                is: "c.relispartition",
            },
        }
    }
}

/// An expression without literals, but for the names of text search configurations.
fn clean_definition(expression: &str) -> String {
    let mut bare = expression.to_owned();
    for (at, _) in expression.match_indices("'::regconfig") {
        let Some(from) = expression[..at].rfind('\'') else {
            continue;
        };
        let quoted = &expression[from..=at];
        bare = bare.replace(
            &format!("{quoted}::regconfig"),
            &format!("{}::regconfig", quoted.trim_matches('\'')),
        );
    }
    clean(&bare)
}
