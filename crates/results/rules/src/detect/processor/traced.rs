//! The server's processes are traced.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let lines: Vec<&str> = seen.process("tracers")?.lines().collect();
    let Some(first) = lines.first() else {
        return passed("no process of the server is traced");
    };
    let words: Vec<&str> = first.split(' ').collect();
    let [_, tracer, name, user, ..] = words.as_slice() else {
        return could_not_see("who traces the server's processes can't be read");
    };
    let saw = format!(
        "{} of the server's processes are traced, by {name} (process {tracer}) of {user}: each stops at every system call or \
         signal until the tracer lets it go on.",
        lines.len()
    );
    Observation::new(Severity::High, Confidence::High, saw)
        .shell(format!(
            "ps -o user,lstart,args -p {tracer}   # look first at who traces, and whether it is still needed"
        ))
        .shell(format!(
            "kill {tracer}   # {name} lets go of them as it ends; SIGKILL is no way to end a debugger that has stopped them"
        ))
        .advice("look with perf trace or eBPF instead (bpftrace, bcc), which do not stop the process, and for a short time")
        .found()
}
