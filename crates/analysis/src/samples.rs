//! Parsers of the raw samples around a trial.
