//! Whether a kernel with pages of a size loads a file: alignment of its LOAD segments, and the page
//! size that a jemalloc in it was built for.
//!
//! The kernel and the dynamic linker map whole pages, so a segment's address and its offset in the file
//! must agree modulo the page size, and two segments in one page get the protection of the last. glibc
//! before 2.35 (elf/dl-load.c, bug 28688) refuses a smaller p_align by itself. jemalloc compares the
//! system's pages with its own at the start (src/pages.c, `pages_boot`) and ends if they are larger.

use object::elf;
use object::read::elf::ProgramHeader;
use std::collections::BTreeMap;

use crate::elf::Image;
use crate::isa::a64::words;
use crate::model::{FileKind, Machine};
pub use crate::page_sizes::{Alignment, Jemalloc, Kernel, Loading, Loads};

/// Pages that Linux can be built for, in bytes.
fn page_sizes(machine: &Machine) -> &'static [u64] {
    match machine {
        Machine::Aarch64 => &[4 << 10, 16 << 10, 64 << 10],
        Machine::Ppc64le => &[4 << 10, 64 << 10],
        Machine::X86_64 | Machine::Riscv64 | Machine::S390x => &[4 << 10],
        Machine::Other(_) => &[],
    }
}

/// A LOAD segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    size: u64,
    align: u64,
    flags: u32,
}

/// How a file is loaded.
pub fn loading(image: &Image<'_>) -> Loading {
    let mut loading = Loading::default();
    let segments = segments(image);
    if image.kind == FileKind::DebugInfo || segments.is_empty() {
        return loading;
    }
    let mut alignments: BTreeMap<u64, u64> = BTreeMap::new();
    for segment in &segments {
        *alignments.entry(segment.align).or_insert(0) += 1;
    }
    loading.load_segments = alignments
        .into_iter()
        .map(|(align_bytes, segments)| Alignment {
            align_bytes,
            segments,
        })
        .collect();
    loading.jemalloc = jemalloc(image);
    let sizes = page_sizes(&image.machine).iter();
    let kernel = |page: &u64| on(*page, &segments, loading.jemalloc.as_ref());
    loading.kernels = sizes.map(kernel).collect();
    loading
}

/// LOAD segments, by address.
fn segments(image: &Image<'_>) -> Vec<Segment> {
    const MOST: usize = 1_000;
    let endian = image.file.endian();
    let headers = image.file.elf_program_headers().iter();
    let mut segments: Vec<Segment> = headers
        .filter(|header| header.p_type(endian) == elf::PT_LOAD)
        .take(MOST)
        .map(|header| Segment {
            address: header.p_vaddr(endian),
            offset: header.p_offset(endian),
            size: header.p_memsz(endian),
            align: header.p_align(endian),
            flags: header.p_flags(endian).0,
        })
        .filter(|segment| segment.size > 0)
        .collect();
    segments.sort_by_key(|segment| segment.address);
    segments
}

fn on(page: u64, segments: &[Segment], jemalloc: Option<&Jemalloc>) -> Kernel {
    let kernel = |loads, why: Option<String>| Kernel {
        page_bytes: page,
        loads,
        why,
    };
    let all = segments.len();
    let misplaced = |s: &&Segment| !s.address.wrapping_sub(s.offset).is_multiple_of(page);
    let misplaced = segments.iter().filter(misplaced).count();
    let kib = page >> 10;
    if misplaced > 0 {
        let why = format!(
            "address and file offset of {misplaced} of {all} LOAD segments differ by less than whole pages of {kib} KiB"
        );
        return kernel(Loads::No, Some(why));
    }
    if let Some((address, lost)) = shared_page(page, segments) {
        let why =
            format!("two LOAD segments share the page of {kib} KiB at {address:#x}, which {lost}");
        return kernel(Loads::No, Some(why));
    }
    match jemalloc.map(|j| j.page_bytes) {
        Some(Some(built)) if built < page => {
            let why = format!(
                "its jemalloc is built for pages of up to {} KiB and ends with \"Unsupported system page size\"",
                built >> 10
            );
            return kernel(Loads::No, Some(why));
        }
        Some(None) if page > 4 << 10 => {
            let why = "it holds a jemalloc whose page size was not found".to_owned();
            return kernel(Loads::Unknown, Some(why));
        }
        _ => {}
    }
    let small = segments
        .iter()
        .filter(|s| s.align > 1 && !s.align.is_multiple_of(page));
    match small.count() {
        0 => kernel(Loads::Yes, None),
        n => {
            let why = format!(
                "{n} of {all} LOAD segments are aligned to less than {kib} KiB, which glibc before 2.35 refuses"
            );
            kernel(Loads::NewerGlibc, Some(why))
        }
    }
}

/// A page of two segments of which the last takes a right that the first needs: where, and what is
/// lost.
fn shared_page(page: u64, segments: &[Segment]) -> Option<(u64, &'static str)> {
    segments.windows(2).find_map(|pair| {
        let [first, next] = pair else {
            return None;
        };
        let last = first.address.checked_add(first.size - 1)? / page;
        let lost = first.flags & !next.flags;
        let what = match () {
            () if last != next.address / page => return None,
            () if lost & elf::PF_X.0 != 0 => "is then not executable",
            () if lost & elf::PF_W.0 != 0 => "is then not writable",
            () => return None,
        };
        Some((last.checked_mul(page)?, what))
    })
}

/// What jemalloc writes before it ends, since 4.3.
const MESSAGE: &[u8] = b"<jemalloc>: Unsupported system page size";
/// Linux's number for sysconf(_SC_PAGESIZE), as glibc and musl have it.
const SC_PAGESIZE: u32 = 30;
/// Instructions after `mov w0, #30` within which the comparison stands.
const WINDOW: usize = 40;

/// The jemalloc in a file: by its message, its page size by the comparison that leads to it.
fn jemalloc(image: &Image<'_>) -> Option<Jemalloc> {
    memchr::memmem::find(image.bytes, MESSAGE)?;
    let mut found: Vec<u64> = Vec::new();
    if image.machine == Machine::Aarch64 {
        for code in &image.code {
            let words: Vec<u32> = words(code.data).collect();
            found.extend(compared_pages(&words));
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(Jemalloc {
        page_bytes: match found.as_slice() {
            [one] => Some(*one),
            _ => None,
        },
    })
}

/// Page sizes that results of sysconf(_SC_PAGESIZE) are compared with, in A64 code: MOVZ w0, #30, a
/// call, CMP with a constant, and a branch on higher than that or not.
fn compared_pages(words: &[u32]) -> Vec<u64> {
    let mut found = Vec::new();
    for (n, word) in words.iter().enumerate() {
        if *word != 0x5280_0000 | SC_PAGESIZE << 5 {
            continue;
        }
        let window = &words[n + 1..words.len().min(n + 1 + WINDOW)];
        let mut constants = [None; 32];
        let mut called = false;
        for pair in window.windows(2) {
            let (word, next) = (pair[0], pair[1]);
            let is_call = word & 0xFC00_0000 == 0x9400_0000 || word & 0xFFFF_FC1F == 0xD63F_0000;
            // Another call ends what is known of the registers.
            if is_call && called || word == 0xD65F_03C0 {
                break;
            }
            called |= is_call;
            moved(word, &mut constants);
            // B.cond.
            let condition = (next & 0xFF00_0010 == 0x5400_0000).then_some(next & 0xF);
            let page = match (compared(word, &constants), condition) {
                // Lower or not (LO 3, HS 2): with the first number that is too large.
                (Some(value), Some(2 | 3)) => value.checked_sub(1),
                // Higher or not (HI 8, LS 9).
                (value, Some(8 | 9)) => value,
                _ => None,
            };
            let size = |page: &u64| page.is_power_of_two() && (4 << 10..=64 << 10).contains(page);
            if let Some(page) = page.filter(|_| called).filter(size) {
                found.push(page);
                break;
            }
        }
    }
    found
}

/// Follows MOVZ and MOVK into a register.
fn moved(word: u32, constants: &mut [Option<u64>; 32]) {
    let register = (word & 31) as usize;
    let value = u64::from(word >> 5 & 0xFFFF) << (16 * (word >> 21 & 3));
    match word & 0x7F80_0000 {
        0x5280_0000 => constants[register] = Some(value),
        0x7280_0000 => constants[register] = constants[register].map(|before| before | value),
        _ => {}
    }
}

/// What CMP of 64 bits compares a register with: an immediate, or a register that holds a constant.
fn compared(word: u32, constants: &[Option<u64>; 32]) -> Option<u64> {
    match word & 0xFF80_001F {
        0xF100_001F => Some(u64::from(word >> 10 & 0xFFF) << (12 * (word >> 22 & 1))),
        _ if word & 0xFFE0_FC1F == 0xEB00_001F => constants[(word >> 16 & 31) as usize],
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(offset: u64, address: u64, size: u64, align: u64, flags: u32) -> Segment {
        Segment {
            address,
            offset,
            size,
            align,
            flags,
        }
    }

    const R: u32 = 4;
    const RX: u32 = 5;
    const RW: u32 = 6;

    fn outcomes(segments: &[Segment], jemalloc: Option<&Jemalloc>) -> [Loads; 3] {
        [4 << 10, 16 << 10, 64 << 10].map(|page| on(page, segments, jemalloc).loads)
    }

    #[test]
    fn segments_of_64_kib_load_everywhere_and_of_4_kib_on_4_kib() {
        use Loads::{NewerGlibc, No, Yes};
        let wide = [
            segment(0, 0, 0x8000, 0x10000, RX),
            segment(0x8000, 0x18000, 0x100, 0x10000, RW),
        ];
        assert_eq!(outcomes(&wide, None), [Yes, Yes, Yes]);
        // As `-z max-page-size=4096` links: the data follow on the next page of 4 KiB.
        let narrow = [
            segment(0, 0, 0x8000, 0x1000, RX),
            segment(0x8000, 0x9000, 0x100, 0x1000, RW),
        ];
        assert_eq!(outcomes(&narrow, None), [Yes, No, No]);
        // Added behind by a tool that knows pages of 4 KiB, as published for a wheel.
        let added = [
            segment(0, 0, 0x8000, 0x10000, RX),
            segment(0x8600, 0x18600, 0x100, 0x10000, RW),
            segment(0x9000, 0x2d000, 0x100, 0x1000, RW),
        ];
        assert_eq!(outcomes(&added, None), [Yes, NewerGlibc, No]);
        let why = on(64 << 10, &added, None).why.expect("a reason");
        assert!(why.contains("1 of 3 LOAD segments"), "{why}");
        // Agreeing, but in one page.
        let together = [
            segment(0, 0, 0x8000, 0x1000, RX),
            segment(0x8000, 0x8000, 0x100, 0x1000, RW),
        ];
        assert_eq!(outcomes(&together, None), [Yes, NewerGlibc, No]);
        let why = on(64 << 10, &together, None).why.expect("a reason");
        assert!(why.contains("not executable"), "{why}");
        // Constants before the code lose nothing.
        let constants = [
            segment(0, 0, 0x8000, 0x1000, R),
            segment(0x8000, 0x8000, 0x100, 0x1000, RX),
        ];
        assert_eq!(outcomes(&constants, None), [Yes, NewerGlibc, NewerGlibc]);
        // An alignment of 0 or 1 asks for nothing.
        assert_eq!(
            outcomes(&[segment(0, 0, 0x8000, 0, RX)], None),
            [Yes, Yes, Yes]
        );
    }

    #[test]
    fn a_jemalloc_for_small_pages_ends_on_larger_ones() {
        use Loads::{No, Unknown, Yes};
        let wide = [segment(0, 0, 0x8000, 0x10000, RX)];
        let built = |page| Jemalloc { page_bytes: page };
        assert_eq!(outcomes(&wide, Some(&built(Some(4 << 10)))), [Yes, No, No]);
        assert_eq!(
            outcomes(&wide, Some(&built(Some(16 << 10)))),
            [Yes, Yes, No]
        );
        assert_eq!(
            outcomes(&wide, Some(&built(Some(64 << 10)))),
            [Yes, Yes, Yes]
        );
        assert_eq!(outcomes(&wide, Some(&built(None))), [Yes, Unknown, Unknown]);
    }

    /// Words as LLVM 14 assembles them.
    #[test]
    fn the_comparison_with_the_page_size_is_found() {
        const CALL: u32 = 0x9400_0010; // bl
        const RET: u32 = 0xD65F_03C0;
        const ASK: u32 = 0x5280_03C0; // mov w0, #30
        const CMN: u32 = 0xB100_041F; // cmn x0, #1
        let compare = |word| compared_pages(&[ASK, 0xD503_201F, CALL, CMN, word, 0x5400_0108, RET]);
        assert_eq!(compare(0xF140_041F), [4 << 10]); // cmp x0, #1, lsl #12
        assert_eq!(compare(0xF140_111F), [16 << 10]); // cmp x8, #4, lsl #12
        assert_eq!(compare(0xF140_401F), [64 << 10]); // cmp x0, #16, lsl #12
        assert!(compare(0xF100_041F).is_empty()); // cmp x0, #1
        assert!(compare(0xF140_0C1F).is_empty()); // cmp x0, #3, lsl #12
        // As clang may compare: mov w8, #4097; cmp x0, x8; b.lo.
        let with = |words: [u32; 4]| compared_pages(&[&[ASK, CALL][..], &words, &[RET]].concat());
        assert_eq!(
            with([0x5282_0028, 0xD503_201F, 0xEB08_001F, 0x5400_0103]),
            [4 << 10]
        );
        // mov w8, #1; movk w8, #1, lsl #16: 65537.
        assert_eq!(
            with([0x5280_0028, 0x72A0_0028, 0xEB08_001F, 0x5400_0102]),
            [64 << 10]
        );
        assert!(with([0x5280_0028, 0xD503_201F, 0xEB08_001F, 0x5400_0103]).is_empty());
        assert!(with([0xD503_201F, 0xD503_201F, 0xEB08_001F, 0x5400_0103]).is_empty());
        // Of another call's result, before the call, and without a branch on higher.
        assert!(compared_pages(&[ASK, CALL, CALL, 0xF140_041F, 0x5400_0108]).is_empty());
        assert!(compared_pages(&[ASK, 0xF140_041F, 0x5400_0108, CALL]).is_empty());
        assert!(compared_pages(&[ASK, CALL, 0xF140_041F, 0x5400_0100]).is_empty());
        assert!(compared_pages(&[ASK, CALL, RET, 0xF140_041F, 0x5400_0108]).is_empty());
        assert!(compared_pages(&[ASK]).is_empty());
    }
}
