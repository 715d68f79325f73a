//! Columns that are compared as they are, by an operator that their index does not know.

use pgassay_model::observed::plans::IndexFacts;
use pgassay_text::quote::quote_ident;

use super::super::conditions::unqualified;
use super::table::ANSWERED;
use super::{Compared, Rewrite, column_in};
use crate::finding::StepKind;

impl Compared<'_> {
    /// A column as it is, with an operator that its index does not know.
    pub(super) fn by_operator(&self) -> Option<Rewrite> {
        let column = quote_ident(self.column);
        let own = self
            .indexes()
            .find(|index| index.first.as_deref() == Some(self.column));
        let by_other_method = self.by_other_method(own);
        if by_other_method.is_some() {
            return by_other_method;
        }
        match (self.operator, own) {
            ("@>" | "&&" | "<@", Some(index))
                if self.kind() == "integer[]" && index.operator_class == "array_ops" =>
            {
                Some(Rewrite {
                    steps: vec![
                        (
                            StepKind::Sql,
                            format!(
                                "CREATE INDEX CONCURRENTLY ON {} USING gin ({column} gin__int_ops);   -- with the extension intarray {} is its own operator, which \
                                 {}, of {}, does not know",
                                self.table, self.operator, index.name, index.operator_class
                            ),
                        ),
                        (
                            StepKind::Advice,
                            format!(
                                "or name the operator of the server's own: {column} OPERATOR(pg_catalog.{}) …; or DROP EXTENSION intarray where nothing needs it",
                                self.operator
                            ),
                        ),
                    ],
                })
            }
            ("<>", own) if !self.other.contains("SubPlan") => Some(self.unequal(own)),
            ("<" | ">" | "<=" | ">=" | "=", _) if column_in(self.other, self.facts).is_some() => {
                Some(Rewrite {
                    steps: vec![(
                        StepKind::Advice,
                        format!(
                            "two columns of a row are compared, which an index on either does not serve: an index of the rows that meet it, CREATE INDEX CONCURRENTLY ON {} (…) WHERE {} {} {}, on the \
                         columns of the other conditions or of ORDER BY",
                            self.table,
                            unqualified(self.operand, self.facts),
                            self.operator,
                            unqualified(self.other, self.facts)
                        ),
                    )],
                })
            }
            ("<" | ">" | "<=" | ">=", None) if !self.other.contains("SubPlan") => Some(Rewrite {
                steps: vec![(
                    StepKind::Sql,
                    format!("CREATE INDEX CONCURRENTLY ON {} ({column});", self.table),
                )],
            }),
            _ => None,
        }
    }

    /// A few rows that are found by not being what most are.
    fn unequal(&self, own: Option<&IndexFacts>) -> Rewrite {
        let (column, table) = (quote_ident(self.column), self.table);
        let served = match own {
            Some(index) => format!(", which {} answers", index.name),
            None => format!(", with an index on ({column})"),
        };
        Rewrite {
            steps: vec![
                (
                    StepKind::Advice,
                    format!(
                        "name the values that are wanted, {column} IN ('…', '…'){served}, in the place of {column} <> value: a B-tree has no search for <>"
                    ),
                ),
                (
                    StepKind::Advice,
                    format!(
                        "or an index of the few rows alone, on the columns of ORDER BY or the key: CREATE INDEX CONCURRENTLY ON {table} (…) WHERE {column} <> 'value'; \
                         the statement must have the value as a constant, and no parameter, for it to be used"
                    ),
                ),
            ],
        }
    }

    /// An operator that indexes of one access method answer, where there is none, or one of another method.
    fn by_other_method(&self, own: Option<&IndexFacts>) -> Option<Rewrite> {
        let kind = self.kind();
        let kind = kind.strip_prefix("public.").unwrap_or(kind);
        let (_, _, method, class) = ANSWERED.iter().find(|(of, operators, ..)| {
            of.iter().any(|of| match of.strip_prefix('*') {
                Some(end) => kind.ends_with(end),
                None => kind == *of,
            }) && operators.contains(&self.operator)
        })?;
        let mut indexes = self.indexes();
        let fits = indexes.any(|index| {
            index.first.as_deref() == Some(self.column)
                && (index.method == *method || index.method == "spgist" || index.method == "brin")
        });
        if fits {
            return None;
        }
        let column = quote_ident(self.column);
        let class = match class.is_empty() {
            true => String::new(),
            false => format!(" {class}"),
        };
        let why = own.map_or_else(String::new, |index| {
            format!(
                "   -- {}, of the method {}, answers comparisons of whole values, and no {}",
                index.name, index.method, self.operator
            )
        });
        Some(Rewrite {
            steps: vec![(
                StepKind::Sql,
                format!(
                    "CREATE INDEX CONCURRENTLY ON {} USING {method} ({column}{class});{why}",
                    self.table
                ),
            )],
        })
    }
}
