//! What conditions are told.

use super::*;

fn facts() -> RelationFacts {
    let types = [
        ("id", "integer"),
        ("at", "timestamp with time zone"),
        ("until", "timestamp with time zone"),
        ("note", "text"),
        ("st", "st"),
        ("code", "character"),
        ("doc", "jsonb"),
        ("tags", "integer[]"),
        ("done", "boolean"),
        ("body", "text"),
        ("net", "cidr"),
        ("during", "int4range"),
        ("words", "tsvector"),
    ];
    let index = |first: Option<&str>, expression: &str| IndexFacts {
        name: format!("by_{}", first.unwrap_or("expression")),
        method: "btree".into(),
        first: first.map(str::to_owned),
        expressions: [expression]
            .iter()
            .filter(|e| !e.is_empty())
            .map(|e| (*e).to_owned())
            .collect(),
        valid: true,
        ..IndexFacts::default()
    };
    RelationFacts {
        columns: types.iter().map(|(name, _)| (*name).to_owned()).collect(),
        texts: ["note", "body", "code"].map(str::to_owned).to_vec(),
        types: types
            .iter()
            .map(|(name, of)| ((*name).to_owned(), (*of).to_owned()))
            .collect(),
        indexes: vec![
            index(Some("id"), ""),
            index(Some("net"), ""),
            index(Some("during"), ""),
            IndexFacts {
                method: "gin".into(),
                ..index(Some("words"), "")
            },
            index(None, "lower(note)"),
            index(None, "to_tsvector(english::regconfig, body)"),
            IndexFacts {
                method: "gin".into(),
                ..index(Some("doc"), "")
            },
            IndexFacts {
                method: "gin".into(),
                operator_class: "array_ops".into(),
                ..index(Some("tags"), "")
            },
            IndexFacts {
                partial: true,
                predicate: Some("NOT done".into()),
                ..index(Some("at"), "")
            },
        ],
        ..RelationFacts::default()
    }
}

fn told(filter: &str) -> String {
    let steps = rewrite(filter, "public.t", &facts(), "").map(|found| found.steps);
    let texts = steps.into_iter().flatten().map(|(_, text)| text);
    texts.collect::<Vec<_>>().join(" | ")
}

#[test]
fn each_form_is_told_what_to_write_instead() {
    for (filter, says) in [
        (
            "(t.at > (clock_timestamp() - $1::interval))",
            "at > (SELECT clock_timestamp()",
        ),
        ("(t.id = ((random() * $1))::integer)", "id = (SELECT …)"),
        ("(random() < $1::double precision)", "TABLESAMPLE SYSTEM"),
        (
            "((t.at + $1::interval) > $2::timestamptz)",
            "at > value - …",
        ),
        (
            "(((t.at AT TIME ZONE $1::text))::date = $2::date)",
            "at >= day::timestamp AT TIME ZONE",
        ),
        ("(date_trunc($1::text, t.at) = $2)", "at >= … AND at < …"),
        (
            "(EXTRACT(epoch FROM (now() - t.at)) < $1)",
            "at > now() - interval",
        ),
        (
            "CASE WHEN ($1 IS NULL) THEN true ELSE (t.id = $2) END = $3",
            "leave the CASE out",
        ),
        ("(COALESCE(t.id, $1) = $2)", "id IS NULL"),
        ("(upper(t.note) = $1)", "by_expression has, lower(note)"),
        (
            "(to_tsvector(t.body) @@ to_tsquery($1))",
            "to_tsvector(english::regconfig, body)",
        ),
        ("((t.st)::text = $1::text)", "st = value::st"),
        ("((t.code)::text = $1::text)", "code = value::bpchar"),
        ("((t.id)::numeric = $1)", "id = value::integer"),
        (
            "((t.doc ->> $1::text) = $2)",
            "doc @> jsonb_build_object('key', value)",
        ),
        ("((t.doc ->> $1::text) = $2)", "((doc ->> 'key'));"),
        ("(t.note <> $1)", "note IN ('…', '…')"),
        ("(t.at < t.until)", "(…) WHERE at < until"),
        ("(t.tags @> $1::integer[])", "gin__int_ops"),
        (
            "\"overlaps\"(t.at, t.until, $1, $2)",
            "USING gist (tstzrange(at, until))",
        ),
        ("(t.done IS NOT TRUE)", "WHERE NOT done"),
        ("(unaccent(lower(t.note)) = $1)", "f_unaccent(lower(note))"),
        ("(pgp_sym_decrypt(t.note, $1) = $2)", "hmac("),
        (
            "(((t.note || $1::text) || t.body) = $2)",
            "compare the columns by themselves",
        ),
        (
            "((t.id % $1) = $2)",
            "((id % $1));   -- with the constants that this condition has",
        ),
        ("(t.at > $1)", "CREATE INDEX CONCURRENTLY ON public.t (at);"),
    ] {
        let told = told(filter);
        assert!(told.contains(says), "{filter}: {told}");
    }
}

#[test]
fn what_is_served_as_it_is_is_told_nothing() {
    for filter in [
        "(t.id = $1)",
        "(t.id > $1)",
        "((t.note)::text = $1::text)",
        "(NOT (hashed SubPlan 1))",
        "(t.note ~~ $1)",
    ] {
        assert_eq!(told(filter), "", "{filter}");
    }
}

#[test]
fn an_operator_is_told_the_method_that_answers_it() {
    let net = told("((t.net)::inet >>= $1::inet)");
    assert!(
        net.contains("USING gist (net inet_ops)") && net.contains("by_net, of the method btree"),
        "{net}"
    );
    assert!(told("(t.during @> $1)").contains("USING gist (during)"));
    // What has an index of that method is told nothing.
    assert!(!told("(t.words @@ $1)").contains("CREATE INDEX"));
    assert!(!told("(t.net = $1)").contains("gist"));
}

/// The statement, which has no cast, was told to mend it.
#[test]
fn a_policys_cast_is_left_to_the_policy() {
    let filter = "((t.id)::text = current_setting($1::text))";
    let mut facts = facts();
    let told = |facts: &RelationFacts| rewrite(filter, "public.t", facts, "SELECT note FROM t");
    assert!(told(&facts).is_some());
    let condition = "((id)::text = current_setting('app.tenant'::text))";
    facts.policies.insert("tenant".into(), condition.into());
    assert!(told(&facts).is_none());
}

/// The planner's cast was said to be the statement's, which cast the value.
#[test]
fn who_converts_a_column_is_told_by_the_statement() {
    let told = |text: &str| {
        let filter = "((t.id)::numeric = $1::numeric)";
        let found = rewrite(filter, "public.t", &facts(), text);
        found.unwrap().steps.remove(0).1
    };
    for text in [
        "SELECT note FROM t WHERE id = ($1 + $2)::numeric",
        "SELECT t.id AS number, note FROM t WHERE t.id = $1 AND grid::numeric > $2",
    ] {
        let told = told(text);
        assert!(
            told.starts_with("bind the value as integer") && told.contains("the value is numeric"),
            "{told}"
        );
        assert!(!told.contains("id::numeric"), "{told}");
    }
    for text in [
        "SELECT note FROM t WHERE id::numeric = $1",
        "SELECT id FROM t WHERE (t.\"id\")::numeric = $1",
        "SELECT note FROM t WHERE CAST(t.id AS numeric) = $1",
    ] {
        assert!(
            told(text).contains("the statement has id::numeric"),
            "{text}"
        );
    }
    // Nobody knows where the condition is a view's.
    assert!(told("SELECT * FROM v").contains("another type does the same"));
}

#[test]
fn an_index_is_made_without_keeping_writers_away() {
    for form in FORMS.iter().chain(VOLATILE) {
        for text in form.instead {
            let left = text.replace("CREATE INDEX CONCURRENTLY", "");
            assert!(!left.contains("CREATE INDEX"), "{text}");
        }
    }
}
