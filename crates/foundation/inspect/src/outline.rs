//! Outline atomics of aarch64, found by shape.
//!
//! libgcc (`lse.S`) and compiler-rt (`lse.S`) give each operation, width and ordering one hidden
//! helper. Stripping takes its name, so its instructions identify it:
//!
//! ```text
//!     [bti c]
//!     adrp x16, page          the flag byte __aarch64_have_lse_atomics
//!     ldrb w16, [x16, #low]
//!     cbz  w16, fallback
//!     casa w0, w1, [x2]       one LSE instruction: tells operation, width, ordering
//!     ret
//! fallback:
//!     ldaxr ... stxr ... cbnz the exclusive loop; a `dmb` in it marks the `_sync` form
//! ```
//!
//! Callers reach it by `bl` (or `b` for a tail call), directly or through a linker's veneer
//! (`adrp x16; add x16; br x16`), so every call site can be named.

use std::collections::BTreeMap;

use crate::Options;
use crate::bounds::Bounds;
use crate::elf::{Code, Image};
use crate::isa::{Range, a64};
use crate::model::{Atomic, Class, Ordering, Outline, OutlineCall, OutlineHelper};
use crate::side_by_side;

/// Words that a helper's fallback may take: the longest known, for 128-bit CAS, has fourteen.
const FALLBACK_WORDS: usize = 24;

/// Code is searched for call sites in pieces of this many bytes, a multiple of four.
const PIECE_BYTES: usize = 512 * 1024;

/// A helper with its extent.
#[derive(Debug)]
struct Shape {
    helper: OutlineHelper,
    end: u64,
}

/// Finds helpers and call sites. `atomics` are those found in the file, by address; call sites come
/// back without their function.
pub fn find<'a>(
    image: &Image<'_>,
    bounds: &Bounds<'_>,
    atomics: impl Iterator<Item = &'a Atomic>,
    options: &Options<'_>,
) -> Option<Outline> {
    let mut shapes: Vec<Shape> = atomics
        .filter(|a| a.class.is_lse())
        .filter_map(|a| {
            let code = code_at(image, a.address)?;
            recognise(code, a, bounds)
        })
        .collect();
    if shapes.is_empty() {
        return None;
    }
    shapes.sort_by_key(|s| s.helper.address);
    shapes.dedup_by_key(|s| s.helper.address);

    let mut entries: BTreeMap<u64, u32> = BTreeMap::new();
    for (i, shape) in shapes.iter().enumerate() {
        entries.insert(shape.helper.address, i as u32);
    }
    let aliases = veneers(image, &entries);
    entries.extend(aliases.iter().copied());
    let sites = call_sites(image, &entries, &shapes, &aliases, options);

    let mut outline = Outline::default();
    for (mut listed, not_listed) in sites {
        for call in &listed {
            shapes[call.helper as usize].helper.call_sites += 1;
        }
        for (helper, n) in not_listed {
            shapes[helper as usize].helper.call_sites += n;
        }
        outline.calls.append(&mut listed);
    }
    for shape in &shapes {
        let flag = shape.helper.flag_address;
        if !outline.flag_addresses.contains(&flag) {
            outline.flag_addresses.push(flag);
        }
    }
    outline.helpers = shapes.into_iter().map(|s| s.helper).collect();
    Some(outline)
}

pub fn code_at<'i, 'd>(image: &'i Image<'d>, address: u64) -> Option<&'i Code<'d>> {
    let behind = image.code.partition_point(|c| c.address <= address);
    image
        .code
        .get(behind.checked_sub(1)?)
        .filter(|c| address < c.end())
}

pub fn word(code: &Code<'_>, address: u64) -> Option<u32> {
    let offset = usize::try_from(address.checked_sub(code.address)?).ok()?;
    let bytes = code.data.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The helper whose LSE instruction stands at `atomic`, if it is one.
fn recognise(code: &Code<'_>, atomic: &Atomic, bounds: &Bounds<'_>) -> Option<Shape> {
    let at = atomic.address;
    if word(code, at + 4)? != a64::RET {
        return None;
    }
    let (fallback, tested) = a64::cbz(word(code, at.checked_sub(4)?)?, at - 4)?;
    let (low, base, loaded) = a64::ldrb(word(code, at.checked_sub(8)?)?)?;
    let entry = at.checked_sub(12)?;
    let (page, register) = a64::adrp(word(code, entry)?, entry)?;
    if register != base || loaded != tested || fallback < at + 8 || fallback > at + 16 {
        return None;
    }
    let bti = entry
        .checked_sub(4)
        .and_then(|a| word(code, a))
        .is_some_and(a64::is_bti);
    let address = if bti { entry - 4 } else { entry };

    // The fallback: an exclusive load and store, maybe a barrier, to its `ret`.
    let (mut exclusive, mut barrier, mut end) = (false, false, None);
    for i in 0..FALLBACK_WORDS {
        let here = fallback + 4 * i as u64;
        let Some(w) = word(code, here) else {
            break;
        };
        exclusive |= a64::decode(w).is_some_and(|d| d.class == Class::LoadExclusive);
        barrier |= a64::is_dmb(w);
        if w == a64::RET && exclusive {
            end = Some(here + 4);
            break;
        }
    }
    let end = end?;
    let name = helper_name(atomic, barrier);
    let symbol = bounds.find(address).and_then(|i| {
        let function = &bounds.functions[i];
        if function.start == address {
            function.name
        } else {
            None
        }
    });
    Some(Shape {
        helper: OutlineHelper {
            named_by_symbol: symbol.is_some_and(|s| s == name),
            name,
            address,
            flag_address: page.wrapping_add(low),
            bti,
            call_sites: 0,
        },
        end,
    })
}

/// The name libgcc and compiler-rt give it.
fn helper_name(atomic: &Atomic, barrier: bool) -> String {
    let operation = match atomic.class {
        Class::LseCas | Class::LseCasp => "cas",
        Class::LseSwp => "swp",
        Class::LseLdadd => "ldadd",
        Class::LseLdclr => "ldclr",
        Class::LseLdeor => "ldeor",
        Class::LseLdset => "ldset",
        _ => return format!("outline helper around {}", atomic.mnemonic),
    };
    let order = match atomic.ordering {
        _ if barrier => "sync",
        Ordering::Relaxed => "relax",
        Ordering::Acquire => "acq",
        Ordering::Release => "rel",
        Ordering::AcqRel | Ordering::Full => "acq_rel",
    };
    format!("__aarch64_{operation}{}_{order}", atomic.width_bits / 8)
}

/// Linker veneers that lead to a helper: `adrp x16, page; add x16, x16, #low; br x16`.
fn veneers(image: &Image<'_>, entries: &BTreeMap<u64, u32>) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    // Branches reach 128 MiB; code that lies closer together has no veneers.
    let (Some(first), Some(last)) = (image.code.first(), image.code.last()) else {
        return found;
    };
    if last.end() - first.address < 96 << 20 {
        return found;
    }
    for code in &image.code {
        let words = code.data.as_chunks::<4>().0;
        for (i, window) in words.windows(3).enumerate() {
            if u32::from_le_bytes(window[2]) != 0xD61F_0200 {
                continue;
            }
            let address = code.address + 4 * i as u64;
            let add = u32::from_le_bytes(window[1]);
            if let Some((page, 16)) = a64::adrp(u32::from_le_bytes(window[0]), address)
                && add & 0xFFC0_03FF == 0x9100_0210
                && let Some(helper) = entries.get(&page.wrapping_add(u64::from(add >> 10 & 0xFFF)))
            {
                found.push((address, *helper));
            }
        }
    }
    found
}

/// The call sites of a piece of code: those listed, and how many more of each helper.
type Sites = (Vec<OutlineCall>, BTreeMap<u32, u64>);

/// Every `bl` and `b` to an entry, those within helpers and veneers apart.
fn call_sites(
    image: &Image<'_>,
    entries: &BTreeMap<u64, u32>,
    shapes: &[Shape],
    aliases: &[(u64, u32)],
    options: &Options<'_>,
) -> Vec<Sites> {
    let (Some((low, _)), Some((high, _))) = (entries.first_key_value(), entries.last_key_value())
    else {
        return Vec::new();
    };
    let (low, high) = (*low, *high);
    let in_helper = |address: u64| {
        shapes
            .iter()
            .any(|s| (s.helper.address..s.end).contains(&address))
            || aliases
                .iter()
                .any(|(a, _)| (*a..*a + 12).contains(&address))
    };
    let mut pieces: Vec<Code<'_>> = Vec::new();
    for code in &image.code {
        let address = |i: usize| code.address + (i * PIECE_BYTES) as u64;
        let cut = code.data.chunks(PIECE_BYTES).enumerate();
        pieces.extend(cut.map(|(i, data)| Code {
            address: address(i),
            data,
        }));
    }
    let room = options.most_listed / pieces.len().max(1);
    side_by_side::map(&pieces, options.threads, |piece| {
        let (mut calls, mut not_listed) = (Vec::new(), BTreeMap::<u32, u64>::new());
        let range = Range {
            address: piece.address,
            data: piece.data,
        };
        a64::branches_between(range, low, high, |address, w| {
            if let Some(target) = a64::branch_target(w, address)
                && let Some(helper) = entries.get(&target)
                && !in_helper(address)
            {
                if calls.len() >= room {
                    *not_listed.entry(*helper).or_insert(0) += 1;
                    return;
                }
                calls.push(OutlineCall {
                    address,
                    helper: *helper,
                    function: None,
                    inlined: Vec::new(),
                });
            }
        });
        options.was_read(piece.data);
        (calls, not_listed)
    })
}
