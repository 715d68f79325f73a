//! Forms of conditions that no index serves, with what is written instead.

/// A form of an operand, or of what it is compared with.
pub(super) struct Form {
    /// How the expression shows it. `{column}`, `{table}` and `{own}`, the expression as an index has it, are filled in below.
    pub signs: &'static [&'static str],
    pub instead: &'static [&'static str],
}

pub(super) const OWN_INDEX: &str = "CREATE INDEX CONCURRENTLY ON {table} ({own});";

/// What is drawn anew for each row.
pub(super) const VOLATILE: &[Form] = &[
    Form {
        signs: &["clock_timestamp(", "timeofday("],
        instead: &[
            "write now(), or statement_timestamp(), in the place of clock_timestamp(): that is VOLATILE, so it is called for each row and no index on {column} serves a \
             comparison with it; where it must be the clock, compute it once: {column} {operator} (SELECT clock_timestamp() …)",
        ],
    },
    Form {
        signs: &[
            "random(",
            "gen_random_uuid(",
            "uuid_generate_v4(",
            "nextval(",
            "currval(",
            "lastval(",
        ],
        instead: &[
            "compute the value once, in a subquery: {column} {operator} (SELECT …), which an index on {column} serves; as it stands, the VOLATILE function \
             is called for each row, and gives each another value",
        ],
    },
];

/// What has to be written otherwise, the first that an operand shows counting.
pub(super) const FORMS: &[Form] = &[
    Form {
        signs: &["CASE "],
        instead: &[
            "leave the CASE out of the condition: write {column} {operator} value where it is asked for, and no condition where it is not (a statement built from \
             what is set, or one for each case, UNION ALL): a column within CASE is served by no index",
        ],
    },
    Form {
        signs: &[" AT TIME ZONE ", "timezone("],
        instead: &[
            "compare {column} itself with the instants at which the day begins and ends: {column} >= day::timestamp AT TIME ZONE 'zone' AND {column} < (day + 1)::timestamp AT \
             TIME ZONE 'zone', which an index on ({column}) serves",
            "or an index on the expression, with the zone spelt out in both: CREATE INDEX CONCURRENTLY ON {table} ((({column} AT TIME ZONE 'zone')::date))",
        ],
    },
    Form {
        signs: &["COALESCE(", "NULLIF("],
        instead: &[
            "compare the column itself, which an index on ({column}) serves: {column} {operator} value, with OR {column} IS NULL where the replacement of NULL meets the \
             condition, too; or declare it NOT NULL",
            "or an index on the expression: CREATE INDEX CONCURRENTLY ON {table} ({own}), with the same constants",
        ],
    },
    Form {
        signs: &["unaccent("],
        instead: &[
            "unaccent() is STABLE, so that no index can have it: CREATE FUNCTION f_unaccent(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS \
             $$ SELECT public.unaccent('public.unaccent', $1) $$; then CREATE INDEX CONCURRENTLY ON {table} (f_unaccent(lower({column}))), and f_unaccent(lower({column})) in \
             the statement",
        ],
    },
    Form {
        signs: &[
            "pgp_sym_decrypt(",
            "pgp_pub_decrypt(",
            "decrypt(",
            "decrypt_iv(",
        ],
        instead: &[
            "keep beside the encrypted {column} a column with a keyed digest of the value, hmac(value, 'key', 'sha256'), with an index on it, and search by that: \
             digest = hmac(value, 'key', 'sha256'); then one row is decrypted, not all",
        ],
    },
    Form {
        signs: &["crypt("],
        instead: &[
            "find the row by something that is not a slow hash (its number, a prefix of the token, or sha256() of it in an indexed column), and check that one by crypt()",
        ],
    },
    Form {
        signs: &["xpath(", "xmlexists("],
        instead: &[
            "index what is searched for, the expression with its path as in the statement: CREATE INDEX CONCURRENTLY ON {table} (((xpath('…', {column}))[1]::text)); or keep it in a \
             column of its own, filled on writing: as it stands, the XML of each row is parsed",
        ],
    },
    Form {
        signs: &["jsonb_path_exists(", "jsonb_path_match("],
        instead: &[
            "write the operator in the place of the function, as an index answers operators only: {column} @? 'path' (or {column} @@ 'path'), with an index \
             USING gin ({column} jsonb_path_ops)",
        ],
    },
    Form {
        signs: &["earth_distance("],
        instead: &[
            "bound the rows first by what a GiST index serves: earth_box(centre, metres) @> ll_to_earth(lat, lon) AND earth_distance(…) < metres, with CREATE INDEX CONCURRENTLY ON {table} USING \
             gist (ll_to_earth(lat, lon))",
        ],
    },
    Form {
        signs: &["age("],
        instead: &[
            "compare {column} itself: {column} > now() - interval '…' in the place of age(…, {column}) < interval '…', which an index on ({column}) serves",
        ],
    },
    Form {
        signs: &["EXTRACT(epoch"],
        instead: &[
            "compare {column} itself: {column} > now() - interval '…' in the place of extract(epoch FROM now() - {column}) < …, which an index on ({column}) serves",
        ],
    },
    Form {
        signs: &[
            "date_trunc(",
            "date_part(",
            "EXTRACT(",
            "to_char(",
            ")::date",
        ],
        instead: &[
            "compare {column} itself with the bounds, {column} >= … AND {column} < …, which an index on ({column}) serves, in the place of a function of the column \
             (for a day of the week or a month of each year: an index on the expression, for timestamptz with AT TIME ZONE within it)",
        ],
    },
    Form {
        signs: &["to_date(", "to_timestamp(", "to_number("],
        instead: &[
            "give the column the type that it is compared as: ALTER TABLE {table} ALTER {column} TYPE … USING …; then an index on ({column}) serves the condition; as it stands, the \
             text of each row is read anew",
        ],
    },
    Form {
        signs: &["concat(", "concat_ws(", "format("],
        instead: &[
            "compare the columns by themselves, first = … AND last = …, with an index on them; concat() is STABLE, so no index can have it: for the whole, || in its place and \
             an index on that expression",
        ],
    },
    Form {
        signs: &[" || "],
        instead: &[
            "compare the columns by themselves, first = … AND last = …, with an index on them",
            "or an index on the expression, with the same constants between: CREATE INDEX CONCURRENTLY ON {table} ({own})",
        ],
    },
    Form {
        signs: &["unnest(", "array_to_string("],
        instead: &[
            "compare the array itself: {column} @> ARRAY[value], which an index USING gin ({column}) serves",
        ],
    },
];

/// Functions of which one may be taken for another.
pub(super) const RELATED: &[&[&str]] = &[
    &["upper", "lower", "initcap", "btrim", "ltrim", "rtrim"],
    &["to_tsvector"],
    &["date_trunc", "timezone", "EXTRACT", "date_part"],
    &[
        "substr",
        "left",
        "right",
        "reverse",
        "\"substring\"",
        "substring",
    ],
];

/// Types of columns (with `*` those that end so), operators on them, and the access method and operator class of the index that answers these.
pub(super) const ANSWERED: &[(&[&str], &[&str], &str, &str)] = &[
    (&["*[]"], &["@>", "<@", "&&"], "gin", ""),
    (&["jsonb"], &["@>", "?", "?|", "?&", "@?", "@@"], "gin", ""),
    (&["tsvector"], &["@@"], "gin", ""),
    (&["hstore"], &["@>", "?", "?|", "?&"], "gin", ""),
    (
        &["*range"],
        &["@>", "<@", "&&", "<<", ">>", "-|-"],
        "gist",
        "",
    ),
    (
        &["point", "box", "circle", "polygon"],
        &["@>", "<@", "&&", "~=", "<<", ">>"],
        "gist",
        "",
    ),
    (
        &["inet", "cidr"],
        &["<<", "<<=", ">>", ">>=", "&&"],
        "gist",
        "inet_ops",
    ),
    (&["ltree"], &["@>", "<@", "~", "?", "@"], "gist", ""),
];
