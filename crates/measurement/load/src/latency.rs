//! Latencies, recorded so that any percentile can be asked for afterwards.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    Deserializer, Serializer as _, V2DeflateSerializer, V2Serializer,
};
use serde::{Deserialize, Serialize};

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
        if other.count() == 0 {
            return;
        }
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

    /// What stands before so many bytes of counts.
    fn header(counts: usize) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&V2.to_be_bytes());
        header[4..8].copy_from_slice(&(counts as u32).to_be_bytes());
        header[12..16].copy_from_slice(&DIGITS.to_be_bytes());
        header[16..24].copy_from_slice(&FINEST_NS.to_be_bytes());
        header[24..32].copy_from_slice(&LONGEST_NS.to_be_bytes());
        header[32..].copy_from_slice(&1f64.to_be_bytes());
        header
    }

    /// A compact form, in which a thread keeps the intervals that are over.
    pub(super) fn pack(&self) -> Packed {
        let mut bytes = Vec::new();
        if self.count() > 0 {
            let written = V2Serializer::new().serialize(&self.0, &mut bytes);
            debug_assert!(written.is_ok());
        }
        Packed(bytes)
    }

    /// Adds what `pack` packed: as long as there are values, not as there is room for them.
    pub(super) fn add_packed(&mut self, packed: &Packed) {
        let read = packed.each(&mut |value, count| self.0.saturating_record_n(value, count));
        debug_assert!(read.is_ok());
    }
}

/// Latencies as they travel: packed.
impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.pack().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let packed = Packed::deserialize(from)?;
        let mut latency = Latency::new();
        latency.add_packed(&packed);
        Ok(latency)
    }
}

/// A histogram in HdrHistogram's V2 format with the bounds of [`Latency`]; no bytes where it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed(Vec<u8>);

/// The format's mark.
const V2: u32 = 0x1c84_9313;
/// Digits of a duration that are kept.
const DIGITS: u32 = 3;
/// Bytes before the counts: cookie, length, offset, digits, bounds, ratio.
const HEADER: usize = 40;
/// Durations of a magnitude that are told apart, and how many bits that are: three digits.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 10;
/// Bits of a duration that are not told apart.
const FINEST_BITS: u32 = FINEST_NS.ilog2();
/// How many durations are told apart at most.
const MOST_STEPS: u64 = (64 - (FINEST_BITS + STEP_BITS) as u64 + 1) * STEPS;

impl Packed {
    /// Calls with each duration that was counted, and how often.
    ///
    /// # Errors
    /// What is wrong with the bytes, which may come from another machine.
    fn each(&self, counted: &mut dyn FnMut(u64, u64)) -> Result<(), &'static str> {
        if self.0.is_empty() {
            return Ok(());
        }
        let (header, mut rest) = self
            .0
            .split_at_checked(HEADER)
            .ok_or("its head is cut off")?;
        if header != &Latency::header(rest.len())[..] {
            return Err("its head is another");
        }
        let mut step = 0;
        while !rest.is_empty() {
            let count = signed(&mut rest).ok_or("a count is cut off")?;
            match u64::try_from(count) {
                Ok(count) if step < MOST_STEPS => {
                    if count > 0 {
                        counted(duration_of(step), count);
                    }
                    step += 1;
                }
                Ok(_) => return Err("it has more counts than durations"),
                // So many without a count.
                Err(_) => step = step.saturating_add(count.unsigned_abs()),
            }
        }
        Ok(())
    }
}

/// The shortest of the durations that are counted in this place.
fn duration_of(step: u64) -> u64 {
    // Of the first magnitude there are twice as many.
    let magnitude = (step / STEPS).saturating_sub(1);
    let within = step - magnitude * STEPS;
    within << (magnitude as u32 + FINEST_BITS)
}

/// A number as the format has it: seven bits a byte from the lowest on, eight in the ninth, its sign last.
fn signed(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for at in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == 8 {
            value |= u64::from(*byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

impl Serialize for Packed {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let invalid = |why: &dyn std::fmt::Display| {
            serde::de::Error::custom(format!("not a latency histogram: {why}"))
        };
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        let packed = Packed(
            STANDARD
                .decode(text.as_bytes())
                .map_err(|why| invalid(&why))?,
        );
        packed.each(&mut |_, _| {}).map_err(|why| invalid(&why))?;
        Ok(packed)
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
        let mut all_packed = Latency::new();
        all_packed.add_packed(&all.pack());
        assert_eq!(all_packed, all);
        assert!(Latency::from_base64("AAAA").is_err());
        assert!(Latency::from_base64("§").is_err());
    }

    #[test]
    fn packed_is_read_as_the_library_reads_it() {
        let mut latency = Latency::new();
        let mut value = 1u64;
        for n in 0..4_000u64 {
            latency.0.saturating_record_n(value, n * n + 1);
            value = (value * 31 / 29 + 97) % (2 * LONGEST_NS);
        }
        latency.0.saturating_record_n(7_777_777, u64::MAX >> 9);
        let packed = latency.pack();
        let by_library: Histogram<u64> = Deserializer::new()
            .deserialize(&mut packed.0.as_slice())
            .unwrap();
        let mut ours = Latency::new();
        ours.add_packed(&packed);
        assert_eq!(ours.0, by_library);
        assert_eq!(ours, latency);
    }

    #[test]
    fn a_stranger_s_histogram_is_refused_where_it_is_none() {
        let mut latency = Latency::new();
        (1..300u64).for_each(|n| latency.record(n * n * 1_000));
        let sent = serde_json::to_string(&latency).unwrap();
        let back: Latency = serde_json::from_str(&sent).unwrap();
        assert_eq!(back, latency);
        let empty = serde_json::to_string(&Latency::new()).unwrap();
        assert_eq!(empty, "\"\"");
        let whole = latency.pack().0;
        let read = |bytes: &[u8]| {
            let text = serde_json::to_string(&STANDARD.encode(bytes)).unwrap();
            serde_json::from_str::<Latency>(&text)
        };
        assert!(read(&whole).is_ok());
        for cut in 1..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        // Other bounds would make the reader find room for them.
        let mut wide = whole.clone();
        wide[15] = 5;
        assert!(read(&wide).is_err());
        // Beyond all durations.
        let counts = [vec![0xff; 9], vec![2u8]].concat();
        let far = [&Latency::header(counts.len())[..], &counts].concat();
        assert!(read(&far).is_err());
    }
}
