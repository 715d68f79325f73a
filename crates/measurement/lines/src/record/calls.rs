//! System calls by their numbers, of the processor that pgassay runs on (the kernel's unistd.h).

use crate::recording::Kind;

/// What a system call does to the memory that its arguments name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The second argument is the address, the third the length.
    Buffer(Kind),
    /// The second argument is a struct iovec array, the third its length.
    Vector(Kind),
    /// futex: the kernel looks at the word of the first argument.
    Word,
    /// It may use memory that was named before (io_uring).
    Unseen,
    /// Nothing that counts.
    None,
}

#[cfg(target_arch = "x86_64")]
mod numbers {
    /// epoll_wait, epoll_pwait, epoll_pwait2, poll, ppoll.
    pub const WAITS: &[u64] = &[232, 281, 441, 7, 271];
    /// nanosleep, clock_nanosleep, select, pselect6.
    pub const SLEEPS: &[u64] = &[35, 230, 23, 270];
    /// recvfrom, recvmsg.
    pub const READS_OF_SOCKETS: &[u64] = &[45, 47];
    /// mmap, mprotect, munmap, mremap, shmat, shmdt.
    pub const CHANGE_MAP: &[u64] = &[9, 10, 11, 25, 30, 67];
    /// read, pread64, recvfrom.
    pub const STORE: &[u64] = &[0, 17, 45];
    /// write, pwrite64, sendto.
    pub const LOAD: &[u64] = &[1, 18, 44];
    /// readv, preadv, preadv2.
    pub const STORE_VECTOR: &[u64] = &[19, 295, 327];
    /// writev, pwritev, pwritev2.
    pub const LOAD_VECTOR: &[u64] = &[20, 296, 328];
    pub const FUTEX: u64 = 202;
    pub const IO_URING_ENTER: u64 = 426;
}

#[cfg(target_arch = "powerpc64")]
mod numbers {
    /// epoll_wait, epoll_pwait, epoll_pwait2, poll, ppoll.
    pub const WAITS: &[u64] = &[238, 303, 441, 167, 281];
    /// nanosleep, clock_nanosleep, select, _newselect, pselect6.
    pub const SLEEPS: &[u64] = &[162, 248, 82, 142, 280];
    /// recv, recvfrom, recvmsg.
    pub const READS_OF_SOCKETS: &[u64] = &[336, 337, 342];
    /// mmap, mprotect, munmap, mremap, shmat, shmdt; ipc, by which the C library makes the last two.
    pub const CHANGE_MAP: &[u64] = &[90, 125, 91, 163, 397, 398, 117];
    /// read, pread64, recv, recvfrom.
    pub const STORE: &[u64] = &[3, 179, 336, 337];
    /// write, pwrite64, send, sendto.
    pub const LOAD: &[u64] = &[4, 180, 334, 335];
    /// readv, preadv, preadv2.
    pub const STORE_VECTOR: &[u64] = &[145, 320, 380];
    /// writev, pwritev, pwritev2.
    pub const LOAD_VECTOR: &[u64] = &[146, 321, 381];
    pub const FUTEX: u64 = 221;
    pub const IO_URING_ENTER: u64 = 426;
}

#[cfg(target_arch = "aarch64")]
mod numbers {
    /// epoll_pwait, epoll_pwait2, ppoll.
    pub const WAITS: &[u64] = &[22, 441, 73];
    /// nanosleep, clock_nanosleep, pselect6.
    pub const SLEEPS: &[u64] = &[101, 115, 72];
    /// recvfrom, recvmsg.
    pub const READS_OF_SOCKETS: &[u64] = &[207, 212];
    /// mmap, mprotect, munmap, mremap, shmat, shmdt.
    pub const CHANGE_MAP: &[u64] = &[222, 226, 215, 216, 196, 197];
    /// read, pread64, recvfrom.
    pub const STORE: &[u64] = &[63, 67, 207];
    /// write, pwrite64, sendto.
    pub const LOAD: &[u64] = &[64, 68, 206];
    /// readv, preadv, preadv2.
    pub const STORE_VECTOR: &[u64] = &[65, 69, 286];
    /// writev, pwritev, pwritev2.
    pub const LOAD_VECTOR: &[u64] = &[66, 70, 287];
    pub const FUTEX: u64 = 98;
    pub const IO_URING_ENTER: u64 = 426;
}

/// Whether it waits for the client.
pub(super) fn is_wait(number: u64) -> bool {
    numbers::WAITS.contains(&number)
}

/// Whether it sleeps for a time.
pub(super) fn sleeps(number: u64) -> bool {
    numbers::SLEEPS.contains(&number)
}

/// A session reads from its client by recv.
pub(super) fn is_read_of_socket(number: u64) -> bool {
    numbers::READS_OF_SOCKETS.contains(&number)
}

/// Whether parts of memory come, go or change by it.
pub(super) fn changes_map(number: u64) -> bool {
    numbers::CHANGE_MAP.contains(&number)
}

/// What it does to memory.
pub(super) fn memory(number: u64) -> Use {
    match number {
        numbers::FUTEX => Use::Word,
        numbers::IO_URING_ENTER => Use::Unseen,
        _ if numbers::STORE.contains(&number) => Use::Buffer(Kind::KernelStore),
        _ if numbers::LOAD.contains(&number) => Use::Buffer(Kind::KernelLoad),
        _ if numbers::STORE_VECTOR.contains(&number) => Use::Vector(Kind::KernelStore),
        _ if numbers::LOAD_VECTOR.contains(&number) => Use::Vector(Kind::KernelLoad),
        _ => Use::None,
    }
}
