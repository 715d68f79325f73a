//! Forms of conditions that no ordinary index serves, and what to write instead, as a table.

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
const PATTERN: &str = "for a pattern that begins with its text an index (column text_pattern_ops), which is needed in every collation but C; \
                       for one that begins with % an index USING gin (column gin_trgm_ops), from the extension pg_trgm";
const PATTERN_OF_ANY_CASE: &str = "an index USING gin (column gin_trgm_ops), from the extension pg_trgm, serves it wherever the pattern begins; for one that begins with its \
                       text also lower(column) LIKE lower(value), with an index (lower(column) text_pattern_ops)";
const WITHIN: &str = "write it as column LIKE '%' || value || '%', which an index USING gin (column gin_trgm_ops), from the extension pg_trgm, \
                      serves";
const MEMBER: &str = "write it by an operator that an index USING gin (column) serves: column @> ARRAY[value], for arrays; column @> '{…}' and \
                      column ? key, for jsonb";

/// The first that a condition shows counts.
const FORMS: &[Form] = &[
    form("strpos(", true, WITHIN),
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
pub struct Known {
    /// Whether it looks for a few rows.
    pub searches: bool,
    /// What to write instead.
    pub instead: &'static str,
}

/// What is known of a condition's form; none where an index may serve it as it is.
pub fn known(condition: &str) -> Option<Known> {
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
    let form = FORMS.iter().find(shows)?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(searches("(date_trunc($1::text, t.at) = $2)"), Some(false));
        assert_eq!(searches("(EXTRACT(year FROM t.at) = $1)"), Some(false));
        assert_eq!(searches("((t.name)::text ~~ $1)"), Some(false));
        assert_eq!(searches("($1 = ANY (t.tags))"), Some(false));
        assert!(known("(strpos(t.a, $1) > 0)").is_some_and(|k| k.instead.contains("LIKE")));
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
