//! Latencies, recorded so that any percentile can be asked for afterwards.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};

/// Latencies below this many nanoseconds are not told apart.
const FINEST_NS: u64 = 128;
/// Latencies are recorded up to this many nanoseconds (about 2 minutes); longer ones count as this.
const LONGEST_NS: u64 = 120_000_000_000;

/// A histogram of durations in nanoseconds, exact to three digits from 128 ns to two minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// An empty histogram.
    pub fn new() -> Self {
        // The bounds are constants that the library accepts; the fallback keeps this infallible.
        let histogram = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, 3)
            .or_else(|_| Histogram::new(3))
            .unwrap_or_else(|_| unreachable!("three digits are a valid precision"));
        Latency(histogram)
    }

    /// Counts one duration.
    pub fn record(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    /// Adds what another histogram counted.
    pub fn add(&mut self, other: &Latency) {
        // Both have the same bounds, so nothing can lie outside.
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok());
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value at a percentile (0 to 100) in nanoseconds; 0 where nothing was counted.
    pub fn percentile(&self, percentile: f64) -> u64 {
        self.0.value_at_percentile(percentile)
    }

    /// The mean in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation in nanoseconds.
    pub fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// The longest in nanoseconds.
    pub fn longest(&self) -> u64 {
        self.0.max()
    }

    /// The shortest in nanoseconds.
    pub fn shortest(&self) -> u64 {
        self.0.min()
    }

    /// Forgets what was counted.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The histogram in HdrHistogram's V2 format, deflated, in base64: what a run keeps.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        debug_assert!(written.is_ok());
        STANDARD.encode(bytes)
    }

    /// Reads what `to_base64` wrote.
    pub fn from_base64(text: &str) -> io::Result<Self> {
        let invalid = |error: &dyn std::fmt::Display| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not a latency histogram: {error}"),
            )
        };
        let bytes = STANDARD.decode(text.trim()).map_err(|e| invalid(&e))?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| invalid(&e))?;
        // Into our bounds, so that any two can be added.
        let mut latency = Latency::new();
        for step in read.iter_recorded() {
            latency
                .0
                .saturating_record_n(step.value_iterated_to(), step.count_since_last_iteration());
        }
        Ok(latency)
    }

    /// A compact form, in which a thread keeps the intervals that are over.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.count() > 0 {
            let written = V2Serializer::new().serialize(&self.0, &mut bytes);
            debug_assert!(written.is_ok());
        }
        bytes
    }

    /// Adds what `pack` packed.
    pub(super) fn add_packed(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let read: Result<Histogram<u64>, _> = Deserializer::new().deserialize(&mut &*bytes);
        debug_assert!(read.is_ok());
        if let Ok(read) = read {
            self.add(&Latency(read));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_kept_from_a_microsecond_to_a_minute() {
        for value in [1_000u64, 5_250, 123_456, 200_000_000, 60_000_000_000] {
            let mut latency = Latency::new();
            latency.record(value);
            let error = (latency.percentile(50.0) as f64 - value as f64).abs();
            assert!(
                error <= (value as f64 / 1000.0).max(128.0),
                "{value}: {error}"
            );
        }
        let mut latency = Latency::new();
        latency.record(u64::MAX);
        assert!(latency.longest() >= LONGEST_NS);
    }

    #[test]
    fn what_is_written_is_read_and_merges() {
        let mut all = Latency::new();
        let mut parts = Latency::new();
        for part in 0..3 {
            let mut latency = Latency::new();
            for i in 1..1000u64 {
                let value = i * 977 * (part + 1);
                latency.record(value);
                all.record(value);
            }
            parts.add(&Latency::from_base64(&latency.to_base64()).unwrap());
            let mut unpacked = Latency::new();
            unpacked.add_packed(&latency.pack());
            assert_eq!(unpacked.count(), 999);
        }
        assert_eq!(parts.count(), all.count());
        for percentile in [1.0, 50.0, 99.0, 99.99, 100.0] {
            assert_eq!(parts.percentile(percentile), all.percentile(percentile));
        }
        assert!(Latency::from_base64("AAAA").is_err());
        assert!(Latency::from_base64("§").is_err());
    }
}
