//! What DWARF says: the compiler of each unit, and through which inlined functions an instruction
//! came into the function that holds it.
//!
//! Units are visited once, and only those whose ranges hold an address that is asked for are walked.
//! A file can be made so that DWARF's own rules ask for work without end (a thousand units with one
//! table of abbreviations, entries of one byte with a thousand empty attributes, ranges that all hold
//! everything), so every step is paid for from a budget that grows with the file.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, Dwarf, DwarfSections, EndianSlice, EntriesRaw,
    Reader, RunTimeEndian, Section, Unit, UnitHeader, UnitOffset, constants as dw,
};
use object::Endianness;

use crate::compressed;
use crate::elf::Image;
use crate::facts::clean;

type Slice<'s> = EndianSlice<'s, RunTimeEndian>;

/// Steps for each byte of `.debug_info`, besides a fixed allowance.
const STEPS_PER_BYTE: u64 = 4;

/// Bytes of `.debug_abbrev` that one unit's table may take. Those of the largest C++ units have some
/// tens of kilobytes.
const ABBREVIATION_BYTES: usize = 64 << 10;

/// What reading a unit's table of abbreviations is charged.
const UNIT_STEPS: u64 = 128;

/// Units looked at.
const MOST_UNITS: usize = 32_768;

/// Units asked for their compiler where no address is: a program has few compilers.
const UNITS_FOR_PRODUCERS: usize = 256;

/// References followed from an inlined instance to the function's name.
const MOST_HOPS: usize = 8;

/// Inlined functions around one instruction.
const MOST_DEEP: usize = 64;

/// Compilers told apart.
const MOST_PRODUCERS: usize = 16;

/// Longest name taken into a report, in bytes.
const NAME_BYTES: usize = 512;

/// What the DWARF of a file told.
#[derive(Debug, Default)]
pub struct Told {
    /// `DW_AT_producer` of the units, each once.
    pub producers: Vec<String>,
    /// By address, the inlined functions around the instruction, the outermost first; an address is
    /// missing where nothing was inlined, or nothing is said.
    pub inlined: BTreeMap<u64, Vec<String>>,
}

/// Reads the DWARF of `image` for the instructions at `addresses`, ascending. Nothing where there is
/// none.
///
/// `supplement` holds what several programs share, where dwz moved it there.
pub fn read(
    image: &Image<'_>,
    supplement: Option<&Image<'_>>,
    addresses: &[u64],
    warnings: &mut Vec<String>,
) -> Told {
    let endian = match image.file.endian() {
        Endianness::Big => RunTimeEndian::Big,
        Endianness::Little => RunTimeEndian::Little,
    };
    let loaded = DwarfSections::load(|id| {
        let data = compressed::section(image, id.name(), warnings);
        Ok::<_, gimli::Error>(data.unwrap_or(Cow::Borrowed(&[])))
    });
    let Ok(sections) = loaded else {
        return Told::default();
    };
    let mut dwarf = sections.borrow(|data| EndianSlice::new(data, endian));
    let shared = supplement.and_then(|image| {
        let loaded = DwarfSections::load(|id| {
            let data = compressed::section(image, id.name(), warnings);
            Ok::<_, gimli::Error>(data.unwrap_or(Cow::Borrowed(&[])))
        });
        loaded.ok()
    });
    if let Some(shared) = &shared {
        dwarf.set_sup(shared.borrow(|data| EndianSlice::new(data, endian)));
    }
    let mut walk = Walk {
        steps_left: (dwarf.debug_info.reader().len() as u64)
            .saturating_mul(STEPS_PER_BYTE)
            .saturating_add(1 << 20),
        dwarf: &dwarf,
        addresses,
        headers: Vec::new(),
        abbreviations: None,
        foreign: None,
        names: HashMap::new(),
        shared: Shared::default(),
        separate: 0,
        told: Told::default(),
    };
    let end = walk.units();
    if walk.separate > 0 {
        warnings.push(format!(
            "{} compilation units keep their DWARF in .dwo files, which are not read: functions inlined there are not named",
            walk.separate
        ));
    }
    if let Err(stop) = end {
        warnings.push(match stop {
            Stop::Damaged(error) => format!("DWARF can't be read to its end: {error}"),
            Stop::Spent => {
                "DWARF asks for more work than its size warrants; the rest was not read".into()
            }
        });
    }
    walk.told
}

/// Why a walk ends early.
enum Stop {
    Damaged(gimli::Error),
    Spent,
}

impl From<gimli::Error> for Stop {
    fn from(error: gimli::Error) -> Self {
        Self::Damaged(error)
    }
}

/// What an entry for code says of itself.
#[derive(Default)]
struct CodeEntry<'s> {
    low: Option<u64>,
    high: Option<AttributeValue<Slice<'s>>>,
    ranges: Option<AttributeValue<Slice<'s>>>,
    sibling: Option<UnitOffset>,
}

struct Walk<'w, 's> {
    dwarf: &'w Dwarf<Slice<'s>>,
    addresses: &'w [u64],
    headers: Vec<UnitHeader<Slice<'s>>>,
    /// The last unit's table: neighbours may share one.
    abbreviations: Option<(usize, Arc<Abbreviations>)>,
    /// The last unit that another one referred to.
    foreign: Option<(usize, Arc<Unit<Slice<'s>>>)>,
    /// Names by offset in `.debug_info`.
    names: HashMap<usize, Option<String>>,
    /// The same of the supplementary file.
    shared: Shared<'s>,
    /// Units that only point to a `.dwo` file.
    separate: usize,
    steps_left: u64,
    told: Told,
}

/// Units and names of the supplementary file.
#[derive(Default)]
struct Shared<'s> {
    headers: Option<Vec<UnitHeader<Slice<'s>>>>,
    unit: Option<(usize, Arc<Unit<Slice<'s>>>)>,
    names: HashMap<usize, Option<String>>,
}

/// A unit's table of abbreviations, as far as it is not absurdly long.
fn abbreviations(
    dwarf: &Dwarf<Slice<'_>>,
    offset: usize,
) -> Result<Arc<Abbreviations>, gimli::Error> {
    let all = dwarf.debug_abbrev.reader();
    let bytes = all.slice().get(offset..).unwrap_or_default();
    let window = &bytes[..bytes.len().min(ABBREVIATION_BYTES)];
    let table = DebugAbbrev::new(window, all.endian());
    table
        .abbreviations(gimli::DebugAbbrevOffset(0))
        .map(Arc::new)
}

impl<'s> Walk<'_, 's> {
    fn pay(&mut self, steps: u64) -> Result<(), Stop> {
        match self.steps_left.checked_sub(steps) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => Err(Stop::Spent),
        }
    }

    fn units(&mut self) -> Result<(), Stop> {
        let mut headers = self.dwarf.units();
        // Headers first, so that a reference into another unit finds it; what stands before a fault
        // in them is kept.
        let mut fault = None;
        loop {
            match headers.next() {
                Ok(Some(header)) if self.headers.len() < MOST_UNITS => self.headers.push(header),
                Ok(Some(_)) => {
                    fault = Some(Stop::Spent);
                    break;
                }
                Ok(None) => break,
                Err(error) => {
                    fault = Some(error.into());
                    break;
                }
            }
        }
        let wanted = match self.addresses {
            [] => UNITS_FOR_PRODUCERS,
            _ => usize::MAX,
        };
        for i in 0..self.headers.len().min(wanted) {
            match self.unit(i) {
                // A damaged unit costs itself only.
                Err(Stop::Damaged(error)) => fault = fault.or(Some(error.into())),
                Err(Stop::Spent) => return Err(Stop::Spent),
                Ok(()) => {}
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// A unit with the table of its entries' forms.
    fn parsed(&mut self, header: UnitHeader<Slice<'s>>) -> Result<Unit<Slice<'s>>, Stop> {
        let offset = header.debug_abbrev_offset().0;
        let table = match &self.abbreviations {
            Some((at, table)) if *at == offset => Arc::clone(table),
            _ => {
                let table = abbreviations(self.dwarf, offset)?;
                self.abbreviations = Some((offset, Arc::clone(&table)));
                table
            }
        };
        Ok(Unit::new_with_abbreviations(self.dwarf, header, table)?)
    }

    fn unit(&mut self, index: usize) -> Result<(), Stop> {
        self.pay(UNIT_STEPS)?;
        let unit = self.parsed(self.headers[index])?;
        let mut entries = unit.entries_raw(None)?;
        let Some(root) = entries.read_abbreviation()? else {
            return Ok(());
        };
        self.pay(root.attributes().len() as u64)?;
        let mut code = CodeEntry::default();
        for form in root.attributes() {
            let attribute = entries.read_attribute(*form)?;
            if attribute.name() == dw::DW_AT_producer
                && let Ok(text) = self.dwarf.attr_string(&unit, attribute.value())
            {
                let text = text.slice();
                let text = clean(&text[..text.len().min(4096)]);
                let producers = &mut self.told.producers;
                if producers.len() < MOST_PRODUCERS && !producers.contains(&text) {
                    producers.push(text);
                }
            }
            if matches!(
                attribute.name(),
                dw::DW_AT_dwo_name | dw::DW_AT_GNU_dwo_name
            ) {
                self.separate += 1;
            }
            self.note(&unit, &mut code, &attribute)?;
        }
        if self.addresses.is_empty() || self.held(&unit, &code)?.is_empty() {
            return Ok(());
        }
        self.walk(&unit, &mut entries)
    }

    /// Visits the entries below the root of a unit.
    fn walk<'u>(
        &mut self,
        unit: &'u Unit<Slice<'s>>,
        entries: &mut EntriesRaw<'u, Slice<'s>>,
    ) -> Result<(), Stop> {
        while !entries.is_empty() {
            let offset = entries.next_offset();
            self.pay(1)?;
            let Some(form) = entries.read_abbreviation()? else {
                continue;
            };
            self.pay(form.attributes().len() as u64)?;
            let tag = form.tag();
            let mut code = CodeEntry::default();
            for specification in form.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                self.note(unit, &mut code, &attribute)?;
            }
            let descend = match tag {
                dw::DW_TAG_subprogram => !self.held(unit, &code)?.is_empty(),
                dw::DW_TAG_inlined_subroutine => {
                    let held = self.held(unit, &code)?;
                    if !held.is_empty() {
                        let name = self.name(unit, offset)?;
                        let name = name.unwrap_or_else(|| "<inlined>".into());
                        for address in &held {
                            let chain = self.told.inlined.entry(*address).or_default();
                            if chain.len() < MOST_DEEP {
                                chain.push(name.clone());
                            }
                        }
                    }
                    !held.is_empty()
                }
                // Types, variables and call sites hold no code of their own.
                dw::DW_TAG_structure_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_enumeration_type
                | dw::DW_TAG_subroutine_type
                | dw::DW_TAG_array_type
                | dw::DW_TAG_call_site => false,
                _ => true,
            };
            if !descend
                && form.has_children()
                && let Some(sibling) = code.sibling.filter(|s| s.0 > entries.next_offset().0)
            {
                *entries = unit.entries_raw(Some(sibling))?;
            }
        }
        Ok(())
    }

    fn note(
        &self,
        unit: &Unit<Slice<'s>>,
        code: &mut CodeEntry<'s>,
        attribute: &gimli::Attribute<Slice<'s>>,
    ) -> Result<(), Stop> {
        match attribute.name() {
            dw::DW_AT_low_pc => code.low = self.dwarf.attr_address(unit, attribute.value())?,
            dw::DW_AT_high_pc => code.high = Some(attribute.value()),
            dw::DW_AT_ranges => code.ranges = Some(attribute.value()),
            dw::DW_AT_sibling => {
                if let AttributeValue::UnitRef(offset) = attribute.value() {
                    code.sibling = Some(offset);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The addresses asked for that an entry's ranges hold.
    fn held(&mut self, unit: &Unit<Slice<'s>>, code: &CodeEntry<'s>) -> Result<Vec<u64>, Stop> {
        let mut held = Vec::new();
        let mut take = |this: &mut Self, begin: u64, end: u64| -> Result<(), Stop> {
            let from = this.addresses.partition_point(|a| *a < begin);
            let to = this.addresses.partition_point(|a| *a < end);
            let inside = this.addresses.get(from..to).unwrap_or_default();
            this.pay(1 + inside.len() as u64)?;
            held.extend_from_slice(inside);
            Ok(())
        };
        if let Some(ranges) = &code.ranges {
            if let Some(mut ranges) = self.dwarf.attr_ranges(unit, *ranges)? {
                while let Some(range) = ranges.next()? {
                    take(self, range.begin, range.end)?;
                }
            }
        } else if let (Some(low), Some(high)) = (code.low, &code.high) {
            let end = match self.dwarf.attr_address(unit, *high)? {
                Some(address) => address,
                None => low.saturating_add(high.udata_value().unwrap_or(0)),
            };
            take(self, low, end)?;
        }
        // Ranges of one entry may overlap in a damaged file.
        held.sort_unstable();
        held.dedup();
        Ok(held)
    }

    /// The name of the function that the entry at `offset` is an instance of.
    fn name(&mut self, unit: &Unit<Slice<'s>>, offset: UnitOffset) -> Result<Option<String>, Stop> {
        let mut at = offset;
        let mut foreign: Option<Arc<Unit<Slice<'s>>>> = None;
        let mut passed = Vec::new();
        let mut found = None;
        for _ in 0..MOST_HOPS {
            let unit = foreign.as_deref().unwrap_or(unit);
            let key = at
                .to_debug_info_offset(&unit.header)
                .map_or(usize::MAX, |o| o.0);
            if let Some(name) = self.names.get(&key) {
                found.clone_from(name);
                break;
            }
            passed.push(key);
            let entry = unit.entry(at)?;
            self.pay(entry.attrs().len() as u64)?;
            if let Some(value) = entry.attr_value(dw::DW_AT_name)
                && let Ok(text) = self.dwarf.attr_string(unit, value)
            {
                let text = text.slice();
                found = Some(clean(&text[..text.len().min(NAME_BYTES)]));
                break;
            }
            let next = entry
                .attr_value(dw::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(dw::DW_AT_specification));
            match next {
                Some(AttributeValue::UnitRef(offset)) => at = offset,
                Some(AttributeValue::DebugInfoRef(offset)) => {
                    let behind = self.headers.partition_point(|h| {
                        h.debug_info_offset().is_some_and(|o| o.0 <= offset.0)
                    });
                    let Some(index) = behind.checked_sub(1) else {
                        break;
                    };
                    let Some(within) = offset.to_unit_offset(&self.headers[index]) else {
                        break;
                    };
                    let other = match &self.foreign {
                        Some((i, unit)) if *i == index => Arc::clone(unit),
                        _ => {
                            self.pay(8 * UNIT_STEPS)?;
                            let unit = Arc::new(self.parsed(self.headers[index])?);
                            self.foreign = Some((index, Arc::clone(&unit)));
                            unit
                        }
                    };
                    at = within;
                    foreign = Some(other);
                }
                Some(AttributeValue::DebugInfoRefSup(offset)) => {
                    found = self.shared_name(offset.0)?;
                    break;
                }
                // Nameless.
                _ => break,
            }
        }
        for key in passed {
            self.names.insert(key, found.clone());
        }
        Ok(found)
    }

    /// The name of the function at an offset in the supplementary file's `.debug_info`.
    fn shared_name(&mut self, offset: usize) -> Result<Option<String>, Stop> {
        let dwarf = self.dwarf;
        let Some(sup) = dwarf.sup() else {
            return Ok(None);
        };
        if let Some(name) = self.shared.names.get(&offset) {
            return Ok(name.clone());
        }
        if self.shared.headers.is_none() {
            let mut headers = Vec::new();
            let mut units = sup.units();
            while let Ok(Some(header)) = units.next() {
                self.pay(1)?;
                if headers.len() < MOST_UNITS {
                    headers.push(header);
                }
            }
            self.shared.headers = Some(headers);
        }
        let mut at = gimli::DebugInfoOffset(offset);
        let mut found = None;
        for _ in 0..MOST_HOPS {
            let headers = self.shared.headers.as_deref().unwrap_or_default();
            let behind =
                headers.partition_point(|h| h.debug_info_offset().is_some_and(|o| o.0 <= at.0));
            let Some((index, header)) = behind.checked_sub(1).map(|i| (i, headers[i])) else {
                break;
            };
            let Some(within) = at.to_unit_offset(&header) else {
                break;
            };
            let unit = match &self.shared.unit {
                Some((i, unit)) if *i == index => Arc::clone(unit),
                _ => {
                    self.pay(8 * UNIT_STEPS)?;
                    let table = abbreviations(sup, header.debug_abbrev_offset().0)?;
                    let unit = Arc::new(Unit::new_with_abbreviations(sup, header, table)?);
                    self.shared.unit = Some((index, Arc::clone(&unit)));
                    unit
                }
            };
            let entry = unit.entry(within)?;
            self.pay(entry.attrs().len() as u64)?;
            if let Some(value) = entry.attr_value(dw::DW_AT_name)
                && let Ok(text) = sup.attr_string(&unit, value)
            {
                let text = text.slice();
                found = Some(clean(&text[..text.len().min(NAME_BYTES)]));
                break;
            }
            let next = entry
                .attr_value(dw::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(dw::DW_AT_specification));
            match next {
                Some(AttributeValue::UnitRef(offset)) => {
                    match offset.to_debug_info_offset(&unit.header) {
                        Some(offset) => at = offset,
                        None => break,
                    }
                }
                Some(AttributeValue::DebugInfoRef(offset)) => at = offset,
                _ => break,
            }
        }
        self.shared.names.insert(offset, found.clone());
        Ok(found)
    }
}
