//! The known word that a mistyped one was most likely meant to be.

/// Returns the known word nearest to what was typed: a swapped, missing or wrong letter or two away. Case, and `_` for
/// `-`, do not count.
pub fn nearest<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let folded = |word: &str| word.to_lowercase().replace('_', "-");
    let typed = folded(typed);
    let distance = |known: &str| strsim::damerau_levenshtein(&typed, &folded(known));
    known
        .into_iter()
        .map(|known| (distance(known), known))
        .min()
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .map(|(_, known)| known)
}

/// Returns `; did you mean 'WORD'?`, or nothing where no known word is near.
pub fn did_you_mean<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(typed, known).map_or_else(String::new, |known| format!("; did you mean '{known}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_no_far_one() {
        let workloads = ["tpcb-like", "select-only", "simple-update"];
        for (typed, meant) in [
            ("select_only", Some("select-only")),
            ("SELECT-ONLY", Some("select-only")),
            ("slect-only", Some("select-only")),
            ("tcpb-like", Some("tpcb-like")),
            ("colour-of-the-sky", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, workloads), meant, "{typed}");
        }
        assert_eq!(
            did_you_mean("hst", ["host", "port"]),
            "; did you mean 'host'?"
        );
        assert_eq!(did_you_mean("x".repeat(5000).as_str(), workloads), "");
    }
}
