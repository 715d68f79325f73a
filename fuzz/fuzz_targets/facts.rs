//! Whatever a file of collected facts holds, it is refused or judged, and every finding says
//! what was seen.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_analysis::check::check;
use pgassay_model::facts::Facts;
use pgassay_report::TextStyle;

fuzz_target!(|data: &[u8]| {
    let Ok(facts) = serde_json::from_slice::<Facts>(data) else {
        return;
    };
    let report = check(&facts);
    for finding in report.findings() {
        assert!(!finding.saw.is_empty());
    }
    let style = TextStyle {
        width: 80,
        color: false,
        unicode: true,
    };
    let text = pgassay_report::check::text(&report, true, &style);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "a control character is printed"
    );
    assert!(!pgassay_report::html(&report).contains("<script>"));
    // What was read can be written and read again.
    let again = serde_json::to_vec(&facts).expect("facts are serialized");
    assert!(serde_json::from_slice::<Facts>(&again).is_ok());
});
