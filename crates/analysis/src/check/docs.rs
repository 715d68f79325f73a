//! The rules' pages in docs/, out of the registry.

use std::fmt::Write as _;

use super::{Family, Need, RULES, Rule};

/// A rule's page, in markdown.
pub fn page(rule: &Rule) -> String {
    let mut text = format!("# {}: {}\n\n", rule.id, rule.title);
    let needs: Vec<&str> = rule.needs.iter().map(|n| n.title()).collect();
    let _ = writeln!(
        text,
        "{}. Needs to see: {}.\n",
        rule.family.title(),
        needs.join(", ")
    );
    for (head, body) in [
        ("Why it matters", rule.why),
        ("How much", rule.effect),
        ("What to do", rule.remedy),
    ] {
        let _ = writeln!(text, "## {head}\n\n{body}\n");
    }
    text += "## Where this is from\n\n";
    for source in rule.sources {
        let _ = writeln!(text, "- {source}");
    }
    let _ = write!(
        text,
        "\n`pgassay check --explain {}` prints this page. It is made from the rule itself by `make docs`.\n",
        rule.id
    );
    text
}

/// The list of all pages, in markdown.
pub fn index() -> String {
    let mut text = String::from(
        "# The rules of `pgassay check`\n\nMade from the registry by `make docs`. How to add one: [adding-a-rule.md](../adding-a-rule.md).\n",
    );
    let mut family: Option<Family> = None;
    for rule in in_families() {
        if family != Some(rule.family) {
            family = Some(rule.family);
            let _ = write!(text, "\n## {}\n\n", rule.family.title());
        }
        let _ = writeln!(text, "- [{}]({}.md): {}", rule.id, rule.id, rule.title);
    }
    text
}

/// What is seen where: a row a rule, in markdown.
pub fn degradation() -> String {
    let mut text = String::from(
        "| rule | as root, on the server's host | as another user there | in the server's container | by SQL only, as pg_monitor | by SQL only, as anybody |\n|---|---|---|---|---|---|\n",
    );
    for rule in in_families() {
        let cells: Vec<&str> = WHERE.iter().map(|lacks| sees(rule, lacks)).collect();
        let _ = writeln!(text, "| {} | {} |", rule.id, cells.join(" | "));
    }
    text
}

/// What each of the places of the table can't see.
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

/// A rule names first what it can't do without.
fn sees(rule: &Rule, lacks: &[Need]) -> &'static str {
    let missing = rule.needs.iter().filter(|n| lacks.contains(n)).count();
    match (missing, rule.needs.first().map(|n| lacks.contains(n))) {
        (0, _) => "yes",
        (_, Some(false)) => "in part",
        _ => "no",
    }
}

/// The rules with each family together, in the registry's order within one.
pub fn in_families() -> Vec<&'static Rule> {
    let mut rules: Vec<&Rule> = RULES.to_vec();
    rules.sort_by_key(|rule| rule.family);
    rules
}

/// All generated pages: path below docs/, and text.
pub fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = RULES
        .iter()
        .map(|rule| (format!("rules/{}.md", rule.id), page(rule)))
        .collect();
    files.push(("rules/README.md".to_owned(), index()));
    files.push(("degradation.md".to_owned(), degradation_page()));
    files
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

- **Waits** of sessions of other roles are seen as superuser or with `pg_read_all_stats`; without it the report says how many sessions were hidden. Wait events exist from 9.6 on.
- **CPU samples** as the server's user need `/proc/sys/kernel/perf_event_paranoid` at 2 or less (with 1 or less, the kernel too). Where pgassay may not open perf events itself and a `perf` program in the PATH may, that records beside each window; its first moments are missed. Where neither may, the report says what each answered.
- **In a container** perf events are often filtered (seccomp): `--cap-add PERFMON`, or run pgassay on the host. Without hardware counters (most virtual machines) samples are taken by time, which is what is wanted here.
- **Kernels without PSI** show no pressure, and the report says so; the other figures stay.
- **Thousands of sessions** make a look at all of them expensive to the server: where 25 a second would take more than 0.7 % of the machine's CPU time there are fewer, at least one in two seconds and one in each window, and the report says how many. Of a process that has not run since it was read last, only that is asked.
- **A server over TCP** may be on any machine: nothing of this machine's processes, page faults or pressure is shown as its own, even where it happens to be here. Take its Unix socket.
- **A server that restarts** ends the run as measured in part; what was recorded before is kept. A process that ends within a window is left out of the figures by process.
";

/// The page about what is seen where.
fn degradation_page() -> String {
    format!(
        "# What is seen where\n\n## By `pgassay check`\n\n\
         Made from the registry by `make docs`. A rule that can't see what it needs says \"could not see\" \
         with the reason, and never passes or finds. \"In part\" means that the rule's first source is \
         there and another is not: it then says less, or could not see.\n\n\
         {}\n\
         - **As another user on the server's host**: `/proc/PID/smaps`, `numa_maps`, `exe` and the data \
         directory are the server's user's and root's. The host's own /proc and /sys are open to all, but \
         for debugfs (the preemption mode) and some distributions' hidepid.\n\
         - **In a container**: /proc and /sys are the host's; the control group is the container's. What the \
         runtime masks (/proc/swaps, /sys/firmware …) could not be seen.\n\
         - **By SQL only** is a server elsewhere, or one whose process is not provably the one on this host: \
         over TCP pgassay looks for its own backend's process id with its own connection's port in the title. \
         Nothing of the local host is held against a server that is elsewhere.\n\
         - **As anybody**: other users' sessions show that they exist and no more; settings such as \
         `shared_preload_libraries` and the view `pg_config` are for members of `pg_read_all_settings`.\n\
         - **Kernels without PSI**, without cpufreq, without huge pages: those rules did not apply or could not see.\n\
         - **Versions 9.6 to 19**: each question to the server is asked on its own and in words that its version \
         knows; a view that came later is \"this version has no such view\". No text that depends on a language \
         is read: settings, counters and SQLSTATEs are not translated.\n\n\
         {OBSERVERS}",
        degradation()
    )
}
