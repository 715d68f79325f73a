//! The pages in docs/ that are made from the catalogue, and what `--explain` prints.

use std::fmt::Write as _;

use super::{ENTRIES, Entry, Family, Need, audited, major, seen_by};

/// Where the pages are, seen from docs/.
const PAGES: &str = "../crates/results/rules/src/detect";

/// What is known of an entry, in markdown.
pub fn page(entry: &Entry) -> String {
    let mut text = format!(
        "# {}: {}\n\n{}.",
        entry.id,
        entry.title,
        entry.family.title()
    );
    for remark in remarks(entry) {
        let _ = write!(text, " {remark}");
    }
    text += "\n";
    for (head, body) in [
        ("Why it matters", entry.why),
        ("Impact", entry.impact),
        ("Remedy", entry.remedy),
    ] {
        let _ = write!(text, "\n## {head}\n\n{body}\n");
    }
    text += "\n## References\n\n";
    for source in entry.sources {
        let _ = writeln!(text, "- {source}");
    }
    for change in entry.changes {
        let _ = writeln!(text, "- {}", change.source());
    }
    text
}

/// What sees it, which releases have it, and what measures it.
fn remarks(entry: &Entry) -> Vec<String> {
    let list = |items: &[&str]| items.join(", ");
    let kinds: Vec<&str> = seen_by(entry).iter().map(|kind| kind.title()).collect();
    let mut remarks = vec![format!("Seen by: {}.", list(&kinds))];
    let needs: Vec<&str> = entry.needs.iter().map(|need| need.title()).collect();
    if !needs.is_empty() {
        remarks.push(format!("pgassay check needs: {}.", list(&needs)));
    }
    match (entry.since.map(major), entry.until.map(major)) {
        (Some(since), Some(until)) => {
            remarks.push(format!("PostgreSQL {since} to before {until}."))
        }
        (Some(since), None) => remarks.push(format!("PostgreSQL {since} and later.")),
        (None, Some(until)) => remarks.push(format!("PostgreSQL before {until}.")),
        (None, None) => {}
    }
    if entry.open {
        remarks.push("No release cures this.".to_owned());
    }
    if entry.invalidates_results {
        remarks.push("With it, all other figures are meaningless.".to_owned());
    }
    if !entry.measured_by.is_empty() {
        let runs: Vec<String> = entry
            .measured_by
            .iter()
            .map(|w| format!("pgassay run {w}"))
            .collect();
        remarks.push(format!("Measured by: {}.", runs.join(", ")));
    }
    for (loads, what) in [
        (entry.symptoms, "Its symptoms may be"),
        (entry.expected_under, "Expected on any server under"),
        (entry.caused_by_workload, "Caused by the load itself under"),
    ] {
        if !loads.is_empty() {
            remarks.push(format!("{what}: {}.", list(loads)));
        }
    }
    remarks
}

/// The list of all pages, in markdown.
fn index() -> String {
    let mut text = String::from(
        "# The catalogue of bottlenecks\n\n\
         Everything that `pgassay check` and `pgassay diagnose` can find, one page each. Made from the \
         catalogue by `make docs`; `pgassay check --explain ID` prints a page. How to add one: \
         [adding.md](adding.md).\n",
    );
    let mut entries: Vec<&Entry> = ENTRIES.iter().collect();
    entries.sort_by_key(|entry| entry.family);
    let mut family: Option<Family> = None;
    for entry in entries {
        if family != Some(entry.family) {
            family = Some(entry.family);
            let _ = write!(
                text,
                "\n## {}\n\n| bottleneck | | seen by |\n|---|---|---|\n",
                entry.family.title()
            );
        }
        let kinds: Vec<&str> = seen_by(entry).iter().map(|kind| kind.title()).collect();
        let open = if entry.open {
            "; no release cures it"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "| [{id}]({PAGES}/{folder}/{id}.md) | {}{open} | {} |",
            entry.title,
            kinds.join(", "),
            id = entry.id,
            folder = format!("{:?}", entry.family).to_lowercase(),
        );
    }
    text
}

/// What is seen where: a row for each entry of an audit, in markdown.
fn degradation() -> String {
    let mut text = String::from(
        "| bottleneck | as root, on the server's host | as another user there | in the server's container | by SQL only, as pg_monitor | by SQL only, as anybody |\n|---|---|---|---|---|---|\n",
    );
    for entry in audited() {
        let cells: Vec<&str> = WHERE.iter().map(|lacks| sees(entry, lacks)).collect();
        let _ = writeln!(text, "| {} | {} |", entry.id, cells.join(" | "));
    }
    text
}

/// What each of the places of the table cannot see.
const WHERE: &[&[Need]] = &[
    &[],
    &[Need::HostAsRoot, Need::Process],
    &[Need::HostAsRoot],
    &[
        Need::Host,
        Need::HostAsRoot,
        Need::Cgroup,
        Need::Process,
        Need::Binary,
    ],
    &[
        Need::Host,
        Need::HostAsRoot,
        Need::Cgroup,
        Need::Process,
        Need::Binary,
        Need::SqlAsMonitor,
    ],
];

/// An entry names first what it cannot do without.
fn sees(entry: &Entry, lacks: &[Need]) -> &'static str {
    let missing = entry.needs.iter().filter(|n| lacks.contains(n)).count();
    match (missing, entry.needs.first().map(|n| lacks.contains(n))) {
        (0, _) => "yes",
        (_, Some(false)) => "in part",
        _ => "no",
    }
}

/// All generated pages: path below docs/, and text.
pub fn files() -> Vec<(String, String)> {
    vec![
        ("bottlenecks.md".to_owned(), index()),
        ("degradation.md".to_owned(), degradation_page()),
    ]
}

/// What observers see; tried by `run --observe all` as root and as nobody, on a server of the
/// same user's, of another's, and over TCP.
const OBSERVERS: &str = "\
## By observers (`--observe`)

| what | as root | as the server's user | as another user there | server elsewhere, or over TCP |
|---|---|---|---|---|
| waits: sessions by wait event | yes | yes | yes | yes |
| sched: run queue and CPU time of each process | yes | yes | yes | no |
| sched: context switches of each process | yes | yes | yes | no |
| sched: page faults, pressure, swapping of the machine | yes | yes | yes | no |
| sched: which process is what | yes | yes | yes | no, without its processes |
| perf: CPU samples with callers | yes | without the kernel | no | no |
| perf: names of functions | yes | but for the kernel's | no | no |
| pmu: events of the processor, where it counts any | yes | without the kernel | no | no |
| pmu: page faults, time on a CPU | yes | without the kernel | no | no |
| pmu: switches, migrations | yes | only with perf_event_paranoid of 1 or less | no | no |

- **Waits** of sessions of other roles are seen as superuser or with `pg_read_all_stats`; without it the report says how many sessions were hidden. Wait events exist from 9.6 on.
- **CPU samples** as the server's user need `/proc/sys/kernel/perf_event_paranoid` at 2 or less (with 1 or less, the kernel too). If pgassay may not open perf events itself and a `perf` program in the PATH may, that program records alongside each window; its first moments are missed. If neither may, the report says what each answered.
- **In a container** perf events are often filtered (seccomp): `--cap-add PERFMON`, or run pgassay on the host. Without hardware counters (most virtual machines) samples are taken by time, which is what is wanted here.
- **Kernels without PSI** show no pressure, and the report says so; the other figures stay.
- **Thousands of sessions** make a look at all of them expensive to the server: if 25 a second would take more than 0.7 % of the machine's CPU time, there are fewer, at least one in two seconds and one in each window, and the report says how many. Of a process that has not run since it was read last, only that is asked.
- **A server over TCP** may be on any machine: nothing of this machine's processes, page faults or pressure is shown as its own, even if it happens to run here. Use its Unix socket.
- **A server that restarts** ends the run as measured in part; what was recorded before is kept. A process that ends within a window is left out of the figures by process.
";

/// The page about what is seen where.
fn degradation_page() -> String {
    format!(
        "# Coverage by privilege level\n\n## By `pgassay check`\n\n\
         Made from the catalogue by `make docs`. If what an entry needs is unavailable, its outcome is \
         \"could not see\", with the reason; it never passes or becomes a finding. \"In part\" means that \
         its first source is available and another is not: it then says less, or could not see.\n\n\
         {}\n\
         - **As another user on the server's host**: `/proc/PID/smaps`, `numa_maps`, `exe` and the data \
         directory are the server's user's and root's. The host's own /proc and /sys are open to all, but \
         for debugfs (the preemption mode) and some distributions' hidepid.\n\
         - **In a container**: /proc and /sys are the host's; the control group is the container's. What the \
         runtime masks (/proc/swaps, /sys/firmware …) could not be seen.\n\
         - **By SQL only** is a server elsewhere, or one whose process is not provably the one on this host: \
         over TCP pgassay looks for its own backend's process id with its own connection's port in the title. \
         Nothing of the local host is attributed to a server that is elsewhere.\n\
         - **As anybody**: of other users' sessions only their existence is visible; settings such as \
         `shared_preload_libraries` and the view `pg_config` are for members of `pg_read_all_settings`.\n\
         - **Kernels without PSI**, without cpufreq, without huge pages: those entries are not applicable or could not be seen.\n\
         - **Versions 9.6 to 19**: each question to the server is asked on its own and in terms that its version \
         knows; a view that came later is \"this version has no such view\". No localised text is read: settings, counters and SQLSTATEs are not translated.\n\n\
         {OBSERVERS}",
        degradation()
    )
}
