//! From comparisons to a [`Reference`]: where a transaction's time goes at a server and at its
//! reference, and what giving the server's settings to the reference did.

use std::collections::BTreeSet;

use crate::analysis::Analysis;
use crate::bottlenecks::Finding;
use crate::compare::Compare;
use crate::measured::ServerSummary;
use crate::observed::{Budget, PointObserved};
use crate::profile::Summary;
use crate::reference::{Differing, Kind, Named, Reference, Spent, Tried};

/// A part of a transaction's time is named from this share of the server's time on.
const NOTABLE: f64 = 0.1;
/// A function that is this much of a library's or a kind's excess stands for it.
const NEARLY_ALL: f64 = 0.8;
/// How the kernel's entry points of system calls begin, by architecture.
const SYSTEM_CALLS: &[&str] = &["__x64_sys_", "__arm64_sys_", "__s390x_sys_", "__se_sys_"];

/// Reads a comparison whose first arm is the server and whose second is the reference; none where
/// no pair of them was measured.
pub fn of(compared: &Compare) -> Option<Reference> {
    let analysis = &compared.analysis;
    let result = compared.results.iter().find(|result| result.arm == 1)?;
    let mut reference = Reference {
        run: analysis.run.id.clone(),
        target: analysis.arms.get(1)?.target.clone(),
        clients: result.clients,
        faster: result.compared.ratio.clone(),
        parts: Vec::new(),
        named: Vec::new(),
        settings: differing(analysis),
        tried: Vec::new(),
        not_seen: Vec::new(),
    };
    match (Side::of(analysis, 0), Side::of(analysis, 1)) {
        (Ok(server), Ok(other)) => {
            reference.parts = parts(&server, &other);
            reference.named = named(&server, &other);
            for (side, whose) in [(&server, "the server"), (&other, "the reference")] {
                if side.profile.is_none() {
                    let why =
                        format!("CPU time of {whose} by library and function: no CPU samples");
                    reference.not_seen.push(why);
                }
            }
        }
        (Err(why), _) => reference
            .not_seen
            .push(format!("time at the server: {why}")),
        (_, Err(why)) => reference
            .not_seen
            .push(format!("time at the reference: {why}")),
    }
    for arm in analysis.main().arms.iter().take(2) {
        let unavailable = arm.observed.iter().flat_map(|o| &o.unavailable);
        let words = unavailable.map(|u| format!("{}: {}: {}", arm.label, u.observer, u.why));
        reference.not_seen.extend(words);
    }
    Some(reference)
}

/// Adds what a comparison showed in which the reference is the first arm, and each further one has
/// these of the server's settings.
pub fn add(reference: &mut Reference, compared: &Compare, given: &[Vec<(String, String)>]) {
    for (arm, settings) in (1u32..).zip(given) {
        let result = compared.results.iter().find(|result| result.arm == arm);
        let Some(result) = result else { continue };
        let tried = Tried {
            settings: settings.clone(),
            throughput: result.compared.ratio.clone(),
            p: result.compared.p_family.unwrap_or(result.compared.p),
        };
        if tried.differs() && !tried.costs() {
            reference.not_seen.push(format!(
                "{} Two launches of the same server can differ by a tenth: pgassay compare with --set-b tells, as it \
                 launches several times",
                reference.words_of(&tried)
            ));
        }
        reference.tried.push(tried);
    }
}

/// The proved settings as findings.
pub fn findings(reference: &Reference, analysis: &Analysis) -> Vec<Finding> {
    let Some(server) = analysis.arms.first().and_then(|arm| arm.server.as_ref()) else {
        return Vec::new();
    };
    let proved = reference.proved().filter(|tried| tried.settings.len() == 1);
    proved
        .filter_map(|tried| {
            let (name, _) = tried.settings.first()?;
            let differing = reference.settings.iter().find(|s| s.name == *name)?;
            crate::bottlenecks::of_reference(server, differing, tried, reference.words_of(tried))
        })
        .collect()
}

/// One of the two servers, as it was observed.
struct Side<'a> {
    budget: &'a Budget,
    profile: Option<&'a Summary>,
    tps: f64,
}

impl<'a> Side<'a> {
    fn of(analysis: &'a Analysis, arm: usize) -> Result<Self, String> {
        let arm = analysis.main().arms.get(arm).ok_or("no such server")?;
        let point = arm.points.iter().max_by_key(|p| p.point.clients);
        let point = point.ok_or("nothing was measured")?;
        let clients = point.point.clients;
        let mut seen = arm.observed.iter().flat_map(|o| &o.points);
        let observed: &PointObserved = seen
            .find(|o| o.clients == clients)
            .ok_or("nothing was observed")?;
        let why = || {
            observed
                .no_budget
                .clone()
                .unwrap_or_else(|| "not accounted for".to_owned())
        };
        Ok(Self {
            budget: observed.budget.as_ref().ok_or_else(why)?,
            profile: observed.profile.as_ref(),
            tps: point.throughput_tps.estimate,
        })
    }

    /// Microseconds of a transaction that so many sessions, or CPUs, are.
    fn us(&self, sessions: f64) -> f64 {
        1e6 * sessions / self.tps
    }

    fn transaction_us(&self) -> f64 {
        self.us(self.budget.in_transactions())
    }

    /// CPU time of all of the server's processes for a transaction: what CPU samples are shares of.
    fn cpu_us(&self) -> f64 {
        let budget = self.budget;
        let ended = budget.ended_on_cpu.filter(|_| !budget.by_samples);
        self.us(budget.on_cpu + budget.others_on_cpu + ended.unwrap_or(0.0))
    }
}

fn parts(server: &Side, reference: &Side) -> Vec<Spent> {
    type Part = fn(&Budget) -> f64;
    let parts: [(&str, Part); 4] = [
        ("in all", Budget::in_transactions),
        ("on a CPU", |b| b.on_cpu),
        ("ready, and waiting for a CPU", |b| b.ready),
        ("off the CPU", |b| {
            b.off_cpu - b.off.as_ref().map_or(0.0, |off| off.idle + off.hidden)
        }),
    ];
    let spent = parts.iter().map(|(name, part)| Spent {
        name: (*name).to_owned(),
        server_us: server.us(part(server.budget)).max(0.0),
        reference_us: reference.us(part(reference.budget)).max(0.0),
    });
    spent.collect()
}

fn named(server: &Side, reference: &Side) -> Vec<Named> {
    let all = server.transaction_us();
    let mut named = waits(server, reference);
    if let (Some(ours), Some(theirs)) = (server.profile, reference.profile) {
        named.extend(on_cpus(server, reference, ours, theirs));
    }
    for found in &mut named {
        let excess = found.spent.server_us - found.spent.reference_us;
        found.excess = if all > 0.0 { excess / all } else { 0.0 };
    }
    named.retain(|found| found.excess >= NOTABLE);
    named.sort_by(|a, b| b.excess.total_cmp(&a.excess));
    without_repetition(named)
}

fn waits(server: &Side, reference: &Side) -> Vec<Named> {
    let Some(off) = &server.budget.off else {
        return Vec::new();
    };
    let theirs = |name: &str| {
        let off = reference.budget.off.as_ref()?;
        off.waits.iter().find(|wait| wait.name() == name)
    };
    let named = off.waits.iter().filter_map(|wait| {
        let name = wait.name();
        let other = theirs(&name);
        // More than what sampling and the excess leave open, of either.
        let most = other.map_or(0.0, |other| reference.us(other.most));
        if server.us(wait.least) <= most {
            return None;
        }
        let spent = Spent {
            server_us: server.us(wait.sessions),
            reference_us: other.map_or(0.0, |other| reference.us(other.sessions)),
            name,
        };
        let words = format!(
            "Sessions wait {} of each transaction at {}, and {} at the reference.",
            time(spent.server_us),
            spent.name,
            time(spent.reference_us)
        );
        Some(Named {
            kind: Kind::Wait,
            spent,
            excess: 0.0,
            words,
        })
    });
    named.collect()
}

/// A kind of thing with its shares of a profile's samples, and the library that holds it.
type Shares<'p> = Vec<(Kind, String, f64, Option<&'p str>)>;

/// Everything that a profile has a share for.
fn shares(profile: &Summary) -> Shares<'_> {
    let objects = profile.objects.iter();
    let mut shares: Shares = objects
        .filter(|o| !o.object.is_empty() && !o.object.starts_with('['))
        .map(|o| (Kind::Library, o.object.clone(), o.share, None))
        .collect();
    let classes = profile.classes.iter();
    shares.extend(classes.map(|c| (Kind::Class, c.class.title().to_owned(), c.share, None)));
    for function in &profile.functions {
        let call = SYSTEM_CALLS
            .iter()
            .find_map(|start| function.symbol.strip_prefix(start));
        if let Some(call) = call {
            shares.push((
                Kind::SystemCall,
                call.to_owned(),
                function.total_share,
                None,
            ));
        }
        if function.symbol != pgassay_readings::profile::UNKNOWN {
            let (symbol, object) = (function.symbol.clone(), function.object.as_str());
            shares.push((Kind::Function, symbol, function.own_share, Some(object)));
        }
    }
    shares
}

fn on_cpus(server: &Side, reference: &Side, ours: &Summary, theirs: &Summary) -> Vec<Named> {
    let (cpu, other_cpu) = (server.cpu_us(), reference.cpu_us());
    let others = shares(theirs);
    let named = shares(ours)
        .into_iter()
        .filter_map(|(kind, name, share, object)| {
            let same = others.iter().find(|(k, n, ..)| *k == kind && *n == name);
            let other = same.map_or(0.0, |(_, _, share, _)| *share);
            let spent = Spent {
                server_us: share * cpu,
                reference_us: other * other_cpu,
                name,
            };
            if !ours.shows(share, (spent.reference_us / cpu).min(1.0)) {
                return None;
            }
            let of_cpu = format!("{:.0} % of the server's CPU time", 100.0 * share);
            let beside = match (same.is_some(), kind) {
                (false, Kind::Library) => "of which no sample lies at the reference".to_owned(),
                (false, _) => "where the reference was never seen".to_owned(),
                (true, _) => format!(
                    "{} of each transaction; {} at the reference",
                    time(spent.server_us),
                    time(spent.reference_us)
                ),
            };
            let lies = match kind {
                Kind::SystemCall => format!("{of_cpu} goes into the system call {}", spent.name),
                Kind::Class => format!("{of_cpu} goes into: {}", spent.name),
                Kind::Function => format!(
                    "{of_cpu} lies in {} ({})",
                    spent.name,
                    object.unwrap_or("?")
                ),
                Kind::Library | Kind::Wait => format!("{of_cpu} lies in {}", spent.name),
            };
            let words = format!("{lies}, {beside}.");
            Some(Named {
                kind,
                spent,
                excess: 0.0,
                words,
            })
        });
    named.collect()
}

/// Leaves out what says the same time once more, in order: the server's own executable, which all is
/// in; a kind of work or a system call that one function nearly is; a function whose library is named.
fn without_repetition(named: Vec<Named>) -> Vec<Named> {
    let of = |kind: Kind| {
        let of_kind = named.iter().filter(move |n| n.kind == kind);
        of_kind.map(|n| n.excess).collect::<Vec<f64>>()
    };
    let functions = of(Kind::Function);
    let foreign = |n: &&Named| n.kind == Kind::Library && is_foreign(&n.spent.name);
    let libraries: Vec<(String, f64)> = named
        .iter()
        .filter(foreign)
        .map(|n| (n.spent.name.clone(), n.excess))
        .collect();
    let near = |a: f64, b: f64| a >= NEARLY_ALL * b && b >= NEARLY_ALL * a;
    let in_library = |n: &Named| {
        libraries
            .iter()
            .any(|(name, _)| n.words.contains(name.as_str()))
    };
    let as_library = |n: &Named| libraries.iter().any(|(_, excess)| near(n.excess, *excess));
    let kept: BTreeSet<usize> = (0..named.len())
        .filter(|&index| {
            let n = &named[index];
            match n.kind {
                Kind::Wait => true,
                Kind::Library => is_foreign(&n.spent.name),
                Kind::Function => !in_library(n),
                Kind::Class | Kind::SystemCall => {
                    !functions.iter().any(|f| near(*f, n.excess)) && !as_library(n)
                }
            }
        })
        .collect();
    let numbered = named.into_iter().enumerate();
    numbered
        .filter(|(index, _)| kept.contains(index))
        .map(|(_, named)| named)
        .collect()
}

/// A library other than the server, the kernel and the C library, which every server uses.
fn is_foreign(object: &str) -> bool {
    const ALWAYS: &[&str] = &["postgres", "libc.", "libc-", "libm.", "libm-", "ld-", "ld."];
    object != pgassay_model::observed::stacks::KERNEL
        && !ALWAYS.iter().any(|start| object.starts_with(start))
}

/// Microseconds as people read them.
fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.1} s", us / 1e6),
        us if us >= 1e4 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us if us >= 10.0 => format!("{us:.0} µs"),
        us => format!("{us:.1} µs"),
    }
}

/// Settings that say where a server is, who may come in, what it is called, and how it speaks: they
/// cost nothing, or can't be given to another server.
const OF_PLACE: &[&str] = &[
    "application_name",
    "archive_",
    "bonjour",
    "client_encoding",
    "cluster_name",
    "config_file",
    "data_directory",
    "datestyle",
    "default_tablespace",
    "default_text_search_config",
    "event_source",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "intervalstyle",
    "krb_",
    "lc_",
    "listen_addresses",
    "log_destination",
    "log_directory",
    "log_file",
    "log_line_prefix",
    "log_rotation",
    "log_timezone",
    "logging_collector",
    "max_connections",
    "port",
    "primary_",
    "recovery_",
    "reserved_connections",
    "restore_command",
    "ssl",
    "stats_temp_directory",
    "superuser_reserved_connections",
    "synchronous_standby_names",
    "syslog_",
    "temp_tablespaces",
    "timezone",
    "unix_socket_",
];

/// The settings in which two servers differ because somebody set them.
fn differing(analysis: &Analysis) -> Vec<Differing> {
    let of = |arm: usize| -> Option<&ServerSummary> { analysis.arms.get(arm)?.server.as_ref() };
    let (Some(server), Some(reference)) = (of(0), of(1)) else {
        return Vec::new();
    };
    let is_set =
        |source: &str| !matches!(source, "default" | "override" | "client" | "session" | "");
    let differing = server.all_settings.iter().filter_map(|ours| {
        let mut theirs = reference.all_settings.iter();
        let theirs = theirs.find(|s| s.name == ours.name)?;
        let name = ours.name.to_ascii_lowercase();
        let differs = ours.value != theirs.value
            && (is_set(&ours.source) || is_set(&theirs.source))
            && !OF_PLACE.iter().any(|start| name.starts_with(start));
        differs.then(|| Differing {
            name: ours.name.clone(),
            server: ours.value.clone(),
            source: ours.source.clone(),
            reference: theirs.value.clone(),
        })
    });
    differing.collect()
}

#[cfg(test)]
mod tests;
