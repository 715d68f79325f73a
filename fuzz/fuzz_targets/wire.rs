//! Whatever a server sends, cut anywhere: the wire state machine neither panics nor depends on
//! where the bytes were cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_load::{Exchange, Fed, Keep, Wire, WireError};

/// Feeds pieces and collects what came of them.
fn play(pieces: &[&[u8]], requests: u8, capture: bool) -> (Vec<Exchange>, Option<WireError>) {
    let mut wire = Wire::default();
    wire.hear_notices(capture);
    for _ in 0..requests {
        wire.expect(if capture { Keep::Rows } else { Keep::Nothing });
    }
    let mut ended = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match wire.feed(rest) {
                Ok(Fed::More) => break,
                Ok(Fed::Ready(used)) => {
                    rest = &rest[used..];
                    let status = wire.status();
                    ended.push(wire.take(status));
                }
                Ok(Fed::Notice(used)) => {
                    rest = &rest[used..];
                    // Shown in full, wherever it says that the mistake is.
                    wire.notice().expect("it was announced").in_full(Some("SELECT 1"));
                }
                Err(error) => return (ended, Some(error)),
            }
        }
    }
    (ended, None)
}

fuzz_target!(|data: &[u8]| {
    let [requests, cut, bytes @ ..] = data else { return };
    let capture = requests & 0x80 != 0;
    let requests = requests & 0x0f;
    let (left, right) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let whole = play(&[bytes], requests, capture);
    let halves = play(&[left, right], requests, capture);
    assert_eq!(whole, halves);
});
