//! How flags take shares and lengths of time.

/// `1%`, `0.5 %` or `2` as a share.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        Ok(_) => Err("between 0 and 100 %".to_owned()),
        Err(_) => Err(format!("`{text}` is no percentage, such as 1% or 0.5%")),
    }
}

pub(super) fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(m) if (0.1..=10_000.0).contains(&m) => Ok(m),
        Ok(_) => Err("between 0.1 and 10000 minutes".to_owned()),
        Err(_) => Err(format!("`{text}` is not a number of minutes")),
    }
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.05..=86_400.0).contains(&s) => Ok(s),
        Ok(_) => Err("between 0.05 seconds and a day".to_owned()),
        Err(_) => Err(format!("`{text}` is not a number of seconds")),
    }
}

pub(super) fn seconds_or_zero(text: &str) -> Result<f64, String> {
    if text.parse() == Ok(0.0) {
        Ok(0.0)
    } else {
        seconds(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(percent("1%"), Ok(0.01));
        assert_eq!(percent("0.5 %"), Ok(0.005));
        assert_eq!(percent("3"), Ok(0.03));
        for wrong in ["-1%", "nan", "much", "101%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
