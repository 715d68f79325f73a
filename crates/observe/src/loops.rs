//! What the source of a function in PL/pgSQL does that costs more than it looks, above all for each round of a loop: only
//! that is kept of it.

use pgassay_model::observed::plans::LoopFacts;
use pgassay_text::normalise::normalise;
use pgassay_text::sql;

/// What a function does, most of it within its loops.
pub(super) fn loops(source: &str) -> LoopFacts {
    let bare = without_literals(source);
    let tokens = tokens(&bare);
    let is = |at: usize, word: &str| {
        tokens
            .get(at)
            .is_some_and(|token| token.eq_ignore_ascii_case(word))
    };
    let mut facts = LoopFacts::default();
    let mut depth = 0_usize;
    for at in 0..tokens.len() {
        if is(at, "loop") {
            match at > 0 && is(at - 1, "end") {
                true => depth = depth.saturating_sub(1),
                false => depth += 1,
            }
        }
        let begins = at == 0
            || [";", "loop", "then", "else", "begin"]
                .iter()
                .any(|w| is(at - 1, w));
        // RETURN QUERY EXECUTE, FOR … IN EXECUTE, OPEN … FOR EXECUTE.
        let behind = at > 0 && ["query", "in", "for"].iter().any(|w| is(at - 1, w));
        facts.executes |= is(at, "execute") && (begins || behind);
        facts.tries |= tokens[at]
            .get(.."pg_try_advisory".len())
            .is_some_and(|name| name.eq_ignore_ascii_case("pg_try_advisory"));
        outside_loops(&mut facts, &tokens, at);
        // `p IS NULL OR …`
        if is(at, "is") && is(at + 1, "null") && is(at + 2, "or") && at > 0 {
            keep(&mut facts.optional, tokens[at - 1]);
        }
        facts.counts_for_existence |= counts_for_existence(&tokens, at);
        if is(at, "exception")
            && is(at + 1, "when")
            && let Some(error) = tokens.get(at + 2)
        {
            keep(&mut facts.catches, error);
        }
        if depth == 0 {
            continue;
        }
        if let Some(verb) = LOOPED.iter().find(|verb| is(at, verb)).filter(|_| begins) {
            keep(&mut facts.looped, verb);
        }
        // A block that catches errors, and not RAISE EXCEPTION.
        if is(at, "exception")
            && is(at + 1, "when")
            && let Some(error) = tokens.get(at + 2)
        {
            keep(&mut facts.caught, error);
        }
        taken_by_number(&mut facts, &tokens, at);
        let assigned = is(at + 1, ":=") || is(at + 1, "=");
        if begins && assigned && is(at + 2, tokens[at]) && is(at + 3, "||") {
            // An array that is appended to grows in its place.
            if is_text(&tokens, tokens[at]) {
                keep(&mut facts.concatenated, tokens[at]);
                if let Some(kind) = ["json", "jsonb"]
                    .iter()
                    .find(|kind| is_declared(&tokens, tokens[at], kind))
                {
                    keep(&mut facts.documents, kind);
                }
            }
        }
    }
    facts
}

/// What is dear wherever it stands.
fn outside_loops(facts: &mut LoopFacts, tokens: &[&str], at: usize) {
    const AGGREGATES: &[&str] = &["sum", "count", "max", "min", "avg"];
    let is = |at: usize, word: &str| {
        tokens
            .get(at)
            .is_some_and(|token| token.eq_ignore_ascii_case(word))
    };
    let skipping = |mut at: usize, words: &[&str]| {
        while words.iter().any(|word| is(at, word)) {
            at += 1;
        }
        at
    };
    let keep_name = |kept: &mut Vec<String>, before: &str, at: usize| {
        let Some(name) = tokens
            .get(at)
            .filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'))
        else {
            return;
        };
        // A schema before it.
        let name = match is(at + 1, ".") {
            true => tokens.get(at + 2).unwrap_or(name),
            false => name,
        };
        keep(kept, &format!("{before}{name}"));
    };
    if is(at, "refresh") && is(at + 1, "materialized") {
        keep_name(
            &mut facts.refreshes,
            "",
            skipping(at + 3, &["concurrently"]),
        );
    }
    if is(at, "lock") && is(at + 1, "table") {
        keep_name(&mut facts.locks, "", skipping(at + 2, &["only"]));
    }
    if let Some(name) = AGGREGATES
        .iter()
        .find(|name| is(at, name))
        .filter(|_| is(at + 1, "("))
    {
        keep(&mut facts.aggregates, name);
    }
    // FOR UPDATE, and DO UPDATE of ON CONFLICT, are no statements.
    let clause = at > 0 && (is(at - 1, "for") || is(at - 1, "do") || is(at - 1, "key"));
    if is(at, "update") && !clause {
        let name = skipping(at + 1, &["only"]);
        if !is(name, "set") {
            keep_name(&mut facts.writes, "update ", name);
        }
    }
    if is(at, "insert") && is(at + 1, "into") {
        keep_name(&mut facts.writes, "insert ", at + 2);
    }
    if is(at, "delete") && is(at + 1, "from") {
        keep_name(&mut facts.writes, "delete ", skipping(at + 2, &["only"]));
    }
    facts.walks_columns |=
        is(at, "pg_attribute") || is(at, "information_schema") && is(at + 2, "columns");
}

/// `substr(t, i, 1)` and `doc -> i`, where `i` is what a loop counts.
fn taken_by_number(facts: &mut LoopFacts, tokens: &[&str], at: usize) {
    let is = |at: usize, word: &str| {
        tokens
            .get(at)
            .is_some_and(|token| token.eq_ignore_ascii_case(word))
    };
    let counted = |at: usize| {
        let Some(name) = tokens.get(at) else {
            return false;
        };
        (0..tokens.len()).any(|from| is(from, "for") && is(from + 1, name) && is(from + 2, "in"))
    };
    let takes = is(at, "substr") || is(at, "substring");
    if takes && is(at + 1, "(") && (is(at + 3, ",") || is(at + 3, "from")) && counted(at + 4) {
        keep(&mut facts.characters, tokens[at + 2]);
    }
    if is(at + 1, "-") && is(at + 2, ">") {
        let index = at + if is(at + 3, ">") { 4 } else { 3 };
        let of_document = ["json", "jsonb"]
            .iter()
            .any(|kind| is_declared(tokens, tokens[at], kind));
        if of_document && counted(index) {
            keep(&mut facts.elements, tokens[at]);
        }
    }
}

/// Statements whose repetition is a matter of the loop, which one statement for all rows would do.
const LOOPED: &[&str] = &["select", "insert", "update", "delete", "perform"];

/// `count ( * ) INTO n …`, where n is then compared with a number that is a literal.
fn counts_for_existence(tokens: &[&str], at: usize) -> bool {
    let is = |at: usize, word: &str| {
        tokens
            .get(at)
            .is_some_and(|token| token.eq_ignore_ascii_case(word))
    };
    let counts = ["count", "(", "*", ")", "into"];
    if !counts.iter().zip(at..).all(|(word, at)| is(at, word)) {
        return false;
    }
    let Some(variable) = tokens.get(at + counts.len()) else {
        return false;
    };
    let used: Vec<usize> = (at + counts.len() + 1..tokens.len())
        .filter(|at| is(*at, variable))
        .collect();
    let compared =
        |at: &usize| is(at - 1, "if") && [">", "<", "="].iter().any(|sign| is(at + 1, sign));
    !used.is_empty() && used.iter().all(compared)
}

/// Whether a variable is declared with this type.
fn is_declared(tokens: &[&str], variable: &str, kind: &str) -> bool {
    tokens
        .windows(2)
        .any(|two| two[0].eq_ignore_ascii_case(variable) && two[1].eq_ignore_ascii_case(kind))
}

fn keep(kept: &mut Vec<String>, token: &str) {
    let token = token.to_ascii_lowercase();
    if !kept.contains(&token) {
        kept.push(token);
    }
}

/// Whether a variable is declared as text, or as what is copied like it.
fn is_text(tokens: &[&str], variable: &str) -> bool {
    const COPIED: &[&str] = &[
        "text",
        "varchar",
        "character",
        "json",
        "jsonb",
        "bytea",
        "xml",
        "hstore",
    ];
    let declared = tokens.windows(3).find(|three| {
        three[0].eq_ignore_ascii_case(variable)
            && COPIED.iter().any(|of| three[1].eq_ignore_ascii_case(of))
    });
    declared.is_some_and(|three| three[2] != "[")
}

/// A text in which literals and comments are blanks.
pub(super) fn without_literals(source: &str) -> String {
    let seen = normalise(source);
    let mut bytes = source.as_bytes().to_vec();
    for range in seen.values.into_iter().chain(seen.comments) {
        bytes[range].fill(b' ');
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Words, `:=`, `||`, and each other character by itself.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let length = match bytes[at] {
            byte if sql::begins_word(byte) => sql::word(&bytes[at..]).max(1),
            b':' if bytes.get(at + 1) == Some(&b'=') => 2,
            b'|' if bytes.get(at + 1) == Some(&b'|') => 2,
            _ => 1,
        };
        // What is no word is of one byte each, and these stand in ASCII.
        if let Some(token) = text.get(at..at + length)
            && !token.trim().is_empty()
        {
            found.push(token);
        }
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_catch_errors_are_seen_outside_of_loops_too() {
        let facts = loops("BEGIN RETURN t::int; EXCEPTION WHEN OTHERS THEN RETURN NULL; END");
        assert_eq!(facts.catches, ["others"]);
        assert!(facts.caught.is_empty());
        assert!(loops("BEGIN RAISE EXCEPTION 'no'; END").catches.is_empty());
    }

    #[test]
    fn what_a_loop_takes_by_its_number_is_seen() {
        let of = |declared: &str, body: &str| {
            loops(&format!(
                "DECLARE d {declared}; n int := 0; BEGIN {body} RETURN n; END"
            ))
        };
        let by = |body: &str| format!("FOR i IN 1..length(d) LOOP {body} END LOOP;");
        let text = of(
            "text",
            &by("IF substr(d, i, 1) = 'a' THEN n := n + 1; END IF;"),
        );
        assert_eq!(text.characters, ["d"]);
        let named = of("text", &by("n := n + ascii(substring(d FROM i FOR 1));"));
        assert_eq!(named.characters, ["d"]);
        assert!(
            of("text", &by("n := n + ascii(substr(d, 1, 1));"))
                .characters
                .is_empty()
        );
        assert!(
            of("text", "n := ascii(substr(d, n, 1));")
                .characters
                .is_empty()
        );
        let document = of("jsonb", &by("n := n + (d -> i ->> 'qty')::int;"));
        assert_eq!(document.elements, ["d"]);
        assert!(
            of("jsonb", &by("n := n + (d ->> 'qty')::int;"))
                .elements
                .is_empty()
        );
        // A difference of numbers.
        assert!(of("int", &by("n := d - i;")).elements.is_empty());
    }

    #[test]
    fn text_that_is_put_together_in_a_loop_is_seen() {
        let of = |declared: &str, body: &str| {
            let source =
                format!("DECLARE a record; out {declared} := ''; BEGIN {body} RETURN out; END");
            loops(&source).concatenated
        };
        let looped = "FOR a IN SELECT 1 LOOP out := out || a.x || 'é; -- '; END LOOP;";
        assert_eq!(of("text", looped), ["out"]);
        assert_eq!(of("varchar(9)", &looped.replace(":=", "=")), ["out"]);
        // Once, or of an array, or of something else.
        assert!(of("text", "out := out || 'x';").is_empty());
        assert!(
            of(
                "text",
                "FOR a IN SELECT 1 LOOP NULL; END LOOP; out := out || 'x';"
            )
            .is_empty()
        );
        assert!(of("text[]", looped).is_empty());
        assert!(of("int", looped).is_empty());
        assert!(
            of(
                "text",
                "FOR a IN SELECT 1 LOOP out := a.x || 'x'; END LOOP;"
            )
            .is_empty()
        );
        assert!(of("text", "/* LOOP */ -- LOOP\n out := out || 'x';").is_empty());
    }

    #[test]
    fn statements_that_are_put_together_and_locks_that_are_tried_for_are_seen() {
        let executes = |body: &str| loops(&format!("BEGIN {body} END")).executes;
        for body in [
            "EXECUTE format('SELECT 1') INTO a;",
            "RETURN QUERY EXECUTE q USING b;",
            "FOR r IN EXECUTE q LOOP NULL; END LOOP;",
        ] {
            assert!(executes(body), "{body}");
        }
        assert!(!executes("a := 'EXECUTE x'; -- EXECUTE y"));
        assert!(!executes("PERFORM execute_all();"));
        let tried = "BEGIN WHILE NOT pg_try_advisory_xact_lock(k) LOOP PERFORM pg_sleep(0.1); END LOOP; END";
        assert!(loops(tried).tries);
        assert!(!loops("BEGIN PERFORM pg_advisory_xact_lock(k); END").tries);
    }

    #[test]
    fn what_triggers_do_to_other_tables_is_seen() {
        let of = |body: &str| loops(&format!("BEGIN {body} RETURN NULL; END"));
        assert_eq!(
            of("REFRESH MATERIALIZED VIEW CONCURRENTLY public.v;").refreshes,
            ["v"]
        );
        assert_eq!(
            of("LOCK TABLE booking IN EXCLUSIVE MODE;").locks,
            ["booking"]
        );
        let sums = of(
            "UPDATE cart SET total = (SELECT sum(cents) FROM line WHERE cart = NEW.cart) WHERE id = NEW.cart;",
        );
        assert_eq!(sums.aggregates, ["sum"]);
        assert_eq!(sums.writes, ["update cart"]);
        assert!(of("FOR c IN SELECT attname FROM pg_attribute LOOP NULL; END LOOP;").walks_columns);
        let locked = of(
            "SELECT 1 INTO a FROM t FOR UPDATE; INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET n = 1;",
        );
        assert_eq!(locked.writes, ["insert t"]);
    }

    #[test]
    fn statements_in_loops_and_counts_that_are_only_compared_are_seen() {
        let looped = |body: &str| loops(&format!("BEGIN {body} END")).looped;
        assert_eq!(
            looped(
                "FOR r IN SELECT id FROM t LOOP SELECT n INTO v FROM u WHERE id = r.id; UPDATE u SET n = 1; END LOOP;"
            ),
            ["select", "update"]
        );
        assert!(
            looped("FOR r IN SELECT id FROM t LOOP v := v + 1; END LOOP; SELECT 1 INTO v;")
                .is_empty()
        );
        let counts =
            |body: &str| loops(&format!("DECLARE n int; BEGIN {body} END")).counts_for_existence;
        assert!(counts(
            "SELECT count(*) INTO n FROM t; IF n > 0 THEN RETURN true; END IF;"
        ));
        assert!(!counts("SELECT count(*) INTO n FROM t; RETURN n;"));
        let optional = |body: &str| loops(&format!("BEGIN {body} END")).optional;
        assert_eq!(
            optional("SELECT 1 INTO n FROM t WHERE (p_state IS NULL OR state = p_state);"),
            ["p_state"]
        );
        let document = "DECLARE d jsonb := '[]'; BEGIN LOOP d := d || jsonb_build_object('a', 1); END LOOP; END";
        assert_eq!(loops(document).documents, ["jsonb"]);
    }

    #[test]
    fn errors_that_are_caught_in_a_loop_are_seen() {
        let block = "BEGIN INSERT INTO t VALUES (1); EXCEPTION WHEN unique_violation THEN UPDATE t SET n = 1; END;";
        let looped = format!("BEGIN WHILE true LOOP {block} END LOOP; END");
        assert_eq!(loops(&looped).caught, ["unique_violation"]);
        assert!(loops(&format!("BEGIN {block} END")).caught.is_empty());
        let raised = "BEGIN LOOP RAISE EXCEPTION 'when'; END LOOP; END";
        assert!(loops(raised).caught.is_empty());
        let outside = "BEGIN LOOP NULL; END LOOP; EXCEPTION WHEN others THEN NULL; END";
        assert!(loops(outside).caught.is_empty());
    }
}
