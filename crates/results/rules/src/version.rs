//! PostgreSQL's version numbers, as people and as the server write them.

/// `server_version_num` of a version as people write it: `9.4`, `9.4.4`, `15`, `15.18`, `19beta1`.
pub fn version_number(text: &str) -> Option<u32> {
    let text = text.trim();
    let plain: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let mut parts = plain.split('.').map(|p| p.parse::<u32>().ok());
    let first = parts.next()??;
    let rest: Vec<u32> = parts.collect::<Option<_>>()?;
    let at = |i: usize| rest.get(i).copied().unwrap_or(0);
    if !(7..1000).contains(&first) || at(0) > 9999 || at(1) > 99 || rest.len() > 2 {
        return None;
    }
    if first >= 10 {
        (rest.len() <= 1).then(|| first * 10_000 + at(0))
    } else {
        Some(first * 10_000 + at(0).min(99) * 100 + at(1))
    }
}

/// `9.4`, `15`: the major version as people say it.
pub fn major(version_num: u32) -> String {
    if version_num >= 100_000 {
        (version_num / 10_000).to_string()
    } else {
        format!("{}.{}", version_num / 10_000, version_num / 100 % 100)
    }
}

/// `15.18`, `9.6.24`: the release.
pub fn written(version_num: u32) -> String {
    if version_num >= 100_000 {
        format!("{}.{}", version_num / 10_000, version_num % 10_000)
    } else {
        format!("{}.{}", major(version_num), version_num % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_people_write_them() {
        for (text, number) in [
            ("9.4", Some(90_400)),
            ("9.4.4", Some(90_404)),
            ("15", Some(150_000)),
            ("15.18", Some(150_018)),
            ("19beta1", Some(190_000)),
            ("", None),
            ("x", None),
            ("15.1.2", None),
            ("99999999999", None),
            ("9..4", None),
        ] {
            assert_eq!(version_number(text), number, "{text}");
        }
        assert_eq!(major(90_404), "9.4");
        assert_eq!(major(150_018), "15");
        assert_eq!(written(150_018), "15.18");
        assert_eq!(written(90_624), "9.6.24");
    }
}
