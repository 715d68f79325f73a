//! Direct calls out of a function, by machine: enough to follow the call structure of a stripped file.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};

use crate::bounds::{Bounds, Function};
use crate::elf::Image;
use crate::isa::{a64, riscv};
use crate::model::Machine;

/// Starts of the functions that `function` calls or jumps to directly; itself left out.
pub fn callees(image: &Image<'_>, bounds: &Bounds<'_>, function: &Function<'_>) -> BTreeSet<u64> {
    let length = usize::try_from(function.end - function.start).unwrap_or(0);
    let bytes = image.at(function.start).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(length)];
    let targets = match image.machine {
        Machine::X86_64 => x86(bytes, function.start),
        Machine::Aarch64 => words(bytes, function.start, a64::branch_target),
        // A local entry point stands two instructions behind the global one (ELFv2 ABI, 2.3.2.1).
        Machine::Ppc64le => words(bytes, function.start, power),
        Machine::S390x => s390x(bytes, function.start),
        Machine::Riscv64 => riscv::branch_targets(bytes, function.start),
        _ => Vec::new(),
    };
    targets
        .into_iter()
        .filter_map(|target| {
            let found = &bounds.functions[bounds.find(target)?];
            let entry = target == found.start
                || image.machine == Machine::Ppc64le && target == found.start + 8;
            (entry && found.start != function.start).then_some(found.start)
        })
        .collect()
}

fn words(bytes: &[u8], start: u64, target: fn(u32, u64) -> Option<u64>) -> Vec<u64> {
    a64::words(bytes)
        .enumerate()
        .filter_map(|(i, w)| target(w, start + 4 * i as u64))
        .collect()
}

/// `b` and `bl`: primary opcode 18, not absolute (Power ISA, Book I, 2.4).
fn power(w: u32, address: u64) -> Option<u64> {
    (w >> 26 == 18 && w & 2 == 0)
        .then(|| address.wrapping_add_signed(i64::from(((w & 0x03FF_FFFC) << 6) as i32 >> 6)))
}

fn x86(bytes: &[u8], start: u64) -> Vec<u64> {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
        .into_iter()
        .filter(|i| {
            matches!(
                i.flow_control(),
                FlowControl::Call
                    | FlowControl::UnconditionalBranch
                    | FlowControl::ConditionalBranch
            ) && i.op0_kind() == OpKind::NearBranch64
        })
        .map(|i| i.near_branch_target())
        .collect()
}

/// BRASL (C0.5) and BRCL (C0.4): a signed distance in halfwords.
fn s390x(bytes: &[u8], start: u64) -> Vec<u64> {
    let mut targets = Vec::new();
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        let length = match first >> 6 {
            0 => 2,
            3 => 6,
            _ => 4,
        };
        if let Some([0xC0, kind, a, b, c, d]) = bytes.get(at..at + 6)
            && matches!(kind & 15, 4 | 5)
        {
            let distance = i64::from(i32::from_be_bytes([*a, *b, *c, *d])) * 2;
            targets.push((start + at as u64).wrapping_add_signed(distance));
        }
        at += length;
    }
    targets
}
