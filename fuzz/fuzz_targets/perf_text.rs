//! Whatever a text from elsewhere holds, its shares add up to no more than all of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_analysis::diagnose::{Evidence, diagnose};
use pgassay_analysis::profile::summarise;
use pgassay_readings::profile::Profile;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let Ok(profile) = Profile::parse(&text) else { return };
    let summary = summarise(&profile);
    let sum: f64 = summary.classes.iter().map(|c| c.share).sum();
    assert!(sum <= 1.0 + 1e-6);
    assert!(summary.functions.iter().all(|f| f.own_share <= f.total_share + 1e-9));
    for finding in diagnose("fuzz", &Evidence { version: None, profile: Some(&summary), run: None }).findings {
        assert!(!finding.evidence.is_empty());
    }
});
