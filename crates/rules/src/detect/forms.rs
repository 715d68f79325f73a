//! Forms of conditions that no ordinary index serves, and what to write instead, as a table.

use super::conditions::{aliases, conjuncts};

/// A form of a condition.
struct Form {
    /// How a condition shows it; one with `(` is a function's name.
    sign: &'static str,
    /// Whether such a condition looks for a few rows, whatever the planner takes by default.
    searches: bool,
    /// What to write instead.
    instead: &'static str,
}

const RANGE: &str = "compare the column itself with the bounds (column >= … AND column < …), which an index on it serves, in the place of a \
                     function of the column";
const SIMILAR: &str = "write the operator in the place of the function, as an index answers operators only: column % value (threshold: \
                       pg_trgm.similarity_threshold), column <% value for word_similarity, column <-> value in ORDER BY; with an index USING \
                       gin (column gin_trgm_ops), or gist for <->";
const PATTERN: &str = "for a pattern that begins with its text an index (column text_pattern_ops), which is needed in every collation but C; \
                       for one that begins with % an index USING gin (column gin_trgm_ops), from the extension pg_trgm";
const PATTERN_OF_ANY_CASE: &str = "an index USING gin (column gin_trgm_ops), from the extension pg_trgm, serves it wherever the pattern begins; for one that begins with its \
                       text also lower(column) LIKE lower(value), with an index (lower(column) text_pattern_ops)";
const WITHIN: &str = "write it as column LIKE '%' || value || '%', which an index USING gin (column gin_trgm_ops), from the extension pg_trgm, \
                      serves";
const DISTANCE: &str = "write ST_DWithin(a, b, distance) in the place of ST_Distance(a, b) < distance: a GiST index serves it";
const MEMBER: &str = "write it by an operator that an index USING gin (column) serves: column @> ARRAY[value], for arrays; column @> '{…}' and \
                      column ? key, for jsonb";

const OF_PREFIXES: &str = "the pattern comes from the column, which no index serves: ask for the prefixes that the value has, column = ANY (ARRAY[left(value, 1), \
                           left(value, 2), …]), which an index on the column answers; for the longest one ORDER BY length(column) DESC LIMIT 1";
const OF_EXPRESSIONS: &str = "each row brings a regular expression of its own, which no index serves, and a session keeps the last 32 that it has compiled: put \
                              them together into one (string_agg(column, '|'), kept where they change seldom), or look for words in their place (LIKE, a \
                              text search)";

const NULL_SAFE: &str = "compare with =, which an index serves, and with IS NULL where the value is null, in the place of IS NOT DISTINCT FROM \
                         (object mappers: their setting for the meaning of null)";
const LISTED: &str = "a list that is kept in a text is searched, which no index serves: keep its elements as rows of a table of their own, with a \
                      key on (element, id); or as an array, with an index USING gin (column) and column @> ARRAY[value]";

/// The first that a condition shows counts.
const FORMS: &[Form] = &[
    form("string_to_array(", true, LISTED),
    form("regexp_split_to_array(", true, LISTED),
    form("similarity(", true, SIMILAR),
    form("word_similarity(", true, SIMILAR),
    form("strict_word_similarity(", true, SIMILAR),
    form("levenshtein(", true, SIMILAR),
    form("st_distance(", true, DISTANCE),
    form("strpos(", true, WITHIN),
    form("position(", true, WITHIN),
    form("array_position(", true, MEMBER),
    form("jsonb_exists(", true, MEMBER),
    form(" = ANY (", false, MEMBER),
    form("date_trunc(", false, RANGE),
    form("date_part(", false, RANGE),
    form("extract(", false, RANGE),
    form("to_char(", false, RANGE),
    form(")::date", false, RANGE),
    form(" ~~ ", false, PATTERN),
    form(" ~~* ", false, PATTERN_OF_ANY_CASE),
    form(" ~* ", false, PATTERN_OF_ANY_CASE),
    form(" ~ ", false, PATTERN),
];

const fn form(sign: &'static str, searches: bool, instead: &'static str) -> Form {
    Form {
        sign,
        searches,
        instead,
    }
}

/// A known form, as a condition shows it.
pub(super) struct Known {
    /// Whether it looks for a few rows.
    pub searches: bool,
    /// What to write instead.
    pub instead: &'static str,
}

/// Whether a condition takes its pattern or its list from the row, so that what it compares is no value of the statement.
pub(super) fn is_of_row(condition: &str) -> bool {
    let lower = condition.to_ascii_lowercase();
    let patterns = [" ~~ ", " ~~* ", " ~ ", " ~* "];
    conjuncts(&lower)
        .iter()
        .any(|part| searches_list(part) || pattern_of_row(part, &patterns))
}

/// What is known of a condition's form; none where an index may serve it as it is.
pub(super) fn known(condition: &str) -> Option<Known> {
    let lower = condition.to_ascii_lowercase();
    let shows = |form: &&Form| {
        let sign = form.sign.to_ascii_lowercase();
        lower.match_indices(&sign).any(|(at, _)| {
            let before = lower[..at].chars().next_back();
            let function = sign.ends_with('(') && !sign.starts_with(' ');
            // A column before `= ANY` is a list of values, which an index serves.
            let listed = sign.starts_with(" = any")
                && !before.is_some_and(|c| c.is_ascii_digit() || c == ')');
            !(listed || function && before.is_some_and(|c| c.is_alphanumeric() || c == '_'))
        })
    };
    let parts = conjuncts(&lower);
    let of_part = |is: fn(&str) -> bool, searches, instead| {
        let one = parts.iter().any(|part| is(part));
        one.then_some(Known { searches, instead })
    };
    if let Some(list) = of_part(searches_list, true, LISTED) {
        return Some(list);
    }
    if let Some(prefixes) = of_part(
        |part| pattern_of_row(part, &[" ~~ ", " ~~* "]),
        true,
        OF_PREFIXES,
    ) {
        return Some(prefixes);
    }
    if let Some(expressions) = of_part(
        |part| pattern_of_row(part, &[" ~ ", " ~* "]),
        true,
        OF_EXPRESSIONS,
    ) {
        return Some(expressions);
    }
    let Some(form) = FORMS.iter().find(shows) else {
        return of_part(is_null_safe, false, NULL_SAFE);
    };
    // `(t.a)::text = ANY ($1)`: on the right there must be a column.
    let member = form.sign.contains("ANY");
    let of_values = lower.contains(" = any ('")
        || lower.contains(" = any ($")
        || lower.contains(" = any (array[");
    (!(member && of_values)).then_some(Known {
        searches: form.searches,
        instead: form.instead,
    })
}

/// `(NOT (t.a IS DISTINCT FROM $1))`, which is written as IS NOT DISTINCT FROM.
fn is_null_safe(part: &str) -> bool {
    part.trim_start_matches('(').starts_with("not (") && part.contains(" is distinct from ")
}

/// `$1 ~~ (r.prefix || '%')`, `c.body ~* b.pattern`: on the right of the operator there is a column.
fn pattern_of_row(part: &str, operators: &[&str]) -> bool {
    let mut sides = operators.iter().filter_map(|op| part.split_once(op));
    sides.any(|(_, right)| !aliases(right).is_empty())
}

/// `((',' || t.ids) || ',') ~~ '%,7,%'`: a column between two constants.
fn searches_list(part: &str) -> bool {
    let Some((joined, _)) = part.split_once(" ~~ ") else {
        return false;
    };
    let is_constant = |piece: &str| piece.trim_matches(['(', ' ']).starts_with(['$', '\'']);
    match &joined.split(" || ").collect::<Vec<_>>()[..] {
        [first, .., last] if joined.matches(" || ").count() >= 2 => {
            is_constant(first) && is_constant(last)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_a_row_brings_are_told_of_the_value() {
        let instead = |condition: &str| known(condition).map(|known| known.instead);
        assert_eq!(
            instead("($1::text ~~ (rate.prefix || $2::text))"),
            Some(OF_PREFIXES)
        );
        assert_eq!(instead("(c.body ~* b.pattern)"), Some(OF_EXPRESSIONS));
        assert_eq!(
            instead("(rate.prefix ~~ ($1::text || '%'::text))"),
            Some(PATTERN)
        );
    }

    #[test]
    fn a_pattern_of_any_case_is_not_told_of_an_index_of_its_beginning() {
        let instead = |condition: &str| known(condition).map(|known| known.instead);
        for condition in ["(c.name ~~* $1)", "((c.name)::text ~* $1)"] {
            assert_eq!(instead(condition), Some(PATTERN_OF_ANY_CASE), "{condition}");
        }
        assert_eq!(instead("(c.name ~~ $1)"), Some(PATTERN));
    }

    #[test]
    fn forms_that_no_index_serves_are_known() {
        let searches = |text| known(text).map(|known| known.searches);
        assert_eq!(searches("(similarity(s.name, $1) > $2)"), Some(true));
        assert_eq!(searches("(public.similarity(s.name, $1) > $2)"), Some(true));
        assert_eq!(searches("(date_trunc($1::text, t.at) = $2)"), Some(false));
        assert_eq!(searches("(EXTRACT(year FROM t.at) = $1)"), Some(false));
        assert_eq!(searches("((t.name)::text ~~ $1)"), Some(false));
        assert_eq!(searches("($1 = ANY (t.tags))"), Some(false));
        assert!(known("(strpos(t.a, $1) > 0)").is_some_and(|k| k.instead.contains("LIKE")));
        let says = |text: &str, what: &str| known(text).is_some_and(|k| k.instead.contains(what));
        assert!(says("(NOT (t.a IS DISTINCT FROM $1))", "IS NULL"));
        let listed = "((($1::text || a.categories) || $2::text) ~~ $3::text)";
        assert!(says(listed, "a list that is kept in a text"));
        assert!(says(
            "($1 = ANY (string_to_array(a.ids, $2)))",
            "a list that is kept"
        ));
        for names in [
            "((a.one || a.two) ~~ $1)",
            "(((t.first || $1::text) || t.last) ~~ $2)",
        ] {
            assert!(says(names, "pattern"), "{names}");
        }
    }

    #[test]
    fn what_an_index_serves_as_it_is_has_no_such_form() {
        for sound in [
            "(t.id = $1)",
            "(t.id = ANY ($1))",
            "((t.kind)::text = ANY ($1::text[]))",
            "(my_similarity(t.a) = 1)",
            "(t.a % $1)",
            "(t.a @@ $1)",
            "(t.mail = lower($1))",
            "(t.a IS DISTINCT FROM $1)",
            "(NOT (t.a = $1))",
        ] {
            assert!(known(sound).is_none(), "{sound}");
        }
    }
}
