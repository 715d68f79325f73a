//! Callers of a sample by the unwind tables of the files, from a copy of the stack.
//!
//! Distributions build PostgreSQL without frame pointers, so that the kernel can't
//! follow them; the tables for exceptions are in every file all the same.

use std::ops::Range;

use pgassay_inspect::symbols::Section;
use pgassay_sys::perf::Registers;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use native::Stacks;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use nowhere::Stacks;

/// Frames of a chain at most; the rest of a deeper one is cut off.
const DEEPEST: usize = 127;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod native {
    use framehop::{
        CacheNative, FrameAddress, MayAllocateDuringUnwind, Module, ModuleSectionInfo,
        UnwindRegsNative, Unwinder, UnwinderNative,
    };

    use super::{DEEPEST, Range, Registers, Section};

    /// The unwind tables of the files that were seen.
    pub struct Stacks {
        unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
        cache: CacheNative<MayAllocateDuringUnwind>,
    }

    impl Default for Stacks {
        fn default() -> Self {
            Self {
                unwinder: UnwinderNative::new(),
                cache: CacheNative::new(),
            }
        }
    }

    struct Sections(Vec<Section>);

    impl Sections {
        fn find(&mut self, name: &[u8]) -> Option<&mut Section> {
            self.0.iter_mut().find(|s| s.name.as_bytes() == name)
        }
    }

    impl ModuleSectionInfo<Vec<u8>> for Sections {
        fn base_svma(&self) -> u64 {
            0
        }

        fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
            let section = self.find(name)?;
            let end = section.address.checked_add(section.data.len() as u64)?;
            Some(section.address..end)
        }

        fn section_data(&mut self, name: &[u8]) -> Option<Vec<u8>> {
            // Asked for once; its range was asked for before.
            self.find(name).map(|s| s.data.clone())
        }
    }

    impl Stacks {
        /// Makes a file known that is mapped at `mapped`, `bias` above its own addresses.
        pub fn add(&mut self, name: &str, mapped: Range<u64>, bias: u64, sections: Vec<Section>) {
            let module = Module::new(name.to_owned(), mapped, bias, Sections(sections));
            self.unwinder.add_module(module);
        }

        /// The chain of a sample, innermost first, each address within the instruction that was
        /// running or called.
        pub fn chain(&mut self, registers: &Registers, stack: &[u8]) -> Vec<u64> {
            #[cfg(target_arch = "x86_64")]
            let start = UnwindRegsNative::new(registers.ip, registers.sp, registers.fp);
            #[cfg(target_arch = "aarch64")]
            let start = UnwindRegsNative::new(registers.lr, registers.sp, registers.fp);
            let mut read = |address: u64| -> Result<u64, ()> {
                let from = address.checked_sub(registers.sp).ok_or(())?;
                let from = usize::try_from(from).map_err(|_| ())?;
                let bytes = stack
                    .get(from..)
                    .and_then(|s| s.first_chunk::<8>())
                    .ok_or(())?;
                Ok(u64::from_ne_bytes(*bytes))
            };
            let mut frames =
                self.unwinder
                    .iter_frames(registers.ip, start, &mut self.cache, &mut read);
            let mut chain = Vec::new();
            while chain.len() < DEEPEST {
                match frames.next() {
                    Ok(Some(frame)) => chain.push(FrameAddress::address_for_lookup(frame)),
                    // The end, or the end of what was copied or is known.
                    Ok(None) | Err(_) => break,
                }
            }
            if chain.is_empty() {
                chain.push(registers.ip);
            }
            chain
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod nowhere {
    use super::{Range, Registers, Section};

    /// Stacks are not copied on this machine, so there is nothing to unwind.
    #[derive(Default)]
    pub struct Stacks;

    impl Stacks {
        /// Nothing to make known.
        pub fn add(&mut self, _: &str, _: Range<u64>, _: u64, _: Vec<Section>) {}

        /// The instruction itself.
        pub fn chain(&mut self, registers: &Registers, _: &[u8]) -> Vec<u64> {
            let _ = super::DEEPEST;
            vec![registers.ip]
        }
    }
}
