//! Names for addresses of a file: what a profile needs of it.

use object::{Object, ObjectSegment, SegmentFlags};

use crate::bounds::{Bounds, Source};
use crate::elf::{self, Parsed};
use crate::error::Error;
use crate::facts;

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFunction {
    /// Virtual address of its first byte.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// Its name; empty where only its bounds are known.
    pub name: String,
}

/// The functions of a file and where its parts lie in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// By start, without overlap.
    pub functions: Vec<NamedFunction>,
    /// The parts that are mapped for execution.
    segments: Vec<Segment>,
    /// The sections that unwinding needs.
    unwind: Vec<Section>,
}

/// A loadable segment that holds code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// Where it begins in the file, and its length there.
    offset: u64,
    length: u64,
    /// Its virtual address and the alignment that offset and address share.
    address: u64,
    align: u64,
}

/// A section of a file, copied out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name, such as `.eh_frame`.
    pub name: &'static str,
    /// Its first virtual address.
    pub address: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// What callers are found by where there are no frame pointers.
const UNWINDING: [&str; 4] = [".text", ".eh_frame", ".eh_frame_hdr", ".got"];

impl Symbols {
    /// Reads an ELF file and, where there is one, its separate debug file.
    ///
    /// # Errors
    /// As for [`crate::inspect_elf`].
    pub fn read(bytes: &[u8], debug: Option<&[u8]>) -> Result<Self, Error> {
        let Parsed::Image(image) = elf::parse(bytes)? else {
            return Ok(Self::default());
        };
        let other = match debug.map(elf::parse) {
            Some(Ok(Parsed::Image(other))) if other.build_id() == image.build_id() => Some(other),
            _ => None,
        };
        let extra: Vec<_> = other
            .iter()
            .map(|o| (Source::DebugFile, o.symtab()))
            .collect();
        let bounds = Bounds::gather(&image, extra, 1, &mut Vec::new());
        let functions = bounds
            .functions
            .iter()
            .map(|f| NamedFunction {
                start: f.start,
                end: f.end,
                name: f
                    .name
                    .map(|n| facts::clean(n.as_bytes()))
                    .unwrap_or_default(),
            })
            .collect();
        let segments = image
            .file
            .segments()
            .filter(|s| {
                matches!(s.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(object::elf::PF_X))
            })
            .map(|s| {
                let (offset, length) = s.file_range();
                Segment {
                    offset,
                    length,
                    address: s.address(),
                    align: s.align(),
                }
            })
            .collect();
        Ok(Self {
            build_id: facts::build_facts(&image).build_id,
            functions,
            segments,
            unwind: UNWINDING
                .iter()
                .filter_map(|name| {
                    let (address, data) = image.section(name)?;
                    Some(Section {
                        name,
                        address,
                        data: data.to_vec(),
                    })
                })
                .collect(),
        })
    }

    /// The virtual address of a byte of the file, or of the page before it that is mapped with it;
    /// none where no code is loaded from there.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        // Mappings begin at a page, segments need not: what lies before is mapped with them.
        let segment = self.segments.iter().find(|s| {
            let first = s.offset & !s.align.max(1).wrapping_sub(1);
            first <= offset && offset < s.offset.saturating_add(s.length)
        })?;
        Some(
            segment
                .address
                .wrapping_add(offset)
                .wrapping_sub(segment.offset),
        )
    }

    /// Takes out the sections that unwinding needs; they are not needed for names.
    pub fn take_unwind_sections(&mut self) -> Vec<Section> {
        std::mem::take(&mut self.unwind)
    }

    /// The function at a virtual address.
    pub fn find(&self, address: u64) -> Option<&NamedFunction> {
        let after = self.functions.partition_point(|f| f.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address < function.end).then_some(function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_s_own_functions_have_names() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = Symbols::read(&bytes, None).unwrap();
        assert!(
            symbols
                .functions
                .iter()
                .any(|f| f.name.contains("address_of"))
        );
        let one = symbols
            .functions
            .iter()
            .find(|f| f.end > f.start + 1)
            .unwrap();
        assert_eq!(symbols.find(one.end - 1), Some(one));
        assert_eq!(symbols.address_of(u64::MAX), None);
        assert!(Symbols::read(b"no file", None).is_err());
    }
}
