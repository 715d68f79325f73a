//! The time of a session that is stepped: it passes by the instructions executed.

use std::ops::Range;
use std::time::Duration;

use object::{Object, ObjectSymbol};
use pgassay_model::Failure;
use pgassay_sys::memory;
use pgassay_sys::registers::Registers;
#[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
use pgassay_sys::registers::{ALIGNMENT, RET, SYSCALL};
use rustix::time::{ClockId, clock_gettime};

use crate::map::Map;

/// Nanoseconds that an instruction takes in the session's own time.
const INSTRUCTION_NS: u64 = 1;
/// And those that reading the clock takes.
const READING_NS: u64 = 25;

/// The code that the kernel maps into each process.
pub(super) struct Vdso {
    pub(super) range: Range<u64>,
    clock_gettime: Option<u64>,
    gettimeofday: Option<u64>,
    #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
    pub(super) ret: u64,
    #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
    pub(super) syscall: u64,
}

impl Vdso {
    pub(super) fn read(pid: u32, map: &Map) -> Result<Self, Failure> {
        let none = || {
            Failure::target(format!(
                "process {pid} has no vDSO, which is needed to step it"
            ))
        };
        let part = map
            .0
            .iter()
            .find(|part| part.path == "[vdso]")
            .ok_or_else(none)?;
        let length = part.range.end - part.range.start;
        let mut bytes = vec![0; length.min(1 << 20) as usize];
        memory::read(pid, part.range.start, &mut bytes).map_err(|error| {
            Failure::target(format!(
                "the memory of process {pid} can't be read: {error}"
            ))
        })?;
        #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
        let find = |what: &[u8]| {
            let mut places = bytes.windows(what.len()).step_by(ALIGNMENT);
            let at = places.position(|window| window == what);
            at.map(|at| part.range.start + (at * ALIGNMENT) as u64)
        };
        let (mut clock_gettime, mut gettimeofday) = (None, None);
        if let Ok(file) = object::File::parse(&*bytes) {
            for symbol in file.dynamic_symbols() {
                let address = Some(part.range.start + symbol.address());
                match symbol.name() {
                    Ok("__vdso_clock_gettime" | "__kernel_clock_gettime") => {
                        clock_gettime = address
                    }
                    Ok("__vdso_gettimeofday" | "__kernel_gettimeofday") => gettimeofday = address,
                    _ => {}
                }
            }
        }
        Ok(Self {
            range: part.range.clone(),
            clock_gettime,
            gettimeofday,
            #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
            ret: find(RET).ok_or_else(none)?,
            #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
            syscall: find(SYSCALL).ok_or_else(none)?,
        })
    }
}

/// The session's own time.
pub(super) struct Clock {
    pub(super) vdso: Vdso,
    realtime: u64,
    monotonic: u64,
    /// Nanoseconds that passed otherwise than by instructions.
    passed: u64,
}

impl Clock {
    pub(super) fn new(vdso: Vdso) -> Self {
        let now = |id| {
            let time = clock_gettime(id);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        Self {
            vdso,
            realtime: now(ClockId::Realtime),
            monotonic: now(ClockId::Monotonic),
            passed: 0,
        }
    }

    /// The session was asleep in the kernel, where time passes as ever.
    pub(super) fn slept(&mut self, time: Duration) {
        self.passed += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    }

    /// What to write where, if a function that tells the time has just been entered.
    pub(super) fn answer(
        &mut self,
        registers: &Registers,
        instructions: u64,
    ) -> Option<([u8; 16], u64)> {
        let pc = Some(registers.pc());
        let passed = instructions * INSTRUCTION_NS + self.passed;
        let (address, ns, unit) = if pc == self.vdso.clock_gettime {
            let start = match registers.argument(0) {
                0 => self.realtime,
                1 => self.monotonic,
                _ => return None,
            };
            (registers.argument(1), start + passed, 1)
        } else if pc == self.vdso.gettimeofday && registers.argument(1) == 0 {
            (registers.argument(0), self.realtime + passed, 1000)
        } else {
            return None;
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(ns / 1_000_000_000).to_ne_bytes());
        bytes[8..].copy_from_slice(&(ns % 1_000_000_000 / unit).to_ne_bytes());
        if address == 0 {
            return None;
        }
        self.passed += READING_NS;
        Some((bytes, address))
    }
}
