//! Where functions start and end, from whatever the file still says.
//!
//! Symbols win, because they also name; Go's table comes next, and unwind ranges (FDEs) fill the rest. A stripped PostgreSQL
//! has no symbol for its static functions (PinBuffer, LWLockAttemptLock), but nearly all have an
//! FDE. Where neither covers a byte it is outside bounds, and what reads as an atomic there is
//! listed apart: most of it is data that assemblers put into the text.

use gimli::{BaseAddresses, CieOrFde, EhFrame, UnwindSection};
use object::{Endianness, Object};

use crate::elf::{FunctionSymbol, Image};
use crate::gopclntab;
use crate::model::FunctionBounds;
use crate::side_by_side;

/// Where a bound was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `.symtab` of the file itself.
    Symtab,
    /// `.symtab` of a separate debug file.
    DebugFile,
    /// `.symtab` in `.gnu_debugdata`.
    DebugData,
    /// `.dynsym`.
    Dynsym,
    /// `.gopclntab`, of Go programs.
    Gopclntab,
    /// `.eh_frame`.
    EhFrame,
}

impl Source {
    /// All of them.
    const ALL: [Self; 6] = [
        Self::Symtab,
        Self::DebugFile,
        Self::DebugData,
        Self::Dynsym,
        Self::Gopclntab,
        Self::EhFrame,
    ];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Symtab => "symtab",
            Self::DebugFile => "debug-file",
            Self::DebugData => "debugdata",
            Self::Dynsym => "dynsym",
            Self::Gopclntab => "gopclntab",
            Self::EhFrame => "eh-frame",
        }
    }
}

/// A function's extent.
#[derive(Clone, Copy, Debug)]
pub struct Function<'d> {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Name, where a symbol gives it.
    pub name: Option<&'d str>,
    /// Where the extent was read.
    pub source: Source,
}

/// The functions of a file by address, without overlap.
#[derive(Debug, Default)]
pub struct Bounds<'d> {
    /// By start address.
    pub functions: Vec<Function<'d>>,
}

/// Symbols of a file besides its own, with where they come from.
pub type ExtraSymbols<'d> = Vec<(Source, Vec<FunctionSymbol<'d>>)>;

impl<'d> Bounds<'d> {
    /// Gathers bounds from the file's symbols, those of `extra`, and its unwind tables.
    pub fn gather(
        image: &Image<'d>,
        extra: ExtraSymbols<'d>,
        threads: usize,
        warnings: &mut Vec<String>,
    ) -> Self {
        let (mut named, ranges) = side_by_side::both(
            threads,
            || Self::symbols(image, extra),
            || unwind_ranges(image),
        );
        let ranges = match ranges {
            Ok(ranges) => ranges,
            Err(error) => {
                warnings.push(format!(".eh_frame can't be read to its end: {}", error.1));
                error.0
            }
        };
        match gopclntab::functions(image) {
            Ok(functions) => {
                named.extend(functions.into_iter().map(|s| (Source::Gopclntab, s)));
                named.retain(|(_, s)| in_code(image, s.address));
            }
            Err(why) => warnings.push(format!(".gopclntab was not used: {why}")),
        }
        Self {
            functions: lay_out(image, named, ranges),
        }
    }

    /// All function symbols, each with where it was read.
    fn symbols(image: &Image<'d>, extra: ExtraSymbols<'d>) -> Vec<(Source, FunctionSymbol<'d>)> {
        let mut named: Vec<(Source, FunctionSymbol<'d>)> = Vec::new();
        named.extend(image.symtab().into_iter().map(|s| (Source::Symtab, s)));
        for (source, symbols) in extra {
            named.extend(symbols.into_iter().map(|s| (source, s)));
        }
        named.extend(image.dynsym().into_iter().map(|s| (Source::Dynsym, s)));
        named
    }

    /// Index of the function that holds `address`.
    pub fn find(&self, address: u64) -> Option<usize> {
        let behind = self.functions.partition_point(|f| f.start <= address);
        let index = behind.checked_sub(1)?;
        (address < self.functions[index].end).then_some(index)
    }

    /// The account of where bounds came from.
    pub fn summary(&self, image: &Image<'_>) -> FunctionBounds {
        let count = |source: Source| {
            let of_source = self.functions.iter().filter(|f| f.source == source);
            of_source.count() as u64
        };
        let by_source = Source::ALL
            .iter()
            .map(|s| (s.name().to_string(), count(*s)))
            .filter(|(_, n)| *n > 0);
        FunctionBounds {
            functions: self.functions.len() as u64,
            named: self.functions.iter().filter(|f| f.name.is_some()).count() as u64,
            by_source: by_source.collect(),
            covered_bytes: self.functions.iter().map(|f| f.end - f.start).sum(),
            text_bytes: image.code.iter().map(|c| c.data.len() as u64).sum(),
        }
    }
}

fn in_code(image: &Image<'_>, address: u64) -> bool {
    code_end(image, address).is_some()
}

fn code_end(image: &Image<'_>, address: u64) -> Option<u64> {
    let behind = image.code.partition_point(|c| c.address <= address);
    let code = image.code.get(behind.checked_sub(1)?)?;
    (address < code.end()).then(|| code.end())
}

/// Cuts what symbols and unwind tables say into ranges that do not overlap.
fn lay_out<'d>(
    image: &Image<'d>,
    mut named: Vec<(Source, FunctionSymbol<'d>)>,
    ranges: Vec<(u64, u64)>,
) -> Vec<Function<'d>> {
    // At one address: a sized symbol before an unsized one, the file's own before others', a global
    // name before a local alias, then by name so that the choice does not depend on the file's order.
    named.sort_unstable_by_key(|(_, s)| s.address);
    for same in named.chunk_by_mut(|(_, a), (_, b)| a.address == b.address) {
        same.sort_unstable_by(|(sa, a), (sb, b)| {
            (b.size > 0)
                .cmp(&(a.size > 0))
                .then_with(|| sa.cmp(sb))
                .then_with(|| b.global.cmp(&a.global))
                .then_with(|| a.name.len().cmp(&b.name.len()))
                .then_with(|| a.name.cmp(b.name))
        });
    }
    named.dedup_by_key(|(_, s)| s.address);

    let mut functions: Vec<Function<'d>> = Vec::with_capacity(named.len() + ranges.len());
    let mut ranges = ranges.into_iter().peekable();
    let mut unwound: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (source, symbol) in &named {
        while let Some(range) = ranges.next_if(|r| r.0 < symbol.address) {
            unwound.push(range);
        }
        let mut end = symbol.address.saturating_add(symbol.size);
        if let Some(range) = ranges.next_if(|r| r.0 == symbol.address) {
            // The unwind table starts a function here too: the longer of the two.
            end = end.max(range.1);
        } else if symbol.size == 0 {
            // A label without a size names a function only where unwinding agrees.
            continue;
        }
        functions.push(Function {
            start: symbol.address,
            end,
            name: Some(symbol.name),
            source: *source,
        });
    }
    unwound.extend(ranges);

    // A symbol ends where the next begins.
    for i in 1..functions.len() {
        let next = functions[i].start;
        let function = &mut functions[i - 1];
        function.end = function.end.min(next);
    }
    // Unwind ranges fill what symbols leave.
    let mut filled = Vec::new();
    let mut at = 0;
    for (start, end) in unwound {
        let mut start = start;
        while at < functions.len() && functions[at].end <= start {
            at += 1;
        }
        let mut k = at;
        while start < end {
            match functions.get(k) {
                Some(f) if f.start <= start => {
                    start = start.max(f.end);
                    k += 1;
                }
                Some(f) if f.start < end => {
                    filled.push((start, f.start));
                    start = f.end;
                    k += 1;
                }
                _ => {
                    filled.push((start, end));
                    break;
                }
            }
        }
    }
    functions.extend(filled.into_iter().map(|(start, end)| Function {
        start,
        end,
        name: None,
        source: Source::EhFrame,
    }));
    functions.sort_by_key(|f| f.start);
    for function in &mut functions {
        function.end = function
            .end
            .min(code_end(image, function.start).unwrap_or(function.start));
    }
    for i in 1..functions.len() {
        let next = functions[i].start;
        let function = &mut functions[i - 1];
        function.end = function.end.min(next);
    }
    functions.retain(|f| f.end > f.start);
    functions
}

/// The address ranges of `.eh_frame`, by start, without overlap; with what was read before a fault.
#[allow(
    clippy::type_complexity,
    reason = "what was read before the fault is worth keeping"
)]
fn unwind_ranges(image: &Image<'_>) -> Result<Vec<(u64, u64)>, (Vec<(u64, u64)>, gimli::Error)> {
    let Some((address, data)) = image.section(".eh_frame") else {
        return Ok(Vec::new());
    };
    let endian = match image.file.endianness() {
        object::Endianness::Big => gimli::RunTimeEndian::Big,
        Endianness::Little => gimli::RunTimeEndian::Little,
    };
    let mut frames = EhFrame::new(data, endian);
    frames.set_address_size(8);
    let text = image.code.first().map_or(0, |c| c.address);
    let got = image.section(".got").map_or(0, |(address, _)| address);
    let bases = BaseAddresses::default()
        .set_eh_frame(address)
        .set_text(text)
        .set_got(got);
    // Neighbours share a CIE: the last one read is nearly always the one wanted.
    let mut last_cie: Option<(usize, _)> = None;
    let mut ranges = Vec::with_capacity(data.len() / 48);
    let mut entries = frames.entries(&bases);
    let mut fault = None;
    loop {
        match entries.next() {
            Ok(None) => break,
            Ok(Some(CieOrFde::Cie(_))) => {}
            Ok(Some(CieOrFde::Fde(partial))) => {
                let parsed = partial.parse(|section, bases, offset| {
                    if let Some((at, cie)) = &last_cie
                        && *at == offset.0
                    {
                        return Ok(std::clone::Clone::clone(cie));
                    }
                    let cie = section.cie_from_offset(bases, offset)?;
                    last_cie = Some((offset.0, cie.clone()));
                    Ok(cie)
                });
                if let Ok(fde) = parsed {
                    let start = fde.initial_address();
                    if fde.len() > 0
                        && let Some(end) = start.checked_add(fde.len())
                        && in_code(image, start)
                    {
                        ranges.push((start, end));
                    }
                }
            }
            Err(error) => {
                fault = Some(error);
                break;
            }
        }
    }
    // Stable: linkers write them nearly in order, and this sort makes use of runs.
    ranges.sort();
    ranges.dedup_by_key(|r| r.0);
    for i in 1..ranges.len() {
        let next = ranges[i].0;
        let range = &mut ranges[i - 1];
        range.1 = range.1.min(next);
    }
    match fault {
        None => Ok(ranges),
        Some(error) => Err((ranges, error)),
    }
}
