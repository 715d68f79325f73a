//! Whatever a plan holds, its expressions print as the text that they were parsed from, and no literal is left in a
//! record of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_plan::{Expr, Node, explain};
use pgassay_text::normalise::normalise;

/// Literals may be in no text that was redacted; numbers of subqueries are none.
fn has_none(text: &str) {
    for value in normalise(text).values {
        let (before, value) = (&text[..value.start], &text[value]);
        let parameter = value.strip_prefix('$').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        assert!(parameter || before.ends_with("Plan "), "{value} in {text}");
    }
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let expr = Expr::parse(&text);
    assert_eq!(expr.to_string(), text);
    expr.conjuncts();
    expr.aliases();
    expr.calls();
    expr.params();
    expr.subplans();
    let redacted = Expr::redacted(&text).to_string();
    // A dollar by itself may begin a string together with the parameter that a literal became.
    if text.split('$').skip(1).all(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        has_none(&redacted);
    }
    assert_eq!(Expr::parse(&redacted).to_string(), redacted);
    if let Ok(value) = serde_json::from_str(&text) {
        explain::is_generic(&value);
        let node = explain::node(&value);
        let recorded = serde_json::to_string(&node).unwrap();
        let read: Node = serde_json::from_str(&recorded).unwrap_or_else(|why| panic!("{why}: {recorded}"));
        assert_eq!(serde_json::to_string(&read).unwrap(), recorded);
    }
});
