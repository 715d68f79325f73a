//! Servers launched, watched and swept, installed ones and those that stand in.

mod launch;
mod stand_in;
