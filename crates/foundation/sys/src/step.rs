//! One process, instruction by instruction (ptrace(2)).
//!
//! The process is seized, not attached to: it gets no signal by it, and it goes on when we end. But one whose tracer is
//! killed in the middle of a step still ends that step, which raises SIGTRAP, and a server process that dies of a signal
//! takes all sessions with it. So before the first step the process is given a handler for SIGTRAP that
//! does nothing (`Stepped::guard`, on x86-64 and POWER); it is taken back when we let go. On arm64 the kernel steps
//! into the handler, too, and no handler helps: there only processes are to be stepped that may die with us.

#[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
mod guard;

use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use crate::memory::{self, vectors, whole};
use crate::ptrace::request;
use crate::registers::Registers;

/// Why a process stands again after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The instruction is done.
    Step,
    /// A signal is about to be delivered; [`Stepped::go`] decides whether it is.
    Signal(i32),
    /// It stopped for another reason: job control, or because it was asked to.
    Other,
    /// It ended.
    Ended,
}

/// A process in our hands. ptrace belongs to a thread: this can't be sent to another one.
#[derive(Debug)]
pub struct Stepped {
    pid: pid_t,
    /// Whether it stands, as far as we know.
    stands: bool,
    gone: bool,
    /// The action for SIGTRAP that it had, and a place where it can make a system call.
    #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
    guarded: Option<([u8; guard::ACTION], u64)>,
    /// A signal to be given back on letting go.
    held: Vec<i32>,
    /// The stops of a system call that are still ahead: where it begins, and where it ends.
    #[cfg(target_arch = "powerpc64")]
    stops_of_call: u8,
    _here: PhantomData<*const ()>,
}

/// How long a process may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

impl Stepped {
    /// Seizes a process and stops it.
    ///
    /// # Errors
    /// What the kernel says: EPERM where we may not, ESRCH where it is not there.
    pub fn seize(pid: u32) -> io::Result<Self> {
        let pid = pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
        request(libc::PTRACE_SEIZE, pid, 0, 0)?;
        let mut stepped = Self {
            pid,
            stands: false,
            gone: false,
            #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
            guarded: None,
            held: Vec::new(),
            #[cfg(target_arch = "powerpc64")]
            stops_of_call: 0,
            _here: PhantomData,
        };
        stepped.stop()?;
        stepped.begin_call_again()?;
        Ok(stepped)
    }

    /// Where stopping it broke a system call off that the kernel would begin again on its own, has it
    /// stand before that call: the kernel would begin and finish it within the first step, and for a
    /// wait without end that step would never be over.
    fn begin_call_again(&self) -> io::Result<()> {
        match self.registers()?.before_broken_call() {
            Some(before) => self.set_registers(&before),
            None => Ok(()),
        }
    }

    /// Keeps a signal back until the process is let go.
    pub fn hold(&mut self, signal: i32) {
        if !self.held.contains(&signal) {
            self.held.push(signal);
        }
    }

    /// Sends the signals again that were kept back, but for one kind.
    pub fn send_held(&mut self, but: i32) {
        for signal in self.held.extract_if(.., |signal| *signal != but) {
            // SAFETY: kill touches no memory of ours. A process that has ended needs no signal.
            unsafe { libc::kill(self.pid, signal) };
        }
    }

    /// Starts the next instruction, with a signal delivered before it or none (0).
    ///
    /// # Errors
    /// ESRCH if the process ended.
    pub fn go(&mut self, signal: i32) -> io::Result<()> {
        #[cfg(target_arch = "powerpc64")]
        {
            self.stops_of_call = 0;
        }
        request(libc::PTRACE_SINGLESTEP, self.pid, 0, signal as usize)?;
        self.stands = false;
        Ok(())
    }

    /// Starts the system call that it stands before.
    ///
    /// # Errors
    /// ESRCH if the process ended.
    #[cfg(not(target_arch = "powerpc64"))]
    pub fn call(&mut self) -> io::Result<()> {
        self.go(0)
    }

    /// Starts the system call that it stands before. A step over one would end behind the instruction after it.
    ///
    /// # Errors
    /// ESRCH if the process ended.
    #[cfg(target_arch = "powerpc64")]
    pub fn call(&mut self) -> io::Result<()> {
        self.stops_of_call = 2;
        request(libc::PTRACE_SYSCALL, self.pid, 0, 0)?;
        self.stands = false;
        Ok(())
    }

    /// A stop at the beginning or the end of a system call: goes on to the end, and has the process stand before the
    /// call again if it was broken off.
    #[cfg(target_arch = "powerpc64")]
    fn stop_of_call(&mut self) -> io::Result<Option<Stopped>> {
        self.stops_of_call -= 1;
        if self.stops_of_call > 0 {
            request(libc::PTRACE_SYSCALL, self.pid, 0, 0)?;
            self.stands = false;
            return Ok(None);
        }
        self.begin_call_again()?;
        Ok(Some(Stopped::Step))
    }

    /// Waits until it stands again.
    ///
    /// # Errors
    /// What waitpid gave.
    pub fn wait(&mut self) -> io::Result<Stopped> {
        loop {
            if let Some(stopped) = self.look(0)? {
                return Ok(stopped);
            }
        }
    }

    /// Whether it stands again by now.
    ///
    /// # Errors
    /// What waitpid gave.
    pub fn poll(&mut self) -> io::Result<Option<Stopped>> {
        self.look(libc::WNOHANG)
    }

    fn look(&mut self, flags: c_int) -> io::Result<Option<Stopped>> {
        let mut status = 0;
        // SAFETY: waitpid writes one int, to which the pointer leads.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, flags | libc::__WALL) };
        match pid {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::Interrupted => Ok(None),
                    _ => Err(error),
                };
            }
            _ => {}
        }
        if !libc::WIFSTOPPED(status) {
            self.gone = true;
            return Ok(Some(Stopped::Ended));
        }
        self.stands = true;
        let event = status >> 16;
        #[cfg(target_arch = "powerpc64")]
        if event == 0 && libc::WSTOPSIG(status) == libc::SIGTRAP && self.stops_of_call > 0 {
            return self.stop_of_call();
        }
        Ok(Some(match libc::WSTOPSIG(status) {
            libc::SIGTRAP if event == 0 => self.trap_or_signal(),
            // PTRACE_EVENT_STOP: asked to, or job control.
            _ if event != 0 => Stopped::Other,
            signal => Stopped::Signal(signal),
        }))
    }

    /// A SIGTRAP by the trap flag, or one that somebody sent.
    fn trap_or_signal(&self) -> Stopped {
        // SAFETY: siginfo_t is plain data, for which zeros are a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let at = (&raw mut info) as usize;
        let known = request(libc::PTRACE_GETSIGINFO, self.pid, 0, at);
        // SI_USER and SI_TKILL have no positive code; traps have (sigaction(2)). But behind a system call that
        // was stepped over some processors' kernels say SI_USER, by nobody.
        // SAFETY: of a signal with such a code si_pid is set.
        let sender = unsafe { info.si_pid() };
        match known {
            Ok(()) if info.si_code <= 0 && sender != 0 => Stopped::Signal(libc::SIGTRAP),
            _ => Stopped::Step,
        }
    }

    /// Stops it where it is.
    ///
    /// # Errors
    /// If it ended, or does not stop.
    pub fn stop(&mut self) -> io::Result<()> {
        if self.gone {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if self.stands {
            return Ok(());
        }
        request(libc::PTRACE_INTERRUPT, self.pid, 0, 0)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match self.poll()? {
                Some(Stopped::Ended) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Some(Stopped::Signal(signal)) => {
                    self.hold(signal);
                    return Ok(());
                }
                Some(_) => return Ok(()),
                None if Instant::now() > until => {
                    return Err(io::Error::from(io::ErrorKind::TimedOut));
                }
                None => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// The registers of the standing process.
    ///
    /// # Errors
    /// ESRCH if it ended or does not stand.
    pub fn registers(&self) -> io::Result<Registers> {
        Registers::read(self.pid)
    }

    /// Gives the standing process other registers.
    ///
    /// # Errors
    /// ESRCH if it ended or does not stand.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        registers.write(self.pid)
    }

    /// Has the system call that it stands before end at once with EAGAIN, not made at all.
    ///
    /// # Errors
    /// ESRCH if it ended.
    pub fn refuse_call(&self) -> io::Result<()> {
        let error = -i64::from(libc::EAGAIN);
        let behind = self.registers()?.behind_call(error, |at| self.word(at))?;
        self.set_registers(&behind)
    }

    /// Has the function that it has just entered return 0 at once, having written `bytes` to
    /// `address`.
    ///
    /// # Errors
    /// ESRCH if it ended, EFAULT if there is no such memory.
    pub fn return_from(&self, bytes: &[u8], address: u64) -> io::Result<()> {
        let returned = self.registers()?.returned(|at| self.word(at))?;
        self.write(address, bytes)?;
        self.set_registers(&returned)
    }

    /// A word of its memory.
    fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Reads memory.
    ///
    /// # Errors
    /// EFAULT where not all of it is there.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        memory::read(self.pid as u32, address, into)
    }

    /// Writes memory.
    ///
    /// # Errors
    /// EFAULT where not all of it is there, or may be written.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let (local, remote) = vectors(address, bytes.as_ptr().cast_mut().cast(), bytes.len());
        // SAFETY: the kernel reads `bytes` through `local`, and writes to the other process only.
        let done = unsafe {
            libc::process_vm_writev(self.pid, &raw const local, 1, &raw const remote, 1, 0)
        };
        whole(done, bytes.len())
    }

    /// A process that was stopped within a step, in a system call, has the trap of that step still ahead of it,
    /// which would end it once nobody traces it.
    #[cfg(target_arch = "aarch64")]
    fn unguard(&mut self) -> io::Result<()> {
        const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let pending = status.lines().filter_map(|line| {
            let bits = line.strip_prefix("SigPnd:")?.trim();
            u64::from_str_radix(bits, 16).ok()
        });
        if pending.fold(0, |all, bits| all | bits) & TRAP != 0 {
            self.go(0)?;
            if let Stopped::Signal(signal) = self.wait()? {
                self.hold(signal);
            }
        }
        Ok(())
    }

    /// Lets go: the process continues where it stands, as it was before.
    ///
    /// # Errors
    /// If it can't be stopped for it. A process that has ended is no error.
    pub fn let_go(mut self) -> io::Result<()> {
        self.release()
    }

    fn release(&mut self) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let released = self.stop().and_then(|()| {
            let restored = self.unguard();
            // Let go in every case: with the handler left, no harm is done.
            let first = self.held.first().copied().unwrap_or(0);
            request(libc::PTRACE_DETACH, self.pid, 0, first as usize).and(restored)
        });
        self.gone = true;
        for signal in self.held.iter().skip(1) {
            // SAFETY: kill touches no memory of ours.
            unsafe { libc::kill(self.pid, *signal) };
        }
        match released {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        self.release().ok();
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "powerpc64")))]
mod tests {
    use super::*;
    use crate::registers::{ALIGNMENT, RET, SYSCALL};
    use std::process::{Child, Command, Stdio};

    /// A process that has signal handlers and never rests.
    fn busy() -> Child {
        let child = Command::new("sh")
            .args(["-c", "trap : USR1 TERM; while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        // Until its handlers are set.
        let until = Instant::now() + Duration::from_secs(20);
        while caught(child.id()).is_none_or(|signals| signals & (1 << 9) == 0) {
            assert!(Instant::now() < until, "no handler was set");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// The signals that a process has handlers for, as bits; bit 0 is signal 1.
    fn caught(pid: u32) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    }

    fn is_running(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") t "))
    }

    /// Addresses of a `ret` and of a `syscall` in the kernel's own code in the process.
    fn places(pid: u32) -> (u64, u64) {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        let mut code = vec![0; (end - start) as usize];
        memory::read(pid, start, &mut code).unwrap();
        let find = |bytes: &[u8]| {
            let mut places = code.windows(bytes.len()).step_by(ALIGNMENT);
            let at = places.position(|window| window == bytes);
            start + (at.unwrap() * ALIGNMENT) as u64
        };
        (find(RET), find(SYSCALL))
    }

    fn stepped(child: &Child) -> Stepped {
        let mut stepped = Stepped::seize(child.id()).unwrap();
        let (ret, syscall) = places(child.id());
        stepped.guard(ret, syscall).unwrap();
        stepped
    }

    const TRAPS: u64 = 1 << (libc::SIGTRAP - 1);

    #[test]
    fn a_process_is_stepped_and_let_go_as_it_was() {
        let mut child = busy();
        let before = caught(child.id()).unwrap();
        let mut process = stepped(&child);
        assert_eq!(caught(child.id()), Some(before | TRAPS));
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            process.go(0).unwrap();
            assert_eq!(process.wait().unwrap(), Stopped::Step);
            let registers = process.registers().unwrap();
            assert!(registers.is_64_bit());
            places.insert(registers.pc());
        }
        assert!(places.len() > 50, "{}", places.len());
        process.let_go().unwrap();
        assert_eq!(caught(child.id()), Some(before));
        std::thread::sleep(Duration::from_millis(50));
        assert!(is_running(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn one_that_ends_while_stepped_is_told() {
        let mut child = busy();
        let mut process = stepped(&child);
        child.kill().unwrap();
        let ended = (0..1000).any(|_| {
            process.go(0).is_err()
                || process
                    .wait()
                    .is_ok_and(|stopped| stopped == Stopped::Ended)
        });
        assert!(ended);
        child.wait().ok();
        let gone = Stepped::seize(u32::MAX >> 2).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }

    /// The helper below, when the variable asks for it: steps until it is killed.
    #[test]
    fn helper_that_steps_and_is_killed() {
        let Some(pid) = std::env::var_os("PGASSAY_SYS_STEPPED") else {
            return;
        };
        let pid: u32 = pid.to_str().unwrap().parse().unwrap();
        let mut process = Stepped::seize(pid).unwrap();
        let (ret, syscall) = places(pid);
        process.guard(ret, syscall).unwrap();
        loop {
            process.go(0).unwrap();
            process.wait().unwrap();
        }
    }

    /// Without the handler, the trap flag that is left kills the process with SIGTRAP.
    #[test]
    fn a_process_outlives_a_tracer_that_is_killed() {
        for _ in 0..3 {
            let mut child = busy();
            let mut tracer = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "step::tests::helper_that_steps_and_is_killed"])
                .env("PGASSAY_SYS_STEPPED", child.id().to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let until = Instant::now() + Duration::from_secs(20);
            while caught(child.id()).unwrap() & TRAPS == 0 {
                assert!(Instant::now() < until, "it was never stepped");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(30));
            tracer.kill().unwrap();
            tracer.wait().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert!(
                child.try_wait().unwrap().is_none(),
                "it died with its tracer"
            );
            assert!(is_running(child.id()));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
