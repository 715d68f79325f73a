//! The queue of the data device.

use crate::detect::prelude::*;

/// A file of the data device's queue.
pub fn queue<'a>(seen: &FactView<'a>, file: &str) -> Result<&'a str, NotJudged> {
    let device = seen.text("device of the data")?;
    seen.text(&format!("/sys/block/{device}/queue/{file}"))
}
