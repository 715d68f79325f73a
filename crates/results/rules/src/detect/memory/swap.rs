//! The server's memory is swapped out.

use crate::detect::prelude::*;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let scheduling = &evidence.run?.observed?.scheduling;
    let pages = scheduling.swap_pages_per_second?;
    let pressure = scheduling.memory_pressure;
    (pages >= 50.0).then(|| {
        let saw = "The machine swaps while the load runs.";
        let found = Observation::measured(Basis::MachineTime, pressure, saw)
            .seen(format!("{pages:.0} pages a second swapped in and out"));
        match pressure {
            Some(share) => found.seen(format!(
                "some task waited for memory in {} of the time",
                tenths(share)
            )),
            None => found,
        }
    })
}

pub fn audit(seen: &FactView) -> Judged {
    let total = seen.counter("/proc/meminfo", "SwapTotal")?;
    if total == 0 {
        return passed("there is no swap");
    }
    let used = total.saturating_sub(seen.counter("/proc/meminfo", "SwapFree")?) << 10;
    let swappiness = seen.text("/proc/sys/vm/swappiness").unwrap_or("60");
    let of_server = seen.process("VmSwap of the processes").map(|text| {
        let kilobytes = text
            .lines()
            .filter_map(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
        kilobytes.sum::<u64>() << 10
    });
    let saw = match &of_server {
        Ok(bytes) => format!(
            "{} of the server are swapped out, {} in all; swappiness {swappiness}",
            shown(*bytes),
            shown(used)
        ),
        Err(_) => format!(
            "{} are swapped out in all; swappiness {swappiness}",
            shown(used)
        ),
    };
    let of_server = of_server.unwrap_or(used / 2);
    if of_server < 64 << 20 {
        return passed(saw);
    }
    Observation::new(
        high_if(of_server > 1 << 30),
        Confidence::Medium,
        format!("{saw}."),
    )
    .shell("sysctl -w vm.swappiness=1")
    .shell("pgassay check --explain memory-promised")
    .found()
}
