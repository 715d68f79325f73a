//! The arithmetic of `$(( ))` in a shell, as far as a settings file needs it:
//! whole numbers, variables, + - * / % **, parentheses.

use std::collections::BTreeMap;

/// The value of an expression.
///
/// # Errors
/// What is wrong with it, with the expression.
pub fn evaluate(text: &str, known: &BTreeMap<String, String>) -> Result<i64, String> {
    let mut reader = Reader {
        rest: text,
        known,
        depth: 0,
    };
    let value = reader.sum().map_err(|why| format!("$(({text})): {why}"))?;
    match reader.peek() {
        None => Ok(value),
        Some(c) => Err(format!("$(({text})): `{c}` is not understood")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    known: &'a BTreeMap<String, String>,
    depth: u32,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, sign: &str) -> bool {
        self.peek();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        loop {
            let next = if self.take("+") {
                value.checked_add(self.product()?)
            } else if self.take("-") {
                value.checked_sub(self.product()?)
            } else {
                return Ok(value);
            };
            value = next.ok_or("too large")?;
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.power()?;
        loop {
            let next = if self.rest.trim_start().starts_with("**") {
                return Ok(value);
            } else if self.take("*") {
                value.checked_mul(self.power()?)
            } else if self.take("/") {
                divide(value, self.power()?, i64::checked_div)?
            } else if self.take("%") {
                divide(value, self.power()?, i64::checked_rem)?
            } else {
                return Ok(value);
            };
            value = next.ok_or("too large")?;
        }
    }

    fn power(&mut self) -> Result<i64, String> {
        let base = self.atom()?;
        if !self.take("**") {
            return Ok(base);
        }
        let exponent = self.power()?;
        let exponent = u32::try_from(exponent).map_err(|_| "the exponent is negative")?;
        Ok(base.checked_pow(exponent).ok_or("too large")?)
    }

    fn atom(&mut self) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > 200 {
            return Err("too deep".to_owned());
        }
        let value = self.inner();
        self.depth -= 1;
        value
    }

    fn inner(&mut self) -> Result<i64, String> {
        if self.take("(") {
            let value = self.sum()?;
            return match self.take(")") {
                true => Ok(value),
                false => Err("a parenthesis is not closed".to_owned()),
            };
        }
        if self.take("-") {
            return Ok(self.atom()?.checked_neg().ok_or("too large")?);
        }
        if self.take("+") {
            return self.atom();
        }
        self.take("$");
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.is_empty() {
            return Err("a number is missing".to_owned());
        }
        let digits = match self.known.get(word) {
            Some(value) => value.as_str(),
            None => word,
        };
        digits
            .parse()
            .map_err(|_| format!("`{word}` is neither a number nor set before"))
    }
}

fn divide(
    value: i64,
    by: i64,
    operation: fn(i64, i64) -> Option<i64>,
) -> Result<Option<i64>, String> {
    match by {
        0 => Err("division by zero".to_owned()),
        by => Ok(operation(value, by)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_shell_computes() {
        let known = BTreeMap::from([("N".to_owned(), "4".to_owned())]);
        for (text, value) in [
            ("1+2*3", 7),
            (" (1 + 2) * 3 ", 9),
            ("2**10", 1024),
            ("2 ** 3 ** 2", 512),
            ("7/2", 3),
            ("7 % 4", 3),
            ("-5 + 10", 5),
            ("N * $N", 16),
            ("10 - 3 - 2", 5),
        ] {
            assert_eq!(evaluate(text, &known), Ok(value), "{text}");
        }
        for wrong in [
            "", "1+", "(1", "1 2", "X", "1/0", "5%0", "9**99", "2**-1", "1;2",
        ] {
            assert!(evaluate(wrong, &known).is_err(), "{wrong}");
        }
        let deep = "(".repeat(100_000);
        assert!(evaluate(&deep, &known).is_err());
    }
}
