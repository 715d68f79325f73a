//! Expressions as text.

use std::fmt::{self, Display, Formatter};

use super::Expr;

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(path) => f.write_str(&path.join(".")),
            Self::Param(number) => write!(f, "${number}"),
            Self::Const(text) | Self::Raw(text) => f.write_str(text),
            Self::Call(path, arguments) => {
                write!(f, "{}(", path.join("."))?;
                leading(f, arguments)?;
                f.write_str(")")
            }
            Self::Op(left, operator, right) => write!(f, "{left} {operator} {right}"),
            Self::Prefix(operator, of) => write!(f, "{operator} {of}"),
            Self::And(parts) => joined(f, parts, " AND "),
            Self::Or(parts) => joined(f, parts, " OR "),
            Self::Not(of) => write!(f, "NOT {of}"),
            Self::Is(of, what) => write!(f, "{of} IS {what}"),
            Self::Cast(of, to) => write!(f, "{of}::{to}"),
            Self::Quantified { all, of } => {
                write!(f, "{} {of}", if *all { "ALL" } else { "ANY" })
            }
            Self::SubPlan { hashed, name } => {
                write!(f, "{}{name}", if *hashed { "hashed " } else { "" })
            }
            Self::Case(parts) => {
                f.write_str("CASE")?;
                leading(f, parts)?;
                f.write_str(" END")
            }
            Self::Array(parts) => {
                f.write_str("ARRAY[")?;
                joined(f, parts, ", ")?;
                f.write_str("]")
            }
            Self::Element(of, index) => write!(f, "{of}[{index}]"),
            Self::Field(of, name) => write!(f, "{of}.{name}"),
            Self::Collate(of, name) => write!(f, "{of} COLLATE {name}"),
            Self::Key(of, how) => write!(f, "{of}{how}"),
            Self::Paren(of) => write!(f, "({of})"),
            Self::List(parts) => joined(f, parts, ", "),
        }
    }
}

fn joined(f: &mut Formatter<'_>, parts: &[Expr], between: &str) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        part.fmt(f)?;
    }
    Ok(())
}

fn leading(f: &mut Formatter<'_>, parts: &[(&str, Expr)]) -> fmt::Result {
    parts
        .iter()
        .try_for_each(|(before, part)| write!(f, "{before}{part}"))
}
