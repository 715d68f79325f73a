//! Why a process can't be stepped, and what helps.

use std::fs;
use std::io;

use pgassay_model::Failure;

/// A server under an emulator: its process executes the emulator.
pub(super) fn refuse_emulated(pid: u32) -> Result<(), Failure> {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).map_err(|error| refusal(pid, &error))?;
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("qemu-") || name.contains("valgrind") || name.starts_with("callgrind") {
        return Err(Failure::target(format!(
            "process {pid} executes {name}, not the server itself: its memory would be the \
             emulator's"
        ))
        .with_remedy("name the server's installation: pgassay lines DIRECTORY runs one of another processor under the emulator itself"));
    }
    Ok(())
}

/// Why a process can't be stepped, and what helps.
pub(super) fn refusal(pid: u32, error: &io::Error) -> Failure {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (why, remedy) = explain(error.kind(), &status, yama.trim(), &own);
    let failure = Failure::target(format!(
        "process {pid} can't be stepped: {}",
        match why.is_empty() {
            true => error.to_string(),
            false => why,
        }
    ));
    match remedy {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()
}

/// The refusal by what /proc says of both processes and of Yama (Documentation/admin-guide/LSM/Yama).
fn explain(
    kind: io::ErrorKind,
    status: &str,
    yama: &str,
    own: &str,
) -> (String, Option<&'static str>) {
    if kind == io::ErrorKind::NotFound || status.is_empty() {
        return ("it is not there (any more)".to_owned(), None);
    }
    if kind == io::ErrorKind::Unsupported {
        return (
            "this kernel, or what stands in for it, has no ptrace".to_owned(),
            Some("run pgassay outside of the sandbox or emulator"),
        );
    }
    if kind != io::ErrorKind::PermissionDenied {
        return (String::new(), None);
    }
    if let Some(tracer) = field(status, "TracerPid:").filter(|tracer| *tracer != "0") {
        return (
            format!("process {tracer} traces it already"),
            Some("end that debugger or tracer first"),
        );
    }
    if yama == "3" {
        return (
            "the kernel forbids tracing altogether (kernel.yama.ptrace_scope = 3)".to_owned(),
            Some("it can be allowed again by a reboot only; use another machine"),
        );
    }
    let seccomp = field(own, "Seccomp:").is_some_and(|mode| mode != "0");
    let root = field(own, "Uid:") == Some("0");
    if root && seccomp {
        return (
            "a seccomp filter forbids ptrace, as in a container".to_owned(),
            Some(
                "docker run --cap-add=SYS_PTRACE, or in Kubernetes capabilities.add: [SYS_PTRACE]",
            ),
        );
    }
    let (ours, its) = (field(own, "Uid:"), field(status, "Uid:"));
    if ours != its && !root {
        return (
            "it belongs to another user".to_owned(),
            Some("run pgassay as root, or as the server's user"),
        );
    }
    if yama == "1" || yama == "2" {
        return (
            format!(
                "the kernel lets only parents and root trace (kernel.yama.ptrace_scope = {yama})"
            ),
            Some("run pgassay as root, or: sysctl kernel.yama.ptrace_scope=0"),
        );
    }
    ("not permitted".to_owned(), Some("run pgassay as root"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::PermissionDenied;

    const ITS: &str = "Name:\tpostgres\nUid:\t106\t106\t106\t106\nTracerPid:\t0\n";
    const ROOT: &str = "Uid:\t0\t0\t0\t0\nSeccomp:\t0\n";

    #[test]
    fn refusals_name_what_helps() {
        let said = |status: &str, yama: &str, own: &str| {
            let (why, remedy) = explain(PermissionDenied, status, yama, own);
            format!("{why}; {}", remedy.unwrap_or_default())
        };
        let traced = ITS.replace("TracerPid:\t0", "TracerPid:\t77");
        assert!(said(&traced, "0", ROOT).contains("process 77"));
        assert!(said(ITS, "3", ROOT).contains("ptrace_scope = 3"));
        let filtered = ROOT.replace("Seccomp:\t0", "Seccomp:\t2");
        assert!(said(ITS, "0", &filtered).contains("SYS_PTRACE"));
        let other = ROOT.replace('0', "1000");
        assert!(said(ITS, "1", &other).contains("another user"));
        let same = "Uid:\t106\t106\t106\t106\nSeccomp:\t0\n";
        assert!(said(ITS, "1", same).contains("ptrace_scope=0"));
        let missing = io::Error::from_raw_os_error(38).kind();
        assert!(
            explain(missing, ITS, "0", ROOT)
                .1
                .is_some_and(|remedy| remedy.contains("sandbox"))
        );
        assert!(
            explain(io::ErrorKind::NotFound, "", "", ROOT)
                .0
                .contains("not there")
        );
    }
}
