use super::*;

/// Expressions as releases 9.5 to 18 print them.
const KNOWN: &[&str] = &[
    "(t.id = 1)",
    "((t.mail)::text = 'a''b'::text)",
    "((o.a = $1) AND (NOT (hashed SubPlan 1)) AND ((o.b > '-1'::integer) OR (o.c IS NOT NULL)))",
    "(lower((t.mail)::text) ~~ '%x'::text)",
    "(t.id = ANY ('{1,2}'::integer[]))",
    "($1 = ANY (t.tags))",
    "(EXTRACT(year FROM t.at) = '2024'::numeric)",
    "(date_trunc('day'::text, t.at) >= (now() - '1 day'::interval))",
    "((t.at AT TIME ZONE 'UTC'::text) IS DISTINCT FROM NULL::timestamp without time zone)",
    "CASE WHEN (a.x > 1) THEN 'low'::text ELSE (a.y)::character varying(20) END",
    "(ANY (t.a = (hashed SubPlan 1).col1))",
    "(t.a > (InitPlan 1).col1)",
    "(ROW(t.a, t.b) > ROW($1, 5))",
    "o.id, sum((o.price * (o.n)::numeric)), count(*), string_agg(DISTINCT o.name, ', '::text ORDER BY o.name DESC)",
    "PARTIAL sum(t.v) FILTER (WHERE (t.k > 3))",
    "row_number() OVER (?)",
    "((t.doc -> 'a'::text) ->> 'b'::text)",
    "(t.a OPERATOR(public.%) 'x'::text)",
    "t.\"A b\".c, (t.d[1])::text COLLATE \"C\" DESC NULLS LAST",
    "\"*VALUES*\".column1",
    "((- t.a) < 5)",
    "(t.k = ANY (ARRAY[$1, ...]))",
    "EXISTS(SubPlan 2)",
];

fn unknown(expr: &Expr) -> Vec<&str> {
    let raw = expr.walk().filter_map(|part| match part {
        Expr::Raw(text) => Some(text.as_str()),
        _ => None,
    });
    raw.filter(|text| !["*", "?", "..."].contains(text))
        .collect()
}

#[test]
fn a_known_expression_prints_as_its_text_and_has_no_raw_part() {
    for text in KNOWN {
        let expr = Expr::parse(text);
        assert_eq!(&expr.to_string(), text);
        assert_eq!(unknown(&expr), Vec::<&str>::new(), "{expr:#?}");
    }
}

#[test]
fn an_unknown_part_is_kept_as_text_and_leaves_the_others() {
    let text = "((t.a = 1) AND JSON_EXISTS(t.d, '$.x' PASSING 1 AS y) AND (u.b IS DOCUMENT))";
    let expr = Expr::parse(text);
    assert_eq!(expr.to_string(), text);
    assert_eq!(expr.aliases(), ["t", "u"].map(str::to_owned).into());
    assert_eq!(expr.conjuncts().len(), 3);
    for text in [
        "",
        "(",
        "'",
        "$",
        "a.",
        "(a",
        "\"",
        "CASE",
        "ARRAY[",
        "é(",
        "- -",
        "a::",
        "$01",
        "$99999999999",
    ] {
        assert_eq!(Expr::parse(text), Expr::Raw(text.to_owned()), "{text}");
    }
    let deep = format!("{}a{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(Expr::parse(&deep).to_string(), deep);
    for nested in [
        "ANY ".repeat(100_000) + "a",
        "a".to_owned() + &" IS NULL".repeat(100_000),
        "- ".repeat(5000) + "a",
        "NOT ".repeat(100_000) + "a",
        "(a.".repeat(5000),
    ] {
        assert_eq!(Expr::parse(&nested).to_string(), nested);
    }
    let long = vec!["a"; 5000].join(" + ");
    assert_eq!(Expr::parse(&long).to_string(), long);
}

#[test]
fn no_literal_survives_and_subqueries_keep_their_numbers() {
    let redacted = |text: &str| Expr::redacted(text).to_string();
    for (text, expected) in [
        (
            "((t.mail)::text = 'secret'::text)",
            "((t.mail)::text = $1::text)",
        ),
        (
            "((t.a = $3) AND (NOT (hashed SubPlan 12)))",
            "((t.a = $1) AND (NOT (hashed SubPlan 12)))",
        ),
        (
            "(t.a IS NULL) OR (t.b = true) OR (t.c = E'se\\'cret')",
            "(t.a IS NULL) OR (t.b = true) OR (t.c = $1)",
        ),
        ("f('secret', x'5ec2e7', -1.5)", "f($1, $2, $3)"),
        (
            "XMLELEMENT(NAME a, 'secret' 'secret')",
            "XMLELEMENT(NAME a, $1 $2)",
        ),
        ("'secret", "$1"),
        ("(a = $secret$ x $secret$)", "(a = $1)"),
        ("f(a, $x$ b, secret $x$)", "f(a, $1)"),
        ("(a OPERATOR('secret') b)", "(a OPERATOR($1) b)"),
        ("(a OPERATOR(public.%) b)", "(a OPERATOR(public.%) b)"),
        ("(a)::numeric(31,7)", "(a)::numeric($1, ...)"),
    ] {
        assert_eq!(redacted(text), expected);
    }
    let long = format!("(a = '{}')", "secret".repeat(1000));
    assert!(!redacted(&long).contains("secret"));
}

#[test]
fn conditions_come_apart_at_their_own_words() {
    let text = "(((t.id = $1) OR (t.mail = $2)) AND (NOT (hashed SubPlan 1)) AND t.\"a AND b\")";
    let expr = Expr::parse(text);
    let texts =
        |parts: Vec<&Expr>| -> Vec<String> { parts.iter().map(ToString::to_string).collect() };
    let parts = expr.conjuncts();
    assert_eq!(parts[0].disjuncts().len(), 2);
    assert_eq!(texts(parts[0].disjuncts()), ["t.id = $1", "t.mail = $2"]);
    assert_eq!(
        texts(parts)[1..],
        ["NOT (hashed SubPlan 1)", "t.\"a AND b\""]
    );
    assert_eq!(expr.subplans(), [(true, "SubPlan 1")]);
}

#[test]
fn names_are_columns_aliases_or_calls() {
    let expr = Expr::parse("((o.a = public.f($1)) OR (c.b > 1.5) OR (o.\"X\" = half(f(2))))");
    assert_eq!(expr.aliases(), ["c", "o"].map(str::to_owned).into());
    assert_eq!(expr.columns(), ["X", "a", "b"].map(str::to_owned).into());
    assert_eq!(expr.calls(), ["f", "half", "f"]);
    assert_eq!(expr.params(), [1].into());
    let raw = Expr::Raw("s.f(t.a, 'x.y(', $7) or hashed SubPlan 3".to_owned());
    assert_eq!(
        (raw.calls(), raw.params()),
        (vec!["f".to_owned()], [7].into())
    );
    assert_eq!(raw.aliases(), ["t"].map(str::to_owned).into());
    assert_eq!(raw.subplans(), [(true, "SubPlan 3")]);
    let bare = Expr::parse("f(t.a, u.b)").unqualified(|name| name == "a");
    assert_eq!(bare.to_string(), "f(a, u.b)");
}
