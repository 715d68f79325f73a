//! Servers launched, watched and swept, installed ones and those that stand in.

mod launch;
#[cfg(feature = "archive")]
mod stand_in;
