//! The time of day, whatever the machine's clock says.

use std::time::SystemTime;

use jiff::Timestamp;

/// The time now, UTC; the beginning of 1970 if the clock says a year that dates are not written with
/// (from 10000 on).
pub fn now() -> Timestamp {
    // Timestamp::now() panics there.
    Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}
