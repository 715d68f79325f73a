//! Forms of conditions that no ordinary index serves, and what to write instead, as a table.

use pgassay_model::observed::plans::Expr;

/// A form of a condition.
struct Form {
    sign: Sign,
    /// Whether such a condition looks for a few rows, whatever the planner takes by default.
    searches: bool,
    /// What to write instead.
    instead: &'static str,
}

/// How a condition shows its form.
enum Sign {
    /// It calls this function.
    Call(&'static str),
    /// It has this operator.
    Operator(&'static str),
    /// It converts to this type.
    Cast(&'static str),
    /// It looks for a value within a column.
    Member,
}

impl Sign {
    fn is_of(&self, condition: &Expr) -> bool {
        condition.walk().any(|part| match (self, part) {
            (Self::Call(name), Expr::Call(path, _)) => path
                .last()
                .is_some_and(|last| last.eq_ignore_ascii_case(name)),
            (Self::Operator(sign), Expr::Op(_, operator, _)) => operator == sign,
            (Self::Cast(to), Expr::Cast(_, of)) => of == to,
            (Self::Member, Expr::Op(_, operator, of)) => {
                let within = matches!(**of, Expr::Quantified { all: false, .. });
                within && operator == "=" && !of.columns().is_empty()
            }
            _ => false,
        })
    }
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
    form(Sign::Call("strpos"), true, WITHIN),
    form(Sign::Member, false, MEMBER),
    form(Sign::Call("date_trunc"), false, RANGE),
    form(Sign::Call("date_part"), false, RANGE),
    form(Sign::Call("extract"), false, RANGE),
    form(Sign::Call("to_char"), false, RANGE),
    form(Sign::Cast("date"), false, RANGE),
    form(Sign::Operator("~~"), false, PATTERN),
    form(Sign::Operator("~~*"), false, PATTERN_OF_ANY_CASE),
    form(Sign::Operator("~*"), false, PATTERN_OF_ANY_CASE),
    form(Sign::Operator("~"), false, PATTERN),
];

const fn form(sign: Sign, searches: bool, instead: &'static str) -> Form {
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
pub fn known(condition: &Expr) -> Option<Known> {
    let form = FORMS.iter().find(|form| form.sign.is_of(condition))?;
    Some(Known {
        searches: form.searches,
        instead: form.instead,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_any_case_is_not_told_of_an_index_of_its_beginning() {
        let instead = |condition: &str| known(&condition.into()).map(|known| known.instead);
        for condition in ["(c.name ~~* $1)", "((c.name)::text ~* $1)"] {
            assert_eq!(instead(condition), Some(PATTERN_OF_ANY_CASE), "{condition}");
        }
        assert_eq!(instead("(c.name ~~ $1)"), Some(PATTERN));
    }

    #[test]
    fn forms_that_no_index_serves_are_known() {
        let searches = |text: &str| known(&text.into()).map(|known| known.searches);
        assert_eq!(searches("(date_trunc($1::text, t.at) = $2)"), Some(false));
        assert_eq!(searches("(EXTRACT(year FROM t.at) = $1)"), Some(false));
        assert_eq!(searches("((t.name)::text ~~ $1)"), Some(false));
        assert_eq!(searches("($1 = ANY (t.tags))"), Some(false));
        assert!(known(&"(strpos(t.a, $1) > 0)".into()).is_some_and(|k| k.instead.contains("LIKE")));
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
            assert!(known(&sound.into()).is_none(), "{sound}");
        }
    }
}
