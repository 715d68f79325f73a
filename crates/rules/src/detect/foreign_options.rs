//! Foreign servers that are asked in a costly way: a connection for each transaction, a few rows for each message, joins
//! that are made here of tables that lie in one place, queries by dblink that fetch everything.

use pgassay_model::observed::declared::ForeignServer;
use pgassay_model::observed::plans::{Node, Plan};
use pgassay_text::quote::quote_ident;

use super::hits::{Hit, Left, Part, joined, with_plans};
use super::{Detector, is_off, run};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};

pub(super) const DETECTORS: &[Detector] = &[run("foreign-asked-dearly", dearly)];

/// Rows that a foreign scan fetches at a time unless it is told otherwise (postgres_fdw, `fetch_size`).
const FETCHED: f64 = 100.0;
/// Rows that are inserted at a time (`batch_size`).
const BATCHED: f64 = 1.0;
/// Messages of a statement from which on they are what it does.
const MESSAGES: f64 = 10.0;

struct Told {
    saw: String,
    left: Option<Left>,
    steps: Vec<(StepKind, String)>,
}

/// A way of asking dearly.
type Look = fn(&Plan, &Node, &ForeignServer) -> Option<Told>;

const WAYS: &[Look] = &[disconnected, fetched, inserted];

fn dearly(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let all = plan.root.all();
        let mut foreign = all.iter().filter_map(|(_, node)| {
            let facts = plan.relations.get(node.relation.as_deref()?)?;
            Some((*node, facts.declared.server.as_ref()?))
        });
        let told = foreign
            .find_map(|(node, server)| WAYS.iter().find_map(|way| way(plan, node, server)))
            .or_else(|| apart(plan))
            .or_else(|| all.iter().find_map(|(_, node)| by_dblink(node)))?;
        Some(Hit {
            statement,
            part: Part::of_all(1.0),
            left: told.left,
            saw: told.saw,
            confidence: Confidence::High,
            evidence: Vec::new(),
            steps: told.steps,
        })
    });
    joined(&run, hits)
}

fn disconnected(_: &Plan, _: &Node, server: &ForeignServer) -> Option<Told> {
    server
        .options
        .get("keep_connections")
        .filter(|value| is_off(value))?;
    let name = quote_ident(&server.name);
    Some(Told {
        saw: format!(
            "The foreign server {name} is connected to anew in each transaction (keep_connections is off): a process is started there, and the role and the catalogues are read, for \
             each."
        ),
        left: None,
        steps: vec![(
            StepKind::Sql,
            format!(
                "ALTER SERVER {name} OPTIONS (SET keep_connections 'on');   -- a connection then serves its session"
            ),
        )],
    })
}

fn number(server: &ForeignServer, option: &str) -> Option<f64> {
    server.options.get(option)?.parse().ok()
}

fn fetched(_: &Plan, node: &Node, server: &ForeignServer) -> Option<Told> {
    let size = number(server, "fetch_size").unwrap_or(FETCHED);
    let rows = node.actual_rows.unwrap_or(node.rows) + node.work.map_or(0.0, |work| work.removed);
    let messages = rows / size.max(1.0);
    if node.kind != "Foreign Scan" || size >= FETCHED || messages < MESSAGES {
        return None;
    }
    let name = quote_ident(&server.name);
    Some(Told {
        saw: format!(
            "{rows:.0} rows of the foreign server {name} are fetched {size:.0} at a time (fetch_size), by {messages:.0} messages that are each waited for."
        ),
        left: Left::new(
            size / 1000.0,
            format!("{messages:.0} messages, and one for 1000 rows"),
        ),
        steps: vec![(
            StepKind::Sql,
            format!(
                "ALTER SERVER {name} OPTIONS (SET fetch_size '1000');   -- or ALTER FOREIGN TABLE, where that has it"
            ),
        )],
    })
}

fn inserted(plan: &Plan, node: &Node, server: &ForeignServer) -> Option<Told> {
    let size = number(server, "batch_size").unwrap_or(BATCHED);
    let below = node.nodes.first()?;
    let rows = below.actual_rows.unwrap_or(below.rows);
    let facts = plan.relations.get(node.relation.as_deref()?)?;
    let by_postgres = facts.wrapper.as_deref() == Some("postgres_fdw");
    let inserts = node.kind == "ModifyTable" && node.operation.as_deref() == Some("Insert");
    if !inserts || !by_postgres || size > 10.0 || rows / size.max(1.0) < MESSAGES {
        return None;
    }
    let name = quote_ident(&server.name);
    let verb = match server.options.contains_key("batch_size") {
        true => "SET",
        false => "ADD",
    };
    Some(Told {
        saw: format!(
            "{rows:.0} rows are sent to the foreign server {name} {size:.0} at a time (batch_size): a statement and a round trip for each."
        ),
        left: Left::new(
            (size / 100.0).max(1.0 / rows),
            format!("{rows:.0} statements, and one for 100 rows"),
        ),
        steps: vec![(
            StepKind::Sql,
            format!(
                "ALTER SERVER {name} OPTIONS ({verb} batch_size '100');   -- from 14 on; or ALTER FOREIGN TABLE"
            ),
        )],
    })
}

/// A join that is made here of tables which lie in one place, under several servers.
fn apart(plan: &Plan) -> Option<Told> {
    let server = |node: &Node| {
        let all = node.all().into_iter().map(|(_, n)| n);
        let mut scans = all.filter(|n| n.kind == "Foreign Scan");
        let table = scans.find_map(|n| n.relation.clone())?;
        let server = plan.relations.get(&table)?.declared.server.clone()?;
        Some((table, server))
    };
    let all = plan.root.all().into_iter();
    let mut joins = all.filter(|(_, node)| node.join.is_some() && node.nodes.len() >= 2);
    joins.find_map(|(_, join)| {
        let (one, first) = server(&join.nodes[0])?;
        let (other, second) = server(&join.nodes[1])?;
        if first.name == second.name || first.place.is_none() || first.place != second.place {
            return None;
        }
        Some(Told {
            saw: format!(
                "{one} and {other} lie in one database, but are declared under two servers ({} and {}), so that their join is not sent there: the rows of both are fetched, and \
                 joined here.",
                first.name, second.name
            ),
            left: None,
            steps: vec![(
                StepKind::Sql,
                format!(
                    "DROP FOREIGN TABLE {other}; CREATE FOREIGN TABLE {other} (…) SERVER {} OPTIONS (…);   -- both under one server (and one user mapping): joins, conditions and \
                     aggregates are then sent as one query",
                    quote_ident(&first.name)
                ),
            )],
        })
    })
}

/// A query by dblink, of whose rows most are thrown away.
fn by_dblink(node: &Node) -> Option<Told> {
    let filter = node.conditions.get("Filter")?;
    let removed = node.work.map_or(0.0, |work| work.removed);
    let given = node.actual_rows.unwrap_or(node.rows);
    if node.function.as_deref() != Some("dblink") || removed < 100.0 || removed < 10.0 * given {
        return None;
    }
    Some(Told {
        saw: format!("dblink() fetches all rows of its query, and {filter} leaves {given:.0} of {:.0} here.", removed + given),
        left: Left::new((given.max(1.0) / (removed + given)).max(0.05), "rows that are fetched, and rows that are wanted"),
        steps: vec![
            (
                StepKind::Sql,
                "CREATE SERVER … FOREIGN DATA WRAPPER postgres_fdw OPTIONS (…); CREATE USER MAPPING …; IMPORT FOREIGN SCHEMA … LIMIT TO (…) FROM SERVER … INTO …;   -- a foreign \
                 table in the place of dblink() (and of the view over it): conditions are then sent along, and the remote index serves them"
                    .to_owned(),
            ),
            (
                StepKind::Advice,
                "or put the condition into the query that dblink() sends (format('… WHERE id = %L', value)), in a function in the place of a view".to_owned(),
            ),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::found_with;
    use super::*;
    use crate::Finding;
    use pgassay_model::observed::declared::DeclaredFacts;
    use pgassay_model::observed::plans::{Execution, RelationFacts, Work};

    fn server(name: &str, options: &[(&str, &str)]) -> RelationFacts {
        RelationFacts {
            wrapper: Some("postgres_fdw".into()),
            declared: DeclaredFacts {
                server: Some(ForeignServer {
                    name: name.into(),
                    options: options
                        .iter()
                        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                        .collect(),
                    place: Some("1".into()),
                }),
                ..DeclaredFacts::default()
            },
            ..RelationFacts::default()
        }
    }

    fn scan(table: &str, rows: f64) -> Node {
        Node {
            kind: "Foreign Scan".into(),
            relation: Some(table.into()),
            actual_rows: Some(rows),
            ..Node::default()
        }
    }

    fn found(root: Node, relations: &[(&str, RelationFacts)]) -> Option<Finding> {
        let plan = Plan {
            root,
            executed: Some(Execution {
                ms: 5.0,
                ..Execution::default()
            }),
            relations: relations
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect(),
            ..Plan::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("SELECT 1 FROM client", Some(plan)));
        });
        found.into_iter().find(|f| f.id == "foreign-asked-dearly")
    }

    #[test]
    fn options_that_make_a_server_dear_are_set_back() {
        let of = |options: &[(&str, &str)], rows| {
            found(
                scan("public.c", rows),
                &[("public.c", server("crm", options))],
            )
        };
        let seen = of(&[("keep_connections", "off")], 1.0).unwrap();
        assert!(
            seen.remedy[0]
                .text
                .starts_with("ALTER SERVER crm OPTIONS (SET keep_connections 'on')"),
            "{seen:#?}"
        );
        let seen = of(&[("fetch_size", "2")], 500.0).unwrap();
        assert!(
            seen.remedy[0].text.contains("fetch_size '1000'"),
            "{seen:#?}"
        );
        assert!(of(&[("fetch_size", "2")], 4.0).is_none());
        assert!(of(&[], 5000.0).is_none());
    }

    #[test]
    fn rows_that_are_inserted_one_by_one_are_sent_together() {
        let of = |options: &[(&str, &str)]| {
            let insert = Node {
                kind: "ModifyTable".into(),
                operation: Some("Insert".into()),
                relation: Some("public.c".into()),
                nodes: vec![Node {
                    kind: "Function Scan".into(),
                    actual_rows: Some(300.0),
                    ..Node::default()
                }],
                ..Node::default()
            };
            found(insert, &[("public.c", server("crm", options))])
        };
        assert!(
            of(&[]).unwrap().remedy[0]
                .text
                .contains("ADD batch_size '100'")
        );
        assert!(of(&[("batch_size", "100")]).is_none());
    }

    #[test]
    fn tables_of_one_place_are_joined_there() {
        let of = |second: &str| {
            let join = Node {
                kind: "Hash Join".into(),
                join: Some("Inner".into()),
                nodes: vec![scan("public.a", 90.0), scan("public.b", 5.0)],
                ..Node::default()
            };
            found(
                join,
                &[
                    ("public.a", server("one", &[])),
                    ("public.b", server(second, &[])),
                ],
            )
        };
        assert!(of("two").unwrap().remedy[0].text.contains("SERVER one"));
        assert!(of("one").is_none());
    }

    #[test]
    fn a_condition_is_not_sent_by_dblink() {
        let of = |removed| {
            let scan = Node {
                kind: "Function Scan".into(),
                function: Some("dblink".into()),
                conditions: [("Filter".to_owned(), "(t.id = $1)".to_owned())].into(),
                actual_rows: Some(1.0),
                work: Some(Work {
                    loops: 1.0,
                    removed,
                    ..Work::default()
                }),
                ..Node::default()
            };
            found(scan, &[])
        };
        assert!(
            of(19_999.0).unwrap().remedy[0]
                .text
                .contains("postgres_fdw")
        );
        assert!(of(3.0).is_none());
    }
}
