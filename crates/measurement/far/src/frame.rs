//! Frames: a length (u32), a channel (u16), both big-endian, and as many bytes as the length says.

use std::fmt;
use std::io::{self, Read, Write};

/// The most bytes of a frame's body. What claims more is refused before anything is allocated.
pub const MAX_BODY: usize = 16 << 20;

/// Bytes before the body.
const HEAD: usize = 6;

/// One message on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// For whom.
    pub channel: u16,
    /// What.
    pub body: Vec<u8>,
}

/// A stream that holds no further frame.
#[derive(Debug)]
pub enum Broken {
    /// It ended within a frame.
    Cut,
    /// A frame claims more than [`MAX_BODY`] bytes.
    TooLong(u32),
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("the stream ended within a message"),
            Self::TooLong(length) => write!(
                f,
                "a message claims {length} bytes; at most {MAX_BODY} are allowed"
            ),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Broken {}

/// Writes a frame.
///
/// # Errors
/// `InvalidInput` for a body over [`MAX_BODY`], else what the stream says.
pub fn write(out: &mut impl Write, channel: u16, body: &[u8]) -> io::Result<()> {
    if body.len() > MAX_BODY {
        let why = format!("a message of {} bytes; at most {MAX_BODY}", body.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&(body.len() as u32).to_be_bytes());
    head[4..].copy_from_slice(&channel.to_be_bytes());
    out.write_all(&head)?;
    out.write_all(body)
}

/// Reads a frame; none where the stream ended between two.
///
/// # Errors
/// [`Broken`]; what follows in the stream can't be understood then.
pub fn read(from: &mut impl Read) -> Result<Option<Frame>, Broken> {
    let mut head = [0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match from.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(Broken::Cut),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::Io(error)),
        }
    }
    let [a, b, c, d, e, f] = head;
    let length = u32::from_be_bytes([a, b, c, d]);
    let channel = u16::from_be_bytes([e, f]);
    if length as usize > MAX_BODY {
        return Err(Broken::TooLong(length));
    }
    // It grows as the bytes come: a length alone costs the other side nothing.
    let mut body = Vec::new();
    let got = from.by_ref().take(u64::from(length)).read_to_end(&mut body);
    match got.map_err(Broken::Io)? {
        n if n == length as usize => Ok(Some(Frame { channel, body })),
        _ => Err(Broken::Cut),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};

    /// Gives its bytes in pieces of odd sizes.
    struct Pieces<'a>(&'a [u8], u64);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = next(self.1);
            let n = (self.1 as usize % 7 + 1).min(into.len()).min(self.0.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    /// The next of a row of numbers (Knuth's MMIX constants).
    fn next(state: u64) -> u64 {
        let state = state.wrapping_mul(6_364_136_223_846_793_005);
        state
            .wrapping_add(1_442_695_040_888_963_407)
            .rotate_left(17)
    }

    fn all(bytes: &[u8], seed: u64) -> (Vec<Frame>, Option<Broken>) {
        let mut from = Pieces(bytes, seed);
        let mut frames = Vec::new();
        loop {
            match read(&mut from) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return (frames, None),
                Err(broken) => return (frames, Some(broken)),
            }
        }
    }

    #[test]
    fn what_was_written_is_read_in_whatever_pieces_it_comes() {
        let seed = RandomState::new().hash_one(1);
        let mut state = seed;
        for _ in 0..200 {
            let mut sent = Vec::new();
            let mut bytes = Vec::new();
            for _ in 0..next(state) % 9 {
                state = next(state);
                let body: Vec<u8> = (0..state % 300).map(|n| (n ^ state) as u8).collect();
                write(&mut bytes, state as u16, &body).unwrap();
                let channel = state as u16;
                sent.push(Frame { channel, body });
            }
            state = next(state);
            let (read, broken) = all(&bytes, state);
            assert!(broken.is_none(), "seed {seed}: {broken:?}");
            assert_eq!(read, sent, "seed {seed}");
            // Cut anywhere, the frames before are whole, and nothing is made up.
            let cut = &bytes[..state as usize % (bytes.len() + 1)];
            let (read, _) = all(cut, state);
            assert_eq!(read, sent[..read.len()], "seed {seed}");
        }
    }

    #[test]
    fn a_length_is_refused_before_it_is_believed() {
        let mut bytes = Vec::new();
        write(&mut bytes, 7, b"x").unwrap();
        bytes.extend([0xff; 6]);
        let (frames, broken) = all(&bytes, 1);
        assert_eq!(frames.len(), 1);
        assert!(matches!(broken, Some(Broken::TooLong(u32::MAX))));
        // The longest that is allowed, with nothing behind it: no memory is taken for it.
        let mut head = (MAX_BODY as u32).to_be_bytes().to_vec();
        head.extend([0, 1, b'x']);
        assert!(matches!(all(&head, 1).1, Some(Broken::Cut)));
        let long = vec![0; MAX_BODY + 1];
        assert!(write(&mut io::sink(), 1, &long).is_err());
    }

    #[test]
    fn noise_is_read_to_its_end_or_refused() {
        let mut state = RandomState::new().hash_one(2);
        for _ in 0..2_000 {
            state = next(state);
            let noise: Vec<u8> = (0..state % 64).map(|n| next(state ^ n) as u8).collect();
            // Either way it ends.
            let (frames, _) = all(&noise, state);
            assert!(frames.iter().map(|f| f.body.len() + HEAD).sum::<usize>() <= noise.len());
        }
    }
}
