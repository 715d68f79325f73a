//! An event counted for a process (perf_event_open(2)).

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf::bindings as abi;
use perf_event_open_sys as perf;

use super::{Count, Counted, Event};

/// An event that is counted.
#[derive(Debug)]
pub struct Counter {
    event: File,
}

impl Counter {
    /// Counts an event of a process from now on, on whatever CPU it runs. Where there is a `leader`,
    /// opened for the same process, the kernel counts both at the same times or neither.
    ///
    /// # Errors
    /// What the kernel says: `NotFound` or `Unsupported` where there is no such counter or process,
    /// `PermissionDenied` where perf_event_paranoid or a sandbox forbids it.
    pub fn open(
        event: Event,
        pid: u32,
        counted: Counted,
        leader: Option<&Self>,
    ) -> io::Result<Self> {
        let pid = c_int::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut attr = super::ring::attributes(event);
        attr.read_format =
            u64::from(abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING);
        attr.set_exclude_hv(1);
        attr.set_inherit(counted.children.into());
        if !counted.kernel {
            attr.set_exclude_kernel(1);
        }
        let group = leader.map_or(-1, |leader| leader.event.as_raw_fd());
        let flags = abi::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: `attr` is a whole structure of the size that it names, alive for the call; the
        // result is a new descriptor or -1.
        let fd = unsafe { perf::perf_event_open(&mut attr, pid, -1, group, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            event: event.into(),
        })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// Where the kernel gives nothing to read: an event that could never be counted.
    pub fn so_far(&mut self) -> io::Result<Count> {
        let mut words = [0; 24];
        self.event.read_exact(&mut words)?;
        let word = |n: usize| {
            let bytes = words[8 * n..].first_chunk().copied();
            u64::from_ne_bytes(bytes.unwrap_or_default())
        };
        Ok(Count {
            value: word(0),
            enabled_ns: word(1),
            running_ns: word(2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PERF_COUNT_SW_PAGE_FAULTS: counted in the kernel, so by those who may see it.
    const PAGE_FAULTS: Event = Event::software(2);

    /// Touches so many fresh pages.
    fn touch(pages: usize) {
        let page = rustix::param::page_size();
        let map = memmap2::MmapMut::map_anon(pages * page).unwrap();
        let mut map = map;
        // One large page would be one fault.
        let _ = map.advise(memmap2::Advice::NoHugePage);
        for at in (0..map.len()).step_by(page) {
            map[at] = 1;
        }
    }

    #[test]
    fn as_many_page_faults_are_counted_as_fresh_pages_are_touched() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let counted = Counted {
            kernel: false,
            children: true,
        };
        let mut counter = Counter::open(PAGE_FAULTS, thread, counted, None).unwrap();
        let before = counter.so_far().unwrap();
        touch(1000);
        // Of a thread that begins later, too.
        std::thread::spawn(|| touch(500)).join().unwrap();
        let after = counter.so_far().unwrap();
        let faults = after.value - before.value;
        assert!((1500..2500).contains(&faults), "{faults}");
        assert_eq!(after.enabled_ns, after.running_ns);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        let counted = Counted::default();
        assert!(Counter::open(PAGE_FAULTS, 0x7fff_fff0, counted, None).is_err());
        assert!(Counter::open(PAGE_FAULTS, u32::MAX, counted, None).is_err());
    }
}
