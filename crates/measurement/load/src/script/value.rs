//! The four kinds of value that pgbench's expressions know, and their conversions.
//!
//! The rules (which kind converts to which, how a number is rounded or printed, what a variable's
//! text means) are pgbench's own, so that a script gives the same numbers here; they were checked
//! against the real program by running generated expressions through both.

use std::fmt;

use bytes::BufMut;
use thiserror::Error;

/// How many arguments pgbench's evaluator takes.
pub(super) const MAX_ARGUMENTS: usize = 16;

/// A value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// true or false.
    Bool(bool),
    /// pgbench's integer, 64 bits.
    Int(i64),
    /// pgbench's double.
    Double(f64),
}

/// Why an expression has no value. The texts are those that pgbench prints.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum EvalError {
    /// The kind can't be converted to the one that is needed.
    #[error("cannot coerce {from} to {to}")]
    Coerce {
        /// the kind that the value has
        from: &'static str,
        /// the kind that the operator or function asks for
        to: &'static str,
    },
    /// A double that no 64-bit integer is near to.
    #[error("double to int overflow for {0:.6}")]
    DoubleToInt(f64),
    /// An integer operation left the 64-bit range.
    #[error("bigint {0} out of range")]
    IntOverflow(&'static str),
    /// Division or remainder by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// The variable was never set.
    #[error("undefined variable \"{0}\"")]
    Undefined(String),
    /// The variable's text is neither number, boolean nor null.
    #[error("malformed variable \"{name}\" value: \"{text}\"")]
    Malformed {
        /// the variable
        name: String,
        /// its text
        text: String,
    },
    /// A function with more arguments than can be evaluated.
    #[error("too many function arguments, maximum is {}", MAX_ARGUMENTS)]
    TooManyArguments,
    /// A parameter outside of what the function takes.
    #[error("{0}")]
    Parameter(String),
}

impl Value {
    /// The kind's name in pgbench's messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "int",
            Value::Double(_) => "double",
        }
    }

    /// The value as an integer; doubles are rounded half to even, as C's `rint` does.
    pub fn to_int(self) -> Result<i64, EvalError> {
        match self {
            Value::Int(i) => Ok(i),
            Value::Double(d) => {
                let rounded = d.round_ties_even();
                // 2^63 itself does not fit, and is the first double above i64::MAX.
                if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                    Ok(rounded as i64)
                } else {
                    Err(EvalError::DoubleToInt(rounded))
                }
            }
            other => Err(EvalError::Coerce {
                from: other.kind(),
                to: "int",
            }),
        }
    }

    /// The value as a double.
    pub fn to_double(self) -> Result<f64, EvalError> {
        match self {
            Value::Double(d) => Ok(d),
            Value::Int(i) => Ok(i as f64),
            other => Err(EvalError::Coerce {
                from: other.kind(),
                to: "double",
            }),
        }
    }

    /// The value as a boolean; numbers are refused.
    pub fn to_bool(self) -> Result<bool, EvalError> {
        match self {
            Value::Bool(b) => Ok(b),
            other => Err(EvalError::Coerce {
                from: other.kind(),
                to: "boolean",
            }),
        }
    }

    /// Whether a condition (`\if`, CASE WHEN) holds: a number that is not zero does, NULL does not.
    pub fn holds(self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(b) => b,
            Value::Int(i) => i != 0,
            Value::Double(d) => d != 0.0,
        }
    }

    /// Reads a variable's text (from `-D`, `\gset` or `\setshell`) as a value.
    pub fn from_text(name: &str, text: &str) -> Result<Value, EvalError> {
        let malformed = || EvalError::Malformed {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        if text.is_empty() {
            return Err(malformed());
        }
        if text.eq_ignore_ascii_case("null") {
            return Ok(Value::Null);
        }
        // Prefixes of the words count, except for "o", which could be either.
        let abbreviates = |word: &str| {
            text.len() <= word.len()
                && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text.as_bytes())
        };
        if abbreviates("true") || abbreviates("yes") || text.eq_ignore_ascii_case("on") {
            return Ok(Value::Bool(true));
        }
        if abbreviates("false")
            || abbreviates("no")
            || text.eq_ignore_ascii_case("off")
            || text.eq_ignore_ascii_case("of")
        {
            return Ok(Value::Bool(false));
        }
        let trimmed = text.trim_start_matches(is_c_space);
        let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return trimmed.parse().map(Value::Int).map_err(|_| malformed());
        }
        if let Some(d) = parse_double(trimmed) {
            return Ok(Value::Double(d));
        }
        Err(malformed())
    }

    /// Appends the text by which the value goes into SQL.
    pub fn write_text(self, out: &mut impl BufMut) {
        match self {
            Value::Null => out.put_slice(b"NULL"),
            Value::Bool(true) => out.put_slice(b"true"),
            Value::Bool(false) => out.put_slice(b"false"),
            Value::Int(i) => write_int(i, out),
            Value::Double(d) => out.put_slice(double_text(d).as_bytes()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            Value::Double(d) => f.write_str(&double_text(*d)),
        }
    }
}

fn is_c_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Reads what C's `strtod` reads and pgbench takes: a decimal, an infinity or a NaN that is in range.
fn parse_double(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let named = text
        .bytes()
        .any(|b| b.is_ascii_alphabetic() && !matches!(b, b'e' | b'E'));
    let out_of_range = value.is_infinite() || underflows(text, value);
    (named || !out_of_range).then_some(value)
}

/// Whether a decimal text that is not zero became zero or a subnormal number, which C reports as
/// out of range.
pub(super) fn underflows(text: &str, value: f64) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    !value.is_normal() && value.is_finite() && mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b))
}

/// Appends a decimal integer. A statement's parameters are written once a transaction, so this
/// does not go through the formatting machinery.
pub fn write_int(value: i64, out: &mut impl BufMut) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[at..]);
}

/// A double with 15 significant digits, as C's `%.15g` writes it in PostgreSQL's own printf.
pub fn double_text(value: f64) -> String {
    const DIGITS: i32 = 15;
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs());
    }
    let decimals = (DIGITS - 1 - exponent).max(0) as usize;
    trim_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_c_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e15, "1e+15"),
            (123456789012345.0, "123456789012345"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e300, "1.5e+300"),
            (999999999999999.9, "1e+15"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(value), text);
        }
    }

    #[test]
    fn integers_print_to_their_limits() {
        for value in [0, 7, -1, i64::MAX, i64::MIN, 1_000_000] {
            let mut out = Vec::new();
            write_int(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn texts_are_read_as_pgbench_reads_them() {
        let read = |text| Value::from_text("x", text);
        assert_eq!(read("NuLL"), Ok(Value::Null));
        assert_eq!(read("y"), Ok(Value::Bool(true)));
        assert_eq!(read("fal"), Ok(Value::Bool(false)));
        assert_eq!(read("of"), Ok(Value::Bool(false)));
        assert!(read("o").is_err());
        assert_eq!(read(" +12"), Ok(Value::Int(12)));
        assert_eq!(read("1e3"), Ok(Value::Double(1000.0)));
        assert_eq!(read("inf"), Ok(Value::Double(f64::INFINITY)));
        assert!(read("1e999").is_err());
        assert!(read("").is_err());
        assert!(read("9223372036854775808").is_err());
        assert!(read("twelve").is_err());
    }

    #[test]
    fn rounding_is_half_to_even_and_checked() {
        assert_eq!(Value::Double(2.5).to_int(), Ok(2));
        assert_eq!(Value::Double(-3.5).to_int(), Ok(-4));
        assert!(Value::Double(9.3e18).to_int().is_err());
        assert!(Value::Double(f64::NAN).to_int().is_err());
        assert!(Value::Bool(true).to_int().is_err());
    }
}
