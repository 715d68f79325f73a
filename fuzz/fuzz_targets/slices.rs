//! Whatever a machine that gives load says of its slice, it is refused, or added up without an overflow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_load::{SliceResult, merged};

const SECOND: u64 = 1_000_000_000;
/// The longest window that there was time for.
const LONGEST: u64 = 60 * SECOND;

fuzz_target!(|data: &[u8]| {
    let Ok(result) = serde_json::from_slice::<SliceResult>(data) else { return };
    if !result.is_possible(LONGEST) {
        return;
    }
    let (transactions, slow) = (result.transactions, result.latency.longest());
    let machines = 100;
    let sum = merged(vec![result; machines], LONGEST, Some(SECOND));
    assert_eq!(sum.transactions, transactions * machines as u64);
    assert_eq!(sum.latency.longest(), slow);
    assert!(sum.intervals.len() as u64 <= LONGEST / SECOND + 1);
    assert!(sum.throughput().is_finite() && sum.busiest_thread_share().is_finite());
    assert!(sum.latency.percentile(99.0) <= slow.max(1) * 2 && sum.latency.mean().is_finite());
    let said = serde_json::to_vec(&sum).expect("it is said again");
    serde_json::from_slice::<SliceResult>(&said).expect("and understood");
});
