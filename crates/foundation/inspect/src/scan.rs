//! Runs the scanners over a file's code, cut at function bounds, on as many threads as are given.

use crate::Options;
use crate::bounds::Bounds;
use crate::elf::Image;
use crate::isa::{self, Found, Range};
use crate::model::{Atomic, Machine};
use crate::side_by_side;

/// Least work worth a thread of its own, in bytes of code.
const CHUNK_BYTES: usize = 256 * 1024;

/// Most work handed out at once, in bytes of code: what was read is let go of in such pieces.
const MOST_BYTES: usize = 1 << 20;

/// What was found, told apart by where it stands.
#[derive(Debug, Default)]
pub struct Scan {
    /// Inside function bounds.
    pub inside: Found,
    /// Outside them, or marked as data.
    pub outside: Vec<Atomic>,
    /// Those outside for which there was no room.
    pub outside_not_listed: u64,
}

impl Scan {
    /// How many instructions are counted only.
    pub fn not_listed(&self) -> u64 {
        self.inside.not_listed.values().sum::<u64>() + self.outside_not_listed
    }
}

/// A range with whether a function covers it.
#[derive(Clone, Copy)]
struct Piece<'d> {
    range: Range<'d>,
    inside: bool,
}

/// Scans all code of `image`.
pub fn scan(image: &Image<'_>, bounds: &Bounds<'_>, options: &Options<'_>) -> Scan {
    // Instructions of four bytes each are found wherever one begins to look: what a function holds is
    // settled afterwards, for the few that were found.
    let whole = image.machine == Machine::Aarch64;
    let pieces = if whole {
        undivided(image)
    } else {
        cut(image, bounds)
    };
    let scanner: fn(Range<'_>, &mut Found) = match image.machine {
        Machine::X86_64 => isa::x86::scan,
        Machine::Aarch64 => isa::a64::scan,
        Machine::Ppc64le => isa::power::scan,
        Machine::Riscv64 => isa::riscv::scan,
        Machine::S390x => isa::s390x::scan,
        Machine::Other(_) => return Scan::default(),
    };
    let total: usize = pieces.iter().map(|p| p.range.data.len()).sum();
    let threads = options.threads.min(total / CHUNK_BYTES).max(1);
    // More chunks than threads: they are uneven.
    let chunks = chunks(&pieces, (total / (threads * 4) + 1).min(MOST_BYTES));
    // Shared out beforehand, so that what is listed does not depend on which thread was first.
    let room = options.most_listed / chunks.len().max(1);
    let parts = side_by_side::map(&chunks, threads, |chunk| {
        let (mut inside, mut outside) = (Found::with_room(room), Found::with_room(room));
        for piece in *chunk {
            let found = if piece.inside {
                &mut inside
            } else {
                &mut outside
            };
            scanner(piece.range, found);
        }
        if let (Some(first), Some(last)) = (chunk.first(), chunk.last()) {
            let end = last.range.address + last.range.data.len() as u64;
            let length = end - first.range.address;
            let bytes = image.at(first.range.address).unwrap_or_default();
            options.was_read(&bytes[..bytes.len().min(length as usize)]);
        }
        (inside, outside)
    });
    let mut scan = Scan::default();
    for (inside, mut outside) in parts {
        scan.inside.append(inside);
        scan.outside.append(&mut outside.atomics);
        scan.outside_not_listed += outside.not_listed.values().sum::<u64>();
    }
    if whole {
        let inside = |address: u64| bounds.find(address).is_some();
        let atomics = std::mem::take(&mut scan.inside.atomics);
        (scan.inside.atomics, scan.outside) = atomics.into_iter().partition(|a| inside(a.address));
        scan.inside.hints.retain(|(address, _)| inside(*address));
    }
    set_data_apart(image, &mut scan);
    scan
}

/// Moves what mapping symbols mark as data out of the functions around it.
fn set_data_apart(image: &Image<'_>, scan: &mut Scan) {
    let data = image.data_in_code();
    if data.is_empty() {
        return;
    }
    let is_data = |address: u64| {
        let behind = data.partition_point(|r| r.0 <= address);
        behind.checked_sub(1).is_some_and(|i| address < data[i].1)
    };
    let (apart, inside) = std::mem::take(&mut scan.inside.atomics)
        .into_iter()
        .partition(|a| is_data(a.address));
    scan.inside.atomics = inside;
    let mut apart: Vec<Atomic> = apart;
    scan.outside.append(&mut apart);
    scan.outside.sort_by_key(|a| a.address);
    scan.inside.hints.retain(|(address, _)| !is_data(*address));
}

/// The code in pieces of at most [`CHUNK_BYTES`], a multiple of every instruction's length.
fn undivided<'d>(image: &Image<'d>) -> Vec<Piece<'d>> {
    let mut pieces = Vec::new();
    for code in &image.code {
        let cut = code.data.chunks(CHUNK_BYTES).enumerate();
        pieces.extend(cut.map(|(i, data)| Piece {
            range: Range {
                address: code.address + (i * CHUNK_BYTES) as u64,
                data,
            },
            inside: true,
        }));
    }
    pieces
}

/// Cuts the code into functions and what lies between them.
fn cut<'d>(image: &Image<'d>, bounds: &Bounds<'_>) -> Vec<Piece<'d>> {
    let mut pieces = Vec::with_capacity(bounds.functions.len() + image.code.len());
    let mut functions = bounds.functions.iter().peekable();
    for code in &image.code {
        let mut at = code.address;
        let mut push = |from: u64, to: u64, inside: bool| {
            let (start, end) = ((from - code.address) as usize, (to - code.address) as usize);
            if let Some(data) = code.data.get(start..end).filter(|d| !d.is_empty()) {
                pieces.push(Piece {
                    range: Range {
                        address: from,
                        data,
                    },
                    inside,
                });
            }
        };
        while functions.next_if(|f| f.end <= at).is_some() {}
        while let Some(function) = functions.next_if(|f| f.start < code.end()) {
            let start = function.start.max(at);
            if start > at {
                push(at, start, false);
            }
            let end = function.end.min(code.end());
            if end > start {
                push(start, end, true);
                at = end;
            }
        }
        if at < code.end() {
            push(at, code.end(), false);
        }
    }
    pieces
}

/// Groups of neighbouring pieces with about `bytes` of code each.
fn chunks<'p, 'd>(pieces: &'p [Piece<'d>], bytes: usize) -> Vec<&'p [Piece<'d>]> {
    let bytes = bytes.max(CHUNK_BYTES / 4);
    let mut chunks = Vec::new();
    let (mut from, mut size) = (0, 0);
    for (i, piece) in pieces.iter().enumerate() {
        size += piece.range.data.len();
        if size >= bytes {
            chunks.push(&pieces[from..=i]);
            (from, size) = (i + 1, 0);
        }
    }
    if from < pieces.len() {
        chunks.push(&pieces[from..]);
    }
    chunks
}
