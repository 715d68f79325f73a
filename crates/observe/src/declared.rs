//! How what a statement names is declared: views that keep the planner out, and what of tables, columns, indexes and
//! triggers is unlike what CREATE TABLE makes of itself.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_model::observed::declared::{DeclaredFacts, ViewFacts};
use pgassay_model::observed::plans::Plan;
use pgassay_text::quote::quote_literal;

use super::catalogues::Catalogues;
use super::explained::clean;
use super::loops::{loops, tokens, without_literals};

/// Bytes from which on a column is wide.
const WIDE: u32 = 100;

/// Adds how the relations of a plan are declared.
pub(super) fn relations(catalogues: &mut Catalogues<'_>, plan: &mut Plan) {
    let names: Vec<String> = plan
        .relations
        .keys()
        .map(|name| format!("({})", quote_literal(name)))
        .collect();
    if names.is_empty() {
        return;
    }
    let names = names.join(", ");
    let about = "how tables of its plan are declared";
    let sql = format!(
        "SELECT pg_catalog.json_object_agg(v.name, pg_catalog.json_build_object( \
           'distinct', coalesce((SELECT pg_catalog.json_object_agg(a.attname, pg_catalog.split_part(o, '=', 2)::float8) \
             FROM pg_catalog.pg_attribute a, pg_catalog.unnest(a.attoptions) o WHERE a.attrelid = c.oid AND o LIKE 'n_distinct=%'), '{{}}'), \
           'wide', coalesce((SELECT pg_catalog.json_object_agg(a.attname, pg_catalog.json_build_object( \
               'bytes', s.avg_width, 'type', pg_catalog.format_type(a.atttypid, a.atttypmod), \
               'storage', CASE a.attstorage WHEN 'p' THEN 'plain' WHEN 'm' THEN 'main' WHEN 'e' THEN 'external' ELSE 'extended' END)) \
             FROM pg_catalog.pg_stats s JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname \
             WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND NOT s.inherited AND s.avg_width >= {WIDE}), '{{}}'), \
           'tablespace', (SELECT pg_catalog.json_build_array(t.spcname, (SELECT pg_catalog.json_object_agg( \
               pg_catalog.split_part(o, '=', 1), pg_catalog.split_part(o, '=', 2)) FROM pg_catalog.unnest(t.spcoptions) o)) \
             FROM pg_catalog.pg_tablespace t JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database() \
             WHERE t.oid = CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END AND t.spcoptions IS NOT NULL), \
           'correlations', coalesce((SELECT pg_catalog.json_object_agg(s.attname, s.correlation) FROM pg_catalog.pg_stats s \
             WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND NOT s.inherited AND s.correlation IS NOT NULL \
             AND EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam \
               JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] \
               WHERE i.indrelid = c.oid AND m.amname = 'brin' AND a.attname = s.attname)), '{{}}'), \
           'server', (SELECT pg_catalog.json_build_object('name', s.srvname, \
               'place', (SELECT pg_catalog.md5(pg_catalog.string_agg(o, ',' ORDER BY o)) FROM pg_catalog.unnest(s.srvoptions) o \
                 WHERE pg_catalog.split_part(o, '=', 1) IN ('host', 'port', 'dbname', 'service', 'hostaddr')), \
               'options', coalesce((SELECT pg_catalog.json_object_agg(pg_catalog.split_part(o, '=', 1), pg_catalog.split_part(o, '=', 2)) \
                 FROM pg_catalog.unnest(s.srvoptions || f.ftoptions) o \
                 WHERE pg_catalog.split_part(o, '=', 1) IN ('fetch_size', 'batch_size', 'keep_connections', 'extensions')), '{{}}')) \
             FROM pg_catalog.pg_foreign_table f JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = c.oid), \
           'collations', coalesce((SELECT pg_catalog.json_object_agg(a.attname, l.collname) \
             FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation \
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND l.collname <> 'default'), '{{}}'), \
           'defaults', coalesce((SELECT pg_catalog.json_object_agg(a.attname, pg_catalog.pg_get_expr(x.adbin, x.adrelid)) \
             FROM pg_catalog.pg_attrdef x JOIN pg_catalog.pg_attribute a ON a.attrelid = x.adrelid AND a.attnum = x.adnum \
             WHERE x.adrelid = c.oid AND EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid \
               JOIN pg_catalog.pg_language l ON l.oid = f.prolang WHERE d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass \
               AND d.objid = x.oid AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
               AND l.lanname NOT IN ('internal', 'c')) \
             AND coalesce(pg_catalog.to_jsonb(a) ->> 'attgenerated', '') = ''), '{{}}'), \
           'generated', coalesce((SELECT pg_catalog.json_object_agg(a.attname, pg_catalog.pg_get_expr(x.adbin, x.adrelid)) \
             FROM pg_catalog.pg_attrdef x JOIN pg_catalog.pg_attribute a ON a.attrelid = x.adrelid AND a.attnum = x.adnum \
             WHERE x.adrelid = c.oid AND pg_catalog.to_jsonb(a) ->> 'attgenerated' = 's'), '{{}}'), \
           'domains', coalesce((SELECT pg_catalog.json_object_agg(a.attname, pg_catalog.format_type(a.atttypid, NULL)) \
             FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND EXISTS (SELECT FROM pg_catalog.pg_constraint k \
               JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND d.objid = k.oid \
                 AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
               JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid JOIN pg_catalog.pg_language l ON l.oid = f.prolang \
               WHERE k.contypid = a.atttypid AND l.lanname NOT IN ('internal', 'c'))), '{{}}'), \
           'inherits', (SELECT pg_catalog.json_build_array(i.inhparent::pg_catalog.regclass::text, \
               (SELECT count(*) FROM pg_catalog.pg_inherits s WHERE s.inhparent = i.inhparent)) \
             FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p ON p.oid = i.inhparent AND p.relkind = 'r' \
             WHERE i.inhrelid = c.oid LIMIT 1), \
           'checked', EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'))) \
         FROM (VALUES {names}) v(name) JOIN pg_catalog.pg_class c ON c.oid = v.name::pg_catalog.regclass \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    );
    let answer = catalogues.value(about, &sql);
    let read = |text: String| catalogues.noted(about, serde_json::from_str(&text));
    let declared: Option<BTreeMap<String, DeclaredFacts>> = answer.and_then(read);
    for (name, mut declared) in declared.into_iter().flatten() {
        let DeclaredFacts {
            defaults,
            generated,
            ..
        } = &mut declared;
        for expression in defaults.values_mut().chain(generated.values_mut()) {
            *expression = clean(expression);
        }
        if let Some(facts) = plan.relations.get_mut(&name) {
            facts.declared = declared;
        }
    }
    indexes(catalogues, plan, &names);
    triggers(catalogues, plan, &names);
}

/// What is asked of each relation, NULL as an empty text.
fn rows<const N: usize>(
    catalogues: &mut Catalogues<'_>,
    about: &str,
    sql: &str,
) -> Vec<[String; N]> {
    let rows = catalogues.rows::<N>(about, sql).into_iter();
    rows.map(|row| row.map(Option::unwrap_or_default)).collect()
}

/// Adds what indexes are on, and which of them are checked late.
fn indexes(catalogues: &mut Catalogues<'_>, plan: &mut Plan, names: &str) {
    let found = rows(
        catalogues,
        "indexes of tables of its plan",
        &format!(
            "SELECT v.name, i.indexrelid::pg_catalog.regclass::text, coalesce((SELECT 'EXCLUDE ' || pg_catalog.pg_get_constraintdef(k.oid) \
               FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype = 'x'), \
               pg_catalog.pg_get_indexdef(i.indexrelid)), i.indimmediate FROM (VALUES {names}) v(name) JOIN pg_catalog.pg_index i ON i.indrelid = v.name::pg_catalog.regclass"
        ),
    );
    for [table, name, definition, immediate] in found {
        let index = plan
            .relations
            .get_mut(&table)
            .and_then(|facts| facts.indexes.iter_mut().find(|index| index.name == name));
        if let Some(index) = index {
            index.deferrable = immediate == "f";
            index.definition = definition
                .split_once(" USING ")
                .map(|(_, on)| clean(&format!("USING {on}")));
        }
    }
}

/// Adds what triggers do.
fn triggers(catalogues: &mut Catalogues<'_>, plan: &mut Plan, names: &str) {
    if plan
        .relations
        .values()
        .all(|facts| facts.triggers.is_empty())
    {
        return;
    }
    let found = rows(
        catalogues,
        "functions of triggers",
        &format!(
            "SELECT v.name, t.tgname, p.prosrc FROM (VALUES {names}) v(name) \
             JOIN pg_catalog.pg_trigger t ON t.tgrelid = v.name::pg_catalog.regclass AND NOT t.tgisinternal \
             JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
             WHERE l.lanname = 'plpgsql'"
        ),
    );
    for [table, name, source] in found {
        let trigger = plan
            .relations
            .get_mut(&table)
            .and_then(|facts| facts.triggers.iter_mut().find(|t| t.name == name));
        let body = loops(&source);
        if let Some(trigger) = trigger.filter(|_| !body.is_nothing()) {
            trigger.body = body;
        }
    }
}

/// Adds the views that a statement names, those that they read in turn among them, as far as they keep the planner out.
pub(super) fn views(catalogues: &mut Catalogues<'_>, plan: &mut Plan, statement: &str) {
    let bare = without_literals(statement);
    let word = |token: &&str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut words: BTreeSet<String> = tokens(&bare)
        .into_iter()
        .filter(word)
        .map(str::to_lowercase)
        .collect();
    words.extend(bare.split('"').skip(1).step_by(2).map(str::to_owned));
    if words.is_empty() {
        return;
    }
    let words: Vec<String> = words.iter().map(|word| quote_literal(word)).collect();
    let about = "views that it names";
    let found = rows(
        catalogues,
        about,
        &format!(
            "WITH RECURSIVE named AS (SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relkind = 'v' AND c.relname IN ({}) \
               AND c.relnamespace NOT IN ('pg_catalog'::pg_catalog.regnamespace, 'information_schema'::pg_catalog.regnamespace) \
             UNION SELECT d.refobjid FROM named JOIN pg_catalog.pg_rewrite r ON r.ev_class = named.oid \
               JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid \
                 AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
               JOIN pg_catalog.pg_class c ON c.oid = d.refobjid AND c.relkind = 'v') \
             SELECT c.oid::pg_catalog.regclass::text, pg_catalog.pg_get_viewdef(c.oid), \
               coalesce(c.reloptions && ARRAY['security_barrier=true', 'security_barrier=on', 'security_barrier=1'], false), \
               (SELECT pg_catalog.json_agg(DISTINCT pg_catalog.format('%I.%I', n.nspname, t.relname)) FROM pg_catalog.pg_rewrite r \
                 JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid \
                   AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
                 JOIN pg_catalog.pg_class t ON t.oid = d.refobjid AND t.oid <> c.oid \
                 JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace WHERE r.ev_class = c.oid), \
               (SELECT pg_catalog.json_agg(DISTINCT pg_catalog.jsonb_build_array(o.attname, pg_catalog.format_type(o.atttypid, NULL), \
                   a.attrelid::pg_catalog.regclass::text, pg_catalog.format_type(a.atttypid, NULL))) \
                 FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass \
                   AND d.objid = r.oid AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjsubid > 0 \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
                 JOIN pg_catalog.pg_attribute o ON o.attrelid = c.oid AND o.attname = a.attname AND o.atttypid <> a.atttypid \
                 WHERE r.ev_class = c.oid AND a.attrelid <> c.oid) \
             FROM named JOIN pg_catalog.pg_class c ON c.oid = named.oid LIMIT 50",
            words.join(", ")
        ),
    );
    let mut called: BTreeSet<String> = BTreeSet::new();
    let mut views = BTreeMap::new();
    for [name, definition, barrier, reads, differs] in found {
        let differs = catalogues.noted(about, serde_json::from_str(list(&differs)));
        let reads = catalogues.noted(about, serde_json::from_str(list(&reads)));
        let query = Query::of(&definition);
        called.extend(query.called.iter().cloned());
        views.insert(
            name,
            ViewFacts {
                barrier: barrier == "t",
                ends: query.ends,
                volatile: query.called,
                // Of a single query such a column is an expression of its own.
                differs: match query.unites {
                    true => differs.unwrap_or_default(),
                    false => Vec::new(),
                },
                reads: reads.unwrap_or_default(),
            },
        );
    }
    let volatile = volatile(catalogues, &called);
    for facts in views.values_mut() {
        facts.volatile.retain(|name| volatile.contains(name));
    }
    views.retain(|_, facts| facts.is_fenced());
    plan.views = views;
}

/// JSON of a list, which NULL is, too.
fn list(text: &str) -> &str {
    if text.is_empty() { "[]" } else { text }
}

/// Those functions that are VOLATILE.
fn volatile(catalogues: &mut Catalogues<'_>, names: &BTreeSet<String>) -> BTreeSet<String> {
    if names.is_empty() {
        return BTreeSet::new();
    }
    let names: Vec<String> = names.iter().map(|name| quote_literal(name)).collect();
    let found = rows::<1>(
        catalogues,
        "functions in views",
        &format!(
            "SELECT p.proname FROM pg_catalog.pg_proc p WHERE p.proname IN ({}) GROUP BY 1 \
             HAVING pg_catalog.bool_and(p.provolatile = 'v')",
            names.join(", ")
        ),
    );
    found.into_iter().flatten().collect()
}

/// What the outermost query of a view shows.
#[derive(Default)]
struct Query {
    /// Functions that the select list calls.
    called: Vec<String>,
    /// `LIMIT`, `OFFSET`.
    ends: Vec<String>,
    /// Whether it puts queries together by UNION.
    unites: bool,
}

impl Query {
    fn of(definition: &str) -> Self {
        let bare = without_literals(definition);
        let tokens = tokens(&bare);
        let (mut depth, mut listed) = (0_i32, false);
        let mut query = Self::default();
        for (at, token) in tokens.iter().enumerate() {
            let lower = token.to_ascii_lowercase();
            match lower.as_str() {
                "(" => {
                    let name = at.checked_sub(1).and_then(|at| tokens.get(at));
                    let name =
                        name.filter(|n| n.starts_with(|c: char| c.is_alphabetic() || c == '_'));
                    if let Some(name) = name.filter(|_| listed) {
                        query.called.push(name.to_lowercase());
                    }
                    depth += 1;
                }
                ")" => depth -= 1,
                "select" if depth == 0 => listed = true,
                "from" if depth == 0 => listed = false,
                "union" if depth == 0 => query.unites = true,
                "limit" | "offset" if depth == 0 => query.ends.push(lower.to_ascii_uppercase()),
                _ => {}
            }
        }
        query.called.sort_unstable();
        query.called.dedup();
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_view_and_what_its_list_calls_is_seen() {
        let of = |definition: &str| Query::of(definition);
        let fenced = of(
            " SELECT o.id, lower(o.name) AS n FROM (SELECT x FROM t LIMIT 3) o WHERE (f(o.id) > 0) OFFSET 0;",
        );
        assert_eq!(
            (fenced.ends, fenced.called),
            (vec!["OFFSET".to_owned()], vec!["lower".to_owned()])
        );
        assert!(!fenced.unites);
        let united = of("SELECT a.id FROM a UNION ALL SELECT b.id FROM b;");
        assert!(united.unites && united.ends.is_empty());
        assert!(of("SELECT 'LIMIT ( OFFSET' AS x FROM t;").ends.is_empty());
    }
}
