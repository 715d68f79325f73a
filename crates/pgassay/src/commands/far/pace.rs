//! How much of files may be under way. What is said on other channels waits behind it, on whatever carries
//! both, and a conversation that is carried beside it may not be silent for long.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long it may take until what is under way has come.
const DELAY: Duration = Duration::from_millis(500);

/// Bytes that may be under way on the slowest of ways: at 20 KiB a second they take 2.4 seconds.
const LEAST: u64 = 48 << 10;

/// The same on the fastest.
pub const MOST: u64 = 512 << 10;

/// Follows what was sent and has come.
#[derive(Debug)]
pub struct Pace {
    sent: u64,
    came: u64,
    /// Bytes that may be under way.
    window: u64,
    pieces: VecDeque<Sent>,
}

/// A piece that is under way.
#[derive(Debug)]
struct Sent {
    at: Instant,
    /// Bytes that were sent up to its end.
    end: u64,
    /// Those of them that were under way.
    under_way: u64,
}

impl Pace {
    /// Of a way that is not known.
    pub fn new() -> Self {
        Self {
            sent: 0,
            came: 0,
            window: LEAST,
            pieces: VecDeque::new(),
        }
    }

    /// Whether so many bytes may be sent now.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.is_empty() || self.sent - self.came + bytes <= self.window
    }

    /// Whether all has come.
    pub fn is_empty(&self) -> bool {
        self.sent == self.came
    }

    /// Notes that so many bytes are sent.
    pub fn send(&mut self, bytes: u64, at: Instant) {
        self.sent += bytes;
        self.pieces.push_back(Sent {
            at,
            end: self.sent,
            under_way: self.sent - self.came,
        });
    }

    /// Notes that so many bytes have come in all.
    pub fn receive(&mut self, came: u64, at: Instant) {
        self.came = came.clamp(self.came, self.sent);
        let mut last = None;
        while self.pieces.front().is_some_and(|p| p.end <= self.came) {
            last = self.pieces.pop_front();
        }
        if let Some(piece) = last {
            // All that was under way when it was sent has come since.
            let took = at.duration_since(piece.at).as_millis().max(1);
            let in_delay = u128::from(piece.under_way) * DELAY.as_millis() / took;
            let in_delay = u64::try_from(in_delay).unwrap_or(MOST);
            self.window = in_delay.clamp(LEAST, MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 16 << 10;
    /// How often the other side looks what has come.
    const LOOKS: Duration = Duration::from_millis(50);

    /// Sends a file after some lines, one a second, over a way that holds whatever is put into it: the longest time
    /// that what was sent took, and that of the file.
    fn sent(bytes_a_second: u64, lines: u32, file: u64) -> (Duration, Duration) {
        let begin = Instant::now();
        let a_look = bytes_a_second * LOOKS.as_millis() as u64 / 1000;
        let (mut pace, mut sizes) = (Pace::new(), VecDeque::new());
        let (mut sent, mut carried, mut whole) = (0, 0, 0);
        let (mut left, mut longest, mut file_began) = (file, 0.0_f64, begin);
        for look in 1.. {
            let now = begin + LOOKS * look;
            carried = sent.min(carried + a_look);
            while sizes.front().is_some_and(|size| whole + size <= carried) {
                whole += sizes.pop_front().unwrap_or(0);
            }
            pace.receive(whole, now);
            let lines_left = look <= lines * 20;
            if lines_left {
                file_began = now;
            } else if left == 0 && pace.is_empty() {
                return (Duration::from_secs_f64(longest), now - file_began);
            }
            loop {
                let size = if lines_left { 500 } else { left.min(PIECE) };
                let is_due = !lines_left || look % 20 == 0;
                if size == 0 || !is_due || !pace.has_room(size) {
                    break;
                }
                pace.send(size, now);
                sizes.push_back(size);
                sent += size;
                if lines_left {
                    break;
                }
                left -= size;
            }
            longest = longest.max((sent - carried) as f64 / bytes_a_second as f64);
        }
        unreachable!()
    }

    #[test]
    fn no_more_is_under_way_than_a_slow_way_carries_soon() {
        for kib in [20, 40, 64, 115, 200, 500, 1_000, 10_000, 100_000] {
            for lines in [0, 100] {
                let (longest, _) = sent(kib << 10, lines, 2 << 20);
                assert!(
                    longest < Duration::from_millis(2_500),
                    "{kib} KiB/s after {lines} lines: {longest:?}"
                );
            }
        }
    }

    #[test]
    fn a_way_is_used_as_far_as_it_goes() {
        for kib in [20, 115, 1_000, 5_000] {
            let file = (kib << 10) * 60;
            let (_, took) = sent(kib << 10, 0, file);
            assert!(took < Duration::from_secs(75), "{kib} KiB/s: {took:?}");
        }
    }
}
