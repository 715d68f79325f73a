//! What both sides begin with. Whatever a login shell prints before it is passed over.

use std::io::{ErrorKind, Read};

use super::Lost;

/// Never changes: whoever says this has frames and a hello to follow.
pub(super) const PREAMBLE: &[u8] = b"\x01pgassay-far\x01\n";

/// What may stand before it.
const NOISE: usize = 64 << 10;

/// How much of that is told.
const TOLD: usize = 300;

/// Reads up to the end of the preamble.
pub(super) fn find(from: &mut impl Read) -> Result<(), Lost> {
    let mut noise = Vec::new();
    let mut byte = [0];
    while !noise.ends_with(PREAMBLE) {
        match from.read(&mut byte) {
            Ok(1) if noise.len() < NOISE => noise.push(byte[0]),
            Ok(_) => return Err(Lost::NoGreeting(told(&noise))),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Lost::Broken(error.to_string())),
        }
    }
    Ok(())
}

/// The end of it, on one line.
fn told(noise: &[u8]) -> String {
    let end = &noise[noise.len().saturating_sub(TOLD)..];
    let text = String::from_utf8_lossy(end);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
