//! Something old keeps dead rows from being removed.

use crate::detect::common::horizon::horizon;
use crate::detect::prelude::*;

pub const DETECTORS: &[Detector] = &[facts("horizon-held", horizon)];
