//! What SQL has the server compute, known by the functions that CPU samples show, as a table: what it is, and what is written instead.

use crate::detect::common::hits::{Named, weighty};
use crate::detect::tenths;
use crate::evidence::RunEvidence;
use crate::finding::Observation;
use pgassay_evidence::profile::Summary;

/// The entry.
pub const ENTRY: &str = "costly-computation";
/// The share of the CPU samples from which on a computation is named.
const NOTABLE: f64 = 0.2;

/// A kind of computation.
struct Computation {
    name: &'static str,
    title: &'static str,
    /// Functions of the server that do nothing else, by their names; with `*` those that begin so.
    symbols: &'static [&'static str],
    why: &'static str,
    instead: &'static [&'static str],
}

const COMPUTATIONS: &[Computation] = &[
    Computation {
        name: "patterns-compiled",
        title: "Regular expressions are compiled again and again",
        symbols: &[
            "pg_regcomp",
            "duptraverse",
            "fixempties",
            "pullback",
            "pushfwd",
            "createarc",
            "newarc",
            "freearc",
            "colorchain",
            "subcolor*",
            "okcolors",
            "newnfa",
            "freenfa",
            "cparc",
            "copyins",
            "copyouts",
            "moveins",
            "moveouts",
            "mergeins",
            "parsebranch",
            "parseqatom",
            "rainbow",
            "markreachable",
            "markcanreach",
            "checkmatchall",
            "hasnonemptyout",
            "changearctarget",
            "specialcolors",
            "newstate",
            "delsub",
            "cloneouts",
            "sortins",
            "sortouts",
            "dupnfa",
            "removeconstraints",
            "clonesuccessorstates",
        ],
        why: "A session keeps the last 32 regular expressions that it has compiled. Patterns that come from a column, or that are put together with values, are compiled anew each time, \
              which takes far longer than to match them.",
        instead: &[
            "keep the pattern the same: one expression for all (string_agg(pattern, '|')), or the value compared by = or LIKE beside a fixed pattern",
            "or no pattern: strpos(), LIKE, = ANY (string_to_array(…)), a text search",
        ],
    },
    Computation {
        name: "patterns-matched",
        title: "Matching regular expressions takes the time",
        symbols: &[
            "pg_regexec",
            "shortest",
            "longest",
            "miss",
            "getvacant",
            "cdissect",
            "cbrdissect",
            "crevcondissect",
            "ccondissect",
            "caltdissect",
            "citerdissect",
            "creviterdissect",
            "lacon",
            "matchuntil",
            "pickss",
            "newdfa",
            "freedfa",
            "RE_wchar_execute",
            "RE_compile_and_execute",
            "setup_regexp_matches",
            "replace_text_regexp",
        ],
        why: "Patterns with back references (\\1), with quantifiers within quantifiers such as (a+)*, with captures or with non-greedy parts are matched by trying one division of the text after \
              another, which grows with a power of its length; and each pattern that no index serves is matched with each row.",
        instead: &[
            "write the pattern without back references and without a quantifier around another, as (\\w+\\s?)*: [\\w\\s]*; with (?:…) in the place of (…) where nothing is captured, and anchored (^…) where it can be",
            "let a cheap condition leave out most rows before (LIKE, strpos(), a length, an index): (SELECT … WHERE text LIKE '%x' OFFSET 0) below the pattern",
            "for what is taken out of a text by regexp_replace() or regexp_match() at each reading: a generated column, which is computed on writing (ADD COLUMN … GENERATED ALWAYS AS (…) STORED)",
        ],
    },
    Computation {
        name: "numeric-arithmetic",
        title: "Arithmetic of type numeric takes the time",
        symbols: &[
            // Those with a name in builds without symbols first; what they call counts for them where callers are known.
            "numeric_power",
            "numeric_exp",
            "numeric_ln",
            "numeric_log",
            "numeric_sqrt",
            "mul_var",
            "div_var",
            "div_var_fast",
            "div_var_int",
            "sqrt_var",
            "exp_var",
            "ln_var",
            "log_var",
            "power_var",
            "power_var_int",
            "estimate_ln_dweight",
            "mod_var",
            "round_var",
        ],
        why: "numeric is computed digit by digit in software: power(), exp(), ln() and sqrt() of it with many digits take some 100 times as long as those of double precision, sums and products several times. A \
              literal with a decimal point is numeric, too, and makes all that it is combined with numeric.",
        instead: &[
            "compute in double precision where the result is rounded anyway: power(1.03::float8, n), x::float8 * 0.19::float8, and round(…::numeric, 2) at the end",
            "for money, whole cents in bigint",
        ],
    },
    Computation {
        name: "dates-formatted",
        title: "Formatting or reading dates and numbers takes the time",
        symbols: &[
            "DCH_to_char",
            "DCH_from_char",
            "NUM_processor",
            "NUM_numpart_to_char",
            "parse_format",
            "do_to_timestamp",
            "datetime_to_char_body",
            "DCH_cache_*",
            "NUM_cache*",
            "ParseDateTime",
            "DecodeDateTime",
        ],
        why: "to_char(), to_date() and to_timestamp() interpret their format for each row; compared, grouped or sorted by, that is done for all rows, not for those that are shown.",
        instead: &[
            "group and compare by the value itself (date_trunc('month', at), at::date, a range of at), and format what comes out of it",
            "keep what is a date or a number in a column of that type, not as text",
        ],
    },
    Computation {
        name: "documents-built",
        title: "Taking JSON documents apart or putting them together takes the time",
        symbols: &[
            "JsonbIteratorNext",
            "JsonbIteratorInit",
            "fillJsonbValue",
            "convertJsonb*",
            "pushJsonbValue*",
            "JsonbValueToJsonb",
            "getJsonbOffset",
            "getJsonbLength",
            "jsonb_put_escaped_value",
            "JsonbToCStringWorker",
            "uniqueifyJsonbObject",
            "lengthCompareJsonb*",
            "appendKey",
            "appendValue",
            "appendElement",
            "IteratorConcat",
            "setPath*",
            "datum_to_jsonb",
            "iteratorFromContainer",
            "copyToBuffer",
        ],
        why: "A jsonb value is read and written as a whole: || and jsonb_set() copy the document, jsonb_array_elements() and jsonb_each() make a value of each part, and text of it is made anew each time.",
        instead: &[
            "search within documents by what an index answers: doc @> '{…}' with an index USING gin (doc jsonb_path_ops), in the place of taking each apart",
            "put a document together by one jsonb_agg() or jsonb_object_agg() over a query, not by || in a loop",
            "keep what is changed or compared often in columns of its own",
        ],
    },
    Computation {
        name: "texts-collated",
        title: "Comparing texts by the rules of a language takes the time",
        symbols: &[
            "strcoll_l",
            "__strcoll_l",
            "strcoll",
            "__GI___strcoll_l",
            "varstrfastcmp_locale",
            "strxfrm_l",
            "__strxfrm_l",
            "get_next_seq",
        ],
        why: "Sorts, merge joins, DISTINCT and index look-ups of text compare by the collation; that of a language takes many times as long as that of \"C\", which compares bytes.",
        instead: &[
            "ORDER BY column COLLATE \"C\" (and the index, and the column's definition) where nobody reads the order: codes, keys, what is only grouped or made distinct",
            "an index on the column, with the same collation, so that nothing is sorted",
        ],
    },
];

fn is(symbol: &str, pattern: &str) -> bool {
    // Parts that the compiler cloned.
    let symbol = symbol.split('.').next().unwrap_or_default();
    match pattern.strip_suffix('*') {
        Some(beginning) => symbol.starts_with(beginning),
        None => symbol == pattern,
    }
}

/// The computations that take much of the CPU time.
pub fn look(profile: &Summary, run: Option<&RunEvidence>) -> Vec<Named> {
    let shares = COMPUTATIONS.iter().map(|computation| {
        let all = profile.functions.iter();
        let own: Vec<_> = all
            .filter(|f| {
                computation
                    .symbols
                    .iter()
                    .any(|pattern| is(&f.symbol, pattern))
            })
            .collect();
        let share: f64 = own.iter().map(|f| f.own_share).sum();
        let total = own.iter().map(|f| f.total_share).fold(0.0, f64::max);
        (computation, share.max(total).min(1.0), own)
    });
    shares
        .filter(|(_, share, own)| {
            *share >= NOTABLE && !own.is_empty() && profile.shows(*share, 0.0)
        })
        .map(|(computation, share, own)| {
            let seen = Observation::of_samples(
                share,
                format!(
                    "{}: {} of the server's CPU time.",
                    computation.title,
                    tenths(share)
                ),
            )
            .means(computation.why)
            .all_seen(
                own.iter()
                    .take(3)
                    .map(|f| format!("{}: {} of the samples", f.symbol, tenths(f.own_share))),
            )
            .of_functions(own.iter().map(|f| f.symbol.as_str()))
            .most_in(run.and_then(|run| weighty(run).next()));
            Named {
                entry: ENTRY,
                subject: Some(computation.name.to_owned()),
                title: computation.title.to_owned(),
                seen: computation
                    .instead
                    .iter()
                    .fold(seen, |seen, text| seen.advice(*text)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::detect::tests::made::found_in_samples;

    #[test]
    fn what_the_server_computes_is_told_by_its_functions() {
        let found = found_in_samples(
            "30.00% postgres [.] mul_var\n10.00% postgres [.] power_var_int.constprop.0\n5.00% postgres [.] citerdissect\n55.00% postgres [.] ExecScan\n",
            &[],
        );
        let own: Vec<_> = found
            .iter()
            .filter(|f| f.id.starts_with(super::ENTRY))
            .collect();
        assert!(
            own.iter()
                .any(|f| f.id == "costly-computation/numeric-arithmetic"
                    && f.remedy[0].text.contains("float8")),
            "{found:#?}"
        );
        assert_eq!(own.len(), 1, "what takes little is not named");
    }
}
