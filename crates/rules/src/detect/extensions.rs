//! Libraries that are known by what they are slow at, as a table.

use super::hits::weighty;
use crate::evidence::RunEvidence;
use crate::finding::Observation;

/// What is known of a library.
struct Known {
    /// How the names of its files begin.
    library: &'static str,
    /// Parts of the names of functions, of which one must be among the hottest; any if none.
    symbols: &'static [&'static str],
    /// A setting of it that makes it slower the lower it is, and the value below which it is named. (A server's session shows it only
    /// with the library loaded: `OF_LIBRARIES` of the program's subject.rs reads it elsewhere.)
    setting: Option<(&'static str, f64)>,
    /// What its time goes to.
    why: &'static str,
    /// What to do instead.
    instead: &'static [&'static str],
}

const KNOWN: &[Known] = &[
    Known {
        library: "pgcrypto",
        symbols: &["crypt_blowfish", "px_crypt", "crypt_des", "crypt_md5"],
        setting: None,
        why: "crypt() is slow on purpose, so that passwords that people choose can't be guessed: each call takes milliseconds of a CPU, and twice as \
              many for each step of the count that gen_salt() was given (bf).",
        instead: &[
            "for tokens and keys, which are long and random, keep a plain digest (sha256(), digest(), hmac()), and compare with that; an index \
             serves it",
            "for passwords, check once and hand out a session, or check in the application",
        ],
    },
    Known {
        library: "pgcrypto",
        symbols: &[
            "pgp_sym_decrypt",
            "pgp_pub_decrypt",
            "pgp_decrypt",
            "decrypt",
            "s2k",
            "pullf_",
        ],
        setting: None,
        why: "Values are decrypted. A search by pgp_sym_decrypt(column, key) = value decrypts each row, and derives the key anew for each (s2k).",
        instead: &[
            "keep beside it a column with a keyed digest, hmac(value, 'key', 'sha256'), with an index on it, and search by that; then only the row that is found is decrypted",
            "decrypt only what is shown, after LIMIT",
        ],
    },
    Known {
        library: "libicu",
        symbols: &[],
        setting: None,
        why: "Texts are compared by an ICU collation. A nondeterministic one (that takes upper and lower case, or accents, for equal) makes a sort \
              key of each value for hashing (GROUP BY, DISTINCT, hash joins).",
        instead: &[
            "COLLATE \"C\" for codes, keys and whatever nobody reads in order: in the column's definition, so that its indexes have it, too",
            "where case should not matter, keep the values in one case (lower() on writing, or an index on lower(column)), instead of a \
             nondeterministic collation",
        ],
    },
];

/// Adds what is known of a library to what was seen of it.
pub(super) fn advise(
    seen: Observation,
    object: &str,
    symbols: &[&str],
    run: Option<&RunEvidence>,
) -> Observation {
    let shows = |known: &&Known| {
        object.starts_with(known.library)
            && (known.symbols.is_empty()
                || symbols
                    .iter()
                    .any(|s| known.symbols.iter().any(|k| s.contains(k))))
    };
    let Some(known) = KNOWN.iter().find(shows) else {
        return seen;
    };
    let set = run.zip(known.setting).and_then(|(run, (name, below))| {
        let value = run.setting(name)?;
        (value.parse::<f64>().ok()? < below).then_some((name, value))
    });
    let seen = seen
        .means(known.why)
        .most_in(run.and_then(|run| weighty(run).next()));
    let seen = match set {
        Some((name, value)) => seen.seen(format!("{name} = {value}")).advice(format!(
            "take {name} back to its default where it is set (postgresql.conf, ALTER SYSTEM, ALTER ROLE or DATABASE): searches find less then"
        )),
        None => seen,
    };
    known
        .instead
        .iter()
        .fold(seen, |seen, text| seen.advice(*text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advised(object: &str, symbols: &[&str]) -> Vec<String> {
        let seen = Observation::of_samples(0.5, "CPU time in a library.".to_owned());
        let steps = advise(seen, object, symbols, None).remedy;
        steps.into_iter().map(|step| step.text).collect()
    }

    #[test]
    fn what_a_library_is_slow_at_is_told_with_what_to_do() {
        let crypt = advised("pgcrypto.so", &["_crypt_blowfish_rn"]);
        assert!(crypt[0].contains("sha256()"), "{crypt:?}");
        let icu = advised("libicui18n.so.72.1", &["icu_72::CollationKeys"]);
        assert!(icu[0].contains("COLLATE \"C\""), "{icu:?}");
    }

    #[test]
    fn what_is_not_known_gets_no_such_words() {
        assert!(advised("pgcrypto.so", &["pgp_sym_encrypt"]).is_empty());
        assert!(advised("libfoo.so", &[]).is_empty());
    }
}
