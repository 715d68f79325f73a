//! Whatever a far side sends, in whatever pieces: frames end with an error or the stream, hold no more than
//! was sent, and what was understood is written as it came.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use pgassay_far::{Place, frame};

/// Gives its bytes in pieces of one size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(into.len()).min(self.0.len());
        into[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

fuzz_target!(|data: &[u8]| {
    let [size, bytes @ ..] = data else { return };
    let mut from = Pieces(bytes, usize::from(*size) + 1);
    let mut again = Vec::new();
    while let Ok(Some(frame)) = frame::read(&mut from) {
        frame::write(&mut again, frame.channel, &frame.body).expect("it was short enough to be read");
    }
    assert!(bytes.starts_with(&again));

    // A place is typed, and read back as it is shown.
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok((place, target)) = Place::of_target(text)
    {
        let typed = place.with_target(&target);
        let (same, left) = Place::of_target(&typed).expect("it is shown as it may be typed");
        assert_eq!((same, left), (place, target), "{typed:?}");
    }
});
