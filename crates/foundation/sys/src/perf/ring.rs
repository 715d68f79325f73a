//! A CPU's buffer of samples, shared with the kernel.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use perf::bindings as abi;
use perf_event_open_sys as perf;

use super::{COPIES_STACKS, Event, Options, REGISTERS, Rate, Record, Registers, Sample, Whose};

/// One CPU's buffer of samples.
#[derive(Debug)]
pub struct Ring {
    events: Vec<OwnedFd>,
    map: MmapRaw,
    data: usize,
    page: usize,
    cpu: u32,
    options: Options,
    buffer: Vec<u8>,
}

impl Ring {
    /// Opens a CPU's ring, not sampling yet.
    ///
    /// # Errors
    /// What the kernel says: `PermissionDenied` where perf_event_paranoid forbids it, `NotFound`
    /// where the process is gone or the kernel has no perf events.
    pub fn open(cpu: u32, whose: Whose, options: Options) -> io::Result<Self> {
        let event = open(cpu, whose, &options)?;
        let page = rustix::param::page_size();
        let length = page * (1 + options.pages.next_power_of_two());
        let map = MmapOptions::new().len(length).map_raw(event.as_raw_fd())?;
        Ok(Self {
            data: length - page,
            events: vec![event],
            map,
            page,
            cpu,
            options,
            buffer: Vec::new(),
        })
    }

    /// Has another process and its future children write into this ring, too.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn join(&mut self, pid: u32) -> io::Result<()> {
        let event = open(self.cpu, Whose::Process(pid), &self.options)?;
        let Some(first) = self.events.first() else {
            return Err(io::Error::other("a ring without events"));
        };
        // SAFETY: both descriptors are perf events that this ring owns; the call only redirects
        // the output of the one into the buffer of the other.
        let result =
            unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), first.as_raw_fd() as u64 as _) };
        check(result)?;
        self.events.push(event);
        Ok(())
    }

    /// Begins to sample.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: an ioctl on a perf event that this ring owns; it takes no pointer.
        self.each(|fd| unsafe { perf::ioctls::ENABLE(fd, 0) })
    }

    /// Stops sampling; what was sampled stays to be read.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: an ioctl on a perf event that this ring owns; it takes no pointer.
        self.each(|fd| unsafe { perf::ioctls::DISABLE(fd, 0) })
    }

    fn each(&self, call: impl Fn(RawFd) -> c_int) -> io::Result<()> {
        for event in &self.events {
            check(call(event.as_raw_fd()))?;
        }
        Ok(())
    }

    /// Hands over all records that have come, oldest first.
    pub fn drain(&mut self, take: &mut dyn FnMut(Record)) {
        let control = self.map.as_mut_ptr().cast::<abi::perf_event_mmap_page>();
        // SAFETY: the map's first page is the kernel's control page for as long as the map lives;
        // these two fields are 8-byte aligned and shared with the kernel, hence atomic accesses.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*control).data_head),
                AtomicU64::from_ptr(&raw mut (*control).data_tail),
            )
        };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while end.wrapping_sub(at) >= 8 {
            let header = self.copy(at, 8);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < 8 || size as u64 > end.wrapping_sub(at) {
                // Not a record: nothing behind it can be trusted either.
                at = end;
                break;
            }
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let mut buffer = std::mem::take(&mut self.buffer);
            self.copy_into(at, size, &mut buffer);
            if let Some(record) = self.parse(kind, &buffer[8..]) {
                take(record);
            }
            self.buffer = buffer;
            at = at.wrapping_add(size as u64);
        }
        tail.store(at, Ordering::Release);
    }

    fn copy(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copy_into(at, length, &mut bytes);
        bytes
    }

    /// Copies bytes out of the ring, around its end.
    fn copy_into(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        into.clear();
        into.reserve(length);
        let start = (at % self.data as u64) as usize;
        let first = length.min(self.data - start);
        for (from, count) in [(start, first), (0, length - first)] {
            // SAFETY: `from + count` is at most the length of the data area, which follows the
            // control page within the map; the kernel does not write between tail and head.
            let part = unsafe {
                std::slice::from_raw_parts(self.map.as_ptr().add(self.page + from), count)
            };
            into.extend_from_slice(part);
        }
    }

    fn parse<'r>(&self, kind: u32, body: &'r [u8]) -> Option<Record<'r>> {
        let mut words = Words(body);
        match kind {
            abi::PERF_RECORD_SAMPLE => {
                let ip = words.u64()?;
                let pid = words.u64()?.to_ne_bytes();
                let pid = u32::from_ne_bytes([pid[0], pid[1], pid[2], pid[3]]);
                let period = words.u64()?;
                let count = words.u64()?;
                let (mut kernel, mut user) = (Vec::new(), Vec::new());
                let mut in_kernel = false;
                for _ in 0..count {
                    let address = words.u64()?;
                    match address as i64 {
                        -128 => in_kernel = true,
                        -512 => in_kernel = false,
                        -4095..0 => {}
                        _ if in_kernel => kernel.push(address),
                        _ => user.push(address),
                    }
                }
                if kernel.is_empty() && user.is_empty() {
                    user.push(ip);
                }
                let stack = if self.options.stack_bytes > 0 {
                    words.stack()
                } else {
                    None
                };
                Some(Record::Sample(Sample {
                    pid,
                    period,
                    kernel,
                    user,
                    stack,
                }))
            }
            abi::PERF_RECORD_FORK => {
                let both = words.u64()?.to_ne_bytes();
                let [a, b, c, d, e, f, g, h] = both;
                Some(Record::Fork {
                    pid: u32::from_ne_bytes([a, b, c, d]),
                    parent: u32::from_ne_bytes([e, f, g, h]),
                })
            }
            abi::PERF_RECORD_LOST => {
                words.u64()?;
                Some(Record::Lost(words.u64()?))
            }
            _ => None,
        }
    }
}

/// The 8-byte words of a record.
struct Words<'r>(&'r [u8]);

impl<'r> Words<'r> {
    fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    /// The registers, in the order of their numbers, and the copied stack.
    fn stack(&mut self) -> Option<(Registers, &'r [u8])> {
        let abi = self.u64()?;
        let mut numbers = REGISTERS.to_vec();
        numbers.sort_unstable();
        let mut values = [0u64; 4];
        if abi != 0 {
            for number in numbers {
                let value = self.u64()?;
                if let Some(place) = REGISTERS.iter().position(|r| *r == number) {
                    values[place] = value;
                }
            }
        }
        let size = usize::try_from(self.u64()?).ok()?;
        let data = self.0.get(..size)?;
        self.0 = &self.0[size..];
        let filled = if size > 0 {
            usize::try_from(self.u64()?).ok()?
        } else {
            0
        };
        let [ip, sp, fp, lr] = values;
        (abi != 0).then(|| (Registers { ip, sp, fp, lr }, &data[..filled.min(size)]))
    }
}

/// The kernel's structure that names an event.
pub(super) fn attributes(event: Event) -> abi::perf_event_attr {
    let mut attr = abi::perf_event_attr {
        type_: event.kind,
        size: size_of::<abi::perf_event_attr>() as u32,
        config: event.config,
        ..Default::default()
    };
    attr.__bindgen_anon_3.config1 = event.config1;
    attr.__bindgen_anon_4.config2 = event.config2;
    attr
}

fn open(cpu: u32, whose: Whose, options: &Options) -> io::Result<OwnedFd> {
    let mut attr = attributes(options.event);
    attr.sample_type = u64::from(
        abi::PERF_SAMPLE_IP
            | abi::PERF_SAMPLE_TID
            | abi::PERF_SAMPLE_PERIOD
            | abi::PERF_SAMPLE_CALLCHAIN,
    );
    match options.rate {
        Rate::Hz(hz) => {
            attr.__bindgen_anon_1.sample_freq = hz.into();
            attr.set_freq(1);
        }
        Rate::Every(events) => attr.__bindgen_anon_1.sample_period = events.max(1).into(),
    }
    attr.set_disabled(1);
    attr.set_exclude_idle(1);
    attr.set_exclude_hv(1);
    attr.set_exclude_guest(1);
    if !options.kernel {
        attr.set_exclude_kernel(1);
    }
    if options.stack_bytes > 0 && COPIES_STACKS {
        attr.sample_type |= u64::from(abi::PERF_SAMPLE_REGS_USER | abi::PERF_SAMPLE_STACK_USER);
        attr.sample_regs_user = REGISTERS.iter().map(|r| 1u64 << r).sum();
        // The kernel wants a multiple of 8, and a record is at most 64 KiB.
        attr.sample_stack_user = options.stack_bytes.min(56 << 10) & !7;
        attr.set_exclude_callchain_user(1);
    }
    let pid = match whose {
        Whose::Everybody => {
            attr.set_task(1);
            -1
        }
        Whose::Process(pid) => {
            attr.set_inherit(1);
            c_int::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?
        }
    };
    let cpu = c_int::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `attr` is a whole structure of the size that it names, alive for the call; the
    // result is a new descriptor or -1.
    let fd =
        unsafe { perf::perf_event_open(&mut attr, pid, cpu, -1, abi::PERF_FLAG_FD_CLOEXEC.into()) };
    check(fd)?;
    // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn busy_for(time: Duration) -> u64 {
        let until = Instant::now() + time;
        let mut x = 1u64;
        while Instant::now() < until {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        x
    }

    /// Samples this process on all CPUs until some came, at most so long.
    fn sample_self(stack_bytes: u32) -> Vec<(u32, usize, Option<usize>)> {
        let options = Options {
            event: Event::CPU_CLOCK,
            rate: Rate::Hz(999),
            stack_bytes,
            kernel: false,
            pages: 64,
        };
        // An event follows a thread and those that it begins from then on.
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let cpus = std::thread::available_parallelism().unwrap().get() as u32;
        let mut rings: Vec<Ring> = (0..cpus)
            .map(|cpu| Ring::open(cpu, Whose::Process(thread), options).unwrap())
            .collect();
        rings.iter().for_each(|r| r.enable().unwrap());
        let until = Instant::now() + Duration::from_secs(30);
        let mut seen = Vec::new();
        while seen.len() < 20 && Instant::now() < until {
            std::thread::spawn(|| busy_for(Duration::from_millis(20)))
                .join()
                .unwrap();
            busy_for(Duration::from_millis(20));
            for ring in &mut rings {
                ring.drain(&mut |record| {
                    if let Record::Sample(s) = record {
                        seen.push((s.pid, s.user.len(), s.stack.map(|(_, data)| data.len())));
                    }
                });
            }
        }
        rings.iter().for_each(|r| r.disable().unwrap());
        seen
    }

    #[test]
    fn samples_of_our_own_process_come_with_callers_or_stacks() {
        let samples = sample_self(0);
        assert!(!samples.is_empty());
        assert!(
            samples
                .iter()
                .all(|(pid, user, _)| *pid == std::process::id() && *user > 0)
        );
        if COPIES_STACKS {
            let samples = sample_self(4096);
            assert!(
                samples
                    .iter()
                    .any(|(_, _, stack)| stack.is_some_and(|s| s > 0)),
                "{samples:?}"
            );
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        let options = Options {
            event: Event::CPU_CLOCK,
            rate: Rate::Hz(99),
            stack_bytes: 0,
            kernel: false,
            pages: 8,
        };
        assert!(Ring::open(0, Whose::Process(0x7fff_fff0), options).is_err());
    }
}
