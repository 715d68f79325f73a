//! Whole numbers in words and with separators, and amounts of memory.

/// The sign of a negative figure: a minus and no hyphen.
pub const MINUS: &str = "\u{2212}";

/// A count, exact, with thousands separators.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// How many there are of what is named in the singular: `1 client`, `1,000 clients`.
pub fn counted(n: impl Into<u64>, one: &str) -> String {
    match n.into() {
        1 => format!("1 {one}"),
        n => format!("{} {one}s", count(n)),
    }
}

/// Bytes of an amount of memory as PostgreSQL writes its settings: `64kB`, `128MB`; none without a unit.
pub fn memory_bytes(setting: &str) -> Option<u64> {
    let digits = setting.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &setting[digits.len()..] {
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

/// A number's digits before the point in groups of three; a zero loses its sign.
pub fn grouped(number: &str) -> String {
    let (sign, rest) = match number.strip_prefix('-') {
        Some(rest) => (MINUS, rest),
        None => ("", number),
    };
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    // rounding can leave a zero with a sign
    match out.strip_prefix(MINUS) {
        Some(zero) if !zero.contains(|c: char| ('1'..='9').contains(&c)) => zero.to_owned(),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_grouped_and_agree_with_their_noun() {
        assert_eq!(count(1234567), "1,234,567");
        assert_eq!(grouped("-0.00"), "0.00");
        assert_eq!(grouped("-1234.5"), "−1,234.5");
        assert_eq!(memory_bytes("64kB"), Some(65_536));
        assert_eq!(memory_bytes("1 GB"), Some(1 << 30));
        for none in ["", "kB", "64", "64kb", "-1MB", "99999999TB"] {
            assert_eq!(memory_bytes(none), None, "{none}");
        }
        assert_eq!(counted(1u32, "client"), "1 client");
        assert_eq!(counted(1000u32, "client"), "1,000 clients");
    }
}
