"""Runs a command under a seccomp filter that refuses system calls: forbid.py ERROR CALL[,CALL…] COMMAND…

ERROR is EPERM, as a container's filter answers, or ENOSYS, as a kernel without the call does.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# By machine: AUDIT_ARCH of <linux/audit.h>, and the numbers of the calls.
MACHINES = {
    "x86_64": (0xC000003E, {"perf_event_open": 298, "ptrace": 101, "io_uring_setup": 425}),
    "aarch64": (0xC00000B7, {"perf_event_open": 241, "ptrace": 117, "io_uring_setup": 425}),
    "ppc64le": (0xC0000015, {"perf_event_open": 319, "ptrace": 26, "io_uring_setup": 425}),
}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD+W+ABS, BPF_JMP+JEQ+K, BPF_RET+K
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def main():
    error, calls, command = getattr(errno, sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    arch, numbers = MACHINES[platform.machine()]
    step = lambda code, value, true=0, false=0: struct.pack("=HBBI", code, true, false, value)
    # Of seccomp_data: arch lies at 4, nr at 0. Another machine's calls are let through.
    steps = [step(LOAD, 4), step(EQUAL, arch, 1, 0), step(RETURN, ALLOW), step(LOAD, 0)]
    for call in calls:
        steps += [step(EQUAL, numbers[call], 0, 1), step(RETURN, ERRNO | error)]
    steps.append(step(RETURN, ALLOW))
    code = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        sys.exit(f"forbid.py: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


main()
