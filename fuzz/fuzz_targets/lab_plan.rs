//! Whatever a lab's plan holds, it is refused with a reason, or fitted into a machine and concluded
//! where nothing was measured.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::lab::evidence::{Evidence, Part, Shown};
use pgassay_analysis::lab::report::Conduct;
use pgassay_analysis::lab::{Lab, LabPlan, legs::legs, parse, scale};
use pgassay_report::TextStyle;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let plan = match parse(text) {
        Ok(plan) => plan,
        Err(why) => return assert!(!why.is_empty()),
    };
    // What is recorded can be read again.
    let recorded = serde_json::to_vec(&plan).expect("a plan is serialized");
    serde_json::from_slice::<LabPlan>(&recorded).expect("a recorded plan is read");

    let host = HostSummary {
        cpus: Some(2),
        ..HostSummary::default()
    };
    let (fitted, left_out) = scale::fit(&plan, &host);
    let mut evidence = Evidence {
        host,
        parts: Vec::new(),
    };
    for stage in &fitted.stages {
        let arms = fitted.arms_of(stage).into_iter();
        let arms: Vec<String> = arms.map(str::to_owned).collect();
        evidence
            .parts
            .extend(legs(stage).into_iter().map(|leg| Part {
                stage: stage.id.clone(),
                leg,
                arms: arms.clone(),
                shown: Shown::Missing("nothing was measured".to_owned()),
            }));
    }
    let made = vec![Default::default(); evidence.parts.len()];
    let lab = Lab::conclude(&fitted, &evidence, &made, left_out, Conduct::default());
    assert_eq!(lab.statements.len(), plan.statements.len());
    let style = TextStyle {
        width: 80,
        color: false,
        unicode: true,
    };
    let shown = pgassay_report::text(&lab, &style);
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()),
        "a control character is printed"
    );
    assert!(!pgassay_report::html(&lab).contains("<script>"));
});
