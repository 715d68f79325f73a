//! What a launched server is given for its value of each axis: an entry an axis in [`WAYS`].

use std::path::Path;

use pgassay_analysis::number;
use pgassay_kernels::placement::{Cpu, Placement};
use pgassay_model::Failure;
use pgassay_model::axis::AxisValue;
use pgassay_model::confinement::ConfinementPlan;
use pgassay_server::TargetSpec;
use pgassay_sys::programs::in_path;

use crate::cli::axes::AxesArgs;
use crate::cli::clients::ScaleList;
use crate::cli::load::Pin;

/// Servers that are up at once.
const MOST_SERVERS: usize = 32;
/// Where the kernel lists memory nodes.
const NODES: &str = "/sys/devices/system/node";

/// What this machine has to give.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The CPUs that the server may have.
    pub server: Vec<Cpu>,
    /// Those that the load threads may have.
    pub client: Vec<Cpu>,
    /// The load threads were given CPUs of their own.
    pub pinned: bool,
    /// The container's quota of CPU time, in CPUs; none where there is none.
    pub quota: Option<f64>,
    /// Memory nodes and their CPUs.
    pub nodes: Vec<(u32, Vec<usize>)>,
    /// There is a numactl.
    pub numactl: bool,
}

impl Machine {
    /// This one; `client` are the CPUs of the load threads, where they have their own, and `quota` is
    /// how many of them the container pays for.
    ///
    /// # Errors
    /// Where the kernel does not say on which CPUs we may run.
    pub fn here(client: &[usize], quota: Option<f64>) -> anyhow::Result<Self> {
        let all = pgassay_kernels::placement::here()?;
        let (ours, server): (Vec<Cpu>, Vec<Cpu>) = match client {
            [] => (all.clone(), all),
            _ => all.iter().partition(|at| client.contains(&at.cpu)),
        };
        Ok(Self {
            server,
            client: ours,
            pinned: !client.is_empty(),
            quota,
            nodes: nodes(Path::new(NODES)),
            numactl: in_path("numactl").is_some(),
        })
    }
}

/// Memory nodes with their CPUs, by number.
fn nodes(root: &Path) -> Vec<(u32, Vec<usize>)> {
    let listed = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut nodes: Vec<(u32, Vec<usize>)> = listed
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            let cpus = match list.trim().parse() {
                Ok(Pin::Cpus(cpus)) => cpus,
                // A node of memory alone.
                _ => Vec::new(),
            };
            Some((number, cpus))
        })
        .collect();
    nodes.sort_unstable();
    nodes
}

/// What a server is launched with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Given {
    /// Settings, as `name=value`.
    pub settings: Vec<String>,
    /// The CPUs that it is kept on; all where none.
    pub cpus: Vec<usize>,
    /// The command that it is started through; empty where none.
    pub wrap: String,
    /// The scale of its tables, where it has its own.
    pub scale: Option<u32>,
    /// The CPUs of the load threads while they load it; all where none.
    pub client_cpus: Vec<usize>,
}

impl Given {
    /// Its CPUs and command, where it has some, in place of others.
    pub fn confine(&self, plan: &mut ConfinementPlan) {
        if !self.cpus.is_empty() {
            plan.cpus.clone_from(&self.cpus);
        }
        if !self.wrap.is_empty() {
            plan.wrap.clone_from(&self.wrap);
        }
    }
}

/// While it is put together.
struct Giving<'a> {
    machine: &'a Machine,
    /// The CPUs that it may have, in the order in which it gets them.
    cpus: Vec<Cpu>,
    /// Not all of them.
    confined: bool,
    given: Given,
}

/// How an axis is asked for, and what its values mean.
struct Way {
    axis: &'static str,
    asked: fn(&AxesArgs, Option<&ScaleList>) -> Vec<AxisValue>,
    give: fn(&str, &mut Giving) -> Result<(), Failure>,
}

/// One entry an axis, in the order in which they are applied: those that leave some of the CPUs
/// out, before the one that takes so many of what is left.
const WAYS: &[Way] = &[
    Way {
        axis: "numa",
        asked: |axes, _| {
            let number = |name: &str| name.parse().ok();
            let values = axes.numa.iter().map(|numa| numa.name());
            values
                .map(|name| value("numa", &name, number(&name)))
                .collect()
        },
        give: numa,
    },
    Way {
        axis: "smt",
        asked: |axes, _| {
            let values = axes.smt.iter();
            values.map(|smt| value("smt", smt.name(), None)).collect()
        },
        give: smt,
    },
    Way {
        axis: "shared-buffers",
        asked: |axes, _| {
            let values = axes.shared_buffers.iter().map(|size| {
                let megabytes = size.bytes as f64 / f64::from(1 << 20);
                value("shared-buffers", &size.text, Some(megabytes))
            });
            values.collect()
        },
        give: |size, giving| {
            giving.given.settings.push(format!("shared_buffers={size}"));
            Ok(())
        },
    },
    Way {
        axis: "scale",
        asked: |_, scale| match scale {
            // One scale is that of all.
            Some(list) if list.0.len() > 1 => {
                let values = list.0.iter();
                values
                    .map(|scale| value("scale", &scale.to_string(), Some(f64::from(*scale))))
                    .collect()
            }
            _ => Vec::new(),
        },
        give: |scale, giving| {
            giving.given.scale = Some(number("scale", scale)?);
            Ok(())
        },
    },
    Way {
        axis: "cpus",
        asked: |axes, _| {
            let counts = axes.cpus.iter().flat_map(|list| &list.0);
            counts
                .map(|n| value("cpus", &n.to_string(), Some(f64::from(*n))))
                .collect()
        },
        give: cpus,
    },
];

fn value(axis: &str, value: &str, number: Option<f64>) -> AxisValue {
    AxisValue {
        axis: axis.to_owned(),
        value: value.to_owned(),
        number,
    }
}

fn number(axis: &str, text: &str) -> Result<u32, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(format!(
            "the recorded value of --{axis} is no number: {text}"
        ))
    })
}

/// The values of each axis that was asked for, in the order of the axes; a value that is
/// there twice, `1GB,1024MB`, counts once.
pub fn asked(axes: &AxesArgs, scale: Option<&ScaleList>) -> Vec<Vec<AxisValue>> {
    let each = WAYS.iter().map(|way| {
        let mut values = (way.asked)(axes, scale);
        let mut seen: Vec<AxisValue> = Vec::new();
        values.retain(|value| {
            let same = |other: &AxisValue| match (other.number, value.number) {
                (Some(a), Some(b)) => a == b,
                _ => other.value == value.value,
            };
            let new = !seen.iter().any(same);
            seen.push(value.clone());
            new
        });
        values
    });
    each.filter(|values| !values.is_empty()).collect()
}

/// Refuses a running server: its CPUs and settings can't be varied.
///
/// # Errors
/// Where it is one.
pub fn refuse_running(spec: &TargetSpec) -> Result<(), Failure> {
    match spec.is_launched() {
        true => Ok(()),
        false => Err(
            Failure::usage("axes other than clients need servers that pgassay launches")
                .with_remedy(
                    "name temp, temp:17, an installation or build:NAME, or vary clients alone",
                ),
        ),
    }
}

/// Refuses more servers than can be up at once: one of each target for each combination of values.
///
/// # Errors
/// With how many there would be.
pub fn refuse_many(axes: &[Vec<AxisValue>], targets: usize) -> Result<(), Failure> {
    let servers = axes.iter().map(Vec::len).product::<usize>() * targets;
    if servers <= MOST_SERVERS {
        return Ok(());
    }
    let mut each: Vec<String> = axes.iter().map(|values| values.len().to_string()).collect();
    if targets > 1 {
        each.push(format!("{targets} targets"));
    }
    Err(Failure::usage(format!(
        "{} values make {servers} servers, and at most {MOST_SERVERS} are up at once",
        each.join(" × ")
    ))
    .with_remedy("vary less at a time"))
}

/// Refuses `--numa` beside a command of the user's own around every server.
///
/// # Errors
/// Where both are asked for.
pub fn refuse_numa_wrapped(axes: &[Vec<AxisValue>], wraps: bool) -> Result<(), Failure> {
    match wraps && axes.iter().flatten().any(|value| value.axis == "numa") {
        true => Err(Failure::usage(
            "--numa starts every server through numactl, and --wrap through another command",
        )
        .with_remedy(
            "leave out the one or the other: --wrap 'numactl --membind=0' is a memory policy, too",
        )),
        false => Ok(()),
    }
}

/// Where a server runs, for an announcement: `: CPUs 0,1, through numactl --membind=0`.
pub fn placed(cpus: &[usize], wrap: &str) -> String {
    let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let on = match list.len() {
        0 => String::new(),
        1 => format!(": CPU {}", list[0]),
        _ => format!(": CPUs {}", list.join(",")),
    };
    match wrap {
        "" => on,
        wrap => format!("{on}, through {wrap}"),
    }
}

/// What a server with these values is launched with.
///
/// # Errors
/// Where this machine does not have it, with what it has.
pub fn given(values: &[AxisValue], machine: &Machine) -> Result<Given, Failure> {
    let by_number = |order: Vec<usize>| -> Vec<Cpu> {
        let of = |cpu: &usize| machine.server.iter().find(|at| at.cpu == *cpu).copied();
        order.iter().filter_map(of).collect()
    };
    let mut giving = Giving {
        machine,
        cpus: by_number(Placement::Cores.order(&machine.server)),
        confined: machine.pinned,
        given: Given::default(),
    };
    if machine.pinned {
        giving.given.client_cpus = machine.client.iter().map(|at| at.cpu).collect();
    }
    for way in WAYS {
        if let Some(value) = values.iter().find(|value| value.axis == way.axis) {
            (way.give)(&value.value, &mut giving)?;
        }
    }
    let Giving {
        cpus,
        confined,
        mut given,
        ..
    } = giving;
    if confined {
        given.cpus = cpus.iter().map(|at| at.cpu).collect();
        given.cpus.sort_unstable();
    }
    Ok(given)
}

fn numa(wanted: &str, giving: &mut Giving) -> Result<(), Failure> {
    let machine = giving.machine;
    if machine.nodes.len() < 2 {
        return Err(Failure::usage(
            "--numa: this machine has one memory node, so that there is nothing to choose",
        )
        .with_remedy(
            "leave it out, or measure on a machine with several: numactl --hardware shows them",
        ));
    }
    if !machine.numactl {
        return Err(Failure::usage("--numa: there is no program numactl here")
            .with_remedy("install the package numactl"));
    }
    let how = match wanted {
        "interleave" => "--interleave=all".to_owned(),
        "local" => "--localalloc".to_owned(),
        node => {
            let node = number("numa", node)?;
            let Some((_, cpus)) = machine.nodes.iter().find(|(known, _)| *known == node) else {
                let known: Vec<String> = machine.nodes.iter().map(|(n, _)| n.to_string()).collect();
                return Err(
                    Failure::usage(format!("--numa {node}: there is no such node"))
                        .with_remedy(format!("there are {}", known.join(", "))),
                );
            };
            giving.cpus.retain(|at| cpus.contains(&at.cpu));
            giving.confined = true;
            if giving.cpus.is_empty() {
                return Err(Failure::usage(format!(
                    "--numa {node}: none of its CPUs may be used by the server"
                ))
                .with_remedy("name another node, or other CPUs with --pin"));
            }
            format!("--membind={node}")
        }
    };
    giving.given.wrap = format!("numactl {how}");
    Ok(())
}

fn smt(how: &str, giving: &mut Giving) -> Result<(), Failure> {
    let machine = giving.machine;
    // The load and the server may be on threads of one core.
    let mut all = [machine.server.as_slice(), &machine.client].concat();
    all.sort_by_key(|at| at.cpu);
    all.dedup_by_key(|at| at.cpu);
    let firsts = first_of_each_core(&all);
    if firsts.len() == all.len() {
        return Err(Failure::usage(
            "--smt: each core has one thread here (or SMT is switched off), so that there is nothing to choose",
        )
        .with_remedy("leave it out; lscpu says how many threads a core has"));
    }
    giving.confined = true;
    match how {
        "on" => {
            let order = Placement::Siblings.order(&giving.cpus);
            let place = |at: &Cpu| order.iter().position(|cpu| *cpu == at.cpu);
            giving.cpus.sort_by_key(place);
        }
        "off" => {
            let is_first = |at: &Cpu| firsts.iter().any(|first| first.cpu == at.cpu);
            giving.cpus.retain(is_first);
            let client: Vec<usize> = machine
                .client
                .iter()
                .filter(|at| is_first(at))
                .map(|at| at.cpu)
                .collect();
            let without = match (giving.cpus.is_empty(), client.is_empty()) {
                (true, _) => Some("the server"),
                (false, true) => Some("the load"),
                (false, false) => None,
            };
            if let Some(who) = without {
                let firsts: Vec<String> = firsts.iter().map(|at| at.cpu.to_string()).collect();
                return Err(Failure::usage(format!(
                    "--smt off: every CPU of {who} is a further thread of a core"
                ))
                .with_remedy(format!(
                    "give the load some of the first threads with --pin, and leave others to the server: CPUs {}",
                    firsts.join(",")
                )));
            }
            giving.given.client_cpus = client;
        }
        _ => giving.cpus = first_of_each_core(&giving.cpus),
    }
    Ok(())
}

/// Of each core the CPU that stands first.
fn first_of_each_core(cpus: &[Cpu]) -> Vec<Cpu> {
    let mut seen = Vec::new();
    let of = cpus.iter().filter(|at| {
        let core = (at.socket, at.core);
        let new = !seen.contains(&core);
        seen.push(core);
        new
    });
    of.copied().collect()
}

fn cpus(count: &str, giving: &mut Giving) -> Result<(), Failure> {
    let count = number("cpus", count)? as usize;
    let there = giving.cpus.len();
    if count > there {
        let why = match giving.confined {
            true => "with what else was asked for, the server can have",
            false => "the server can have",
        };
        return Err(
            Failure::usage(format!("--cpus {count}: {why} {there} here"))
                .with_remedy(format!("ask for at most {there}")),
        );
    }
    if let Some(quota) = giving.machine.quota
        && count as f64 > quota.max(1.0)
    {
        return Err(Failure::usage(format!(
            "--cpus {count}: the control group's quota is the time of {} CPUs, and the server would be throttled",
            number::short(quota)
        ))
        .with_remedy(format!(
            "ask for at most {}, or raise the quota (cpu.max, docker --cpus)",
            quota.max(1.0) as u32
        )));
    }
    giving.cpus.truncate(count);
    giving.confined = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::axis::AXES;

    /// Two sockets of two cores with two threads each, numbered as Linux does on x86-64.
    fn machine() -> Machine {
        let cpu = |cpu: usize| Cpu {
            cpu,
            core: (cpu % 2) as u32,
            socket: (cpu / 2 % 2) as u32,
        };
        let cpus: Vec<Cpu> = (0..8).map(cpu).collect();
        Machine {
            server: cpus.clone(),
            client: cpus,
            pinned: false,
            quota: None,
            nodes: vec![(0, vec![0, 1, 4, 5]), (1, vec![2, 3, 6, 7])],
            numactl: true,
        }
    }

    fn has(values: &[(&str, &str)], machine: &Machine) -> Result<Given, String> {
        let values = values.iter().map(|(axis, text)| value(axis, text, None));
        given(&values.collect::<Vec<_>>(), machine).map_err(|failure| failure.message)
    }

    #[test]
    fn every_axis_has_a_way_in_the_same_order() {
        let ways: Vec<&str> = WAYS.iter().map(|way| way.axis).collect();
        let axes: Vec<&str> = AXES.iter().map(|axis| axis.id).collect();
        assert_eq!(ways, axes);
    }

    #[test]
    fn a_value_in_two_ways_is_one_value() {
        let size = |text: &str| text.parse().unwrap();
        let axes = AxesArgs {
            shared_buffers: vec![size("1GB"), size("1024MB"), size("2GB"), size("1GB")],
            ..AxesArgs::default()
        };
        let asked = asked(&axes, None);
        let values: Vec<&str> = asked[0].iter().map(|value| value.value.as_str()).collect();
        assert_eq!(values, ["1GB", "2GB"]);
    }

    #[test]
    fn cpus_are_cores_before_siblings() {
        let machine = machine();
        let of = |values: &[(&str, &str)]| has(values, &machine).unwrap().cpus;
        assert_eq!(of(&[("cpus", "1")]), [0]);
        assert_eq!(of(&[("cpus", "4")]), [0, 1, 2, 3]);
        assert_eq!(of(&[("cpus", "5")]), [0, 1, 2, 3, 4]);
        // Core by core.
        assert_eq!(of(&[("smt", "on"), ("cpus", "2")]), [0, 4]);
        assert_eq!(of(&[("smt", "only-first"), ("cpus", "2")]), [0, 1]);
        assert_eq!(of(&[("numa", "1"), ("cpus", "3")]), [2, 3, 6]);
        assert!(has(&[("smt", "off"), ("cpus", "5")], &machine).is_err());
        assert!(has(&[("cpus", "9")], &machine).is_err());
    }

    #[test]
    fn no_more_cpus_than_the_quota_pays_for() {
        let of = |quota: f64, cpus: &str| {
            let quota = Some(quota);
            has(&[("cpus", cpus)], &Machine { quota, ..machine() })
        };
        assert_eq!(of(2.5, "2").unwrap().cpus, [0, 1]);
        assert!(of(2.5, "3").unwrap_err().contains("time of 2.5 CPUs"));
        // There is no fewer.
        assert_eq!(of(0.5, "1").unwrap().cpus, [0]);
        assert!(of(8.0, "9").unwrap_err().contains("can have 8 here"));
    }

    #[test]
    fn without_an_axis_of_cpus_a_server_runs_anywhere() {
        let given = has(&[("scale", "10"), ("shared-buffers", "1GB")], &machine()).unwrap();
        let wanted = Given {
            settings: vec!["shared_buffers=1GB".into()],
            scale: Some(10),
            ..Given::default()
        };
        assert_eq!(given, wanted);
        let given = has(&[("numa", "interleave")], &machine()).unwrap();
        assert_eq!(
            (given.wrap.as_str(), given.cpus.len()),
            ("numactl --interleave=all", 0)
        );
    }

    #[test]
    fn smt_off_keeps_the_load_off_the_siblings_too() {
        let client = |how: &str| has(&[("smt", how)], &machine()).unwrap().client_cpus;
        assert_eq!(client("off"), [0, 1, 2, 3]);
        assert!(client("only-first").is_empty() && client("on").is_empty());
    }

    #[test]
    fn smt_off_leaves_pinned_load_threads_no_sibling_of_the_server_s_cores() {
        // Four cores with threads i and i + 4.
        let pinned = |load: &[usize]| {
            let all = (0..8).map(|cpu| Cpu {
                cpu,
                core: (cpu % 4) as u32,
                socket: 0,
            });
            let (client, server) = all.partition(|at| load.contains(&at.cpu));
            Machine {
                server,
                client,
                pinned: true,
                ..Machine::default()
            }
        };
        let off = |load: &[usize]| has(&[("smt", "off")], &pinned(load));
        assert!(off(&[6, 7]).unwrap_err().contains("CPU of the load"));
        assert!(off(&[0, 1, 2, 3]).unwrap_err().contains("of the server"));
        let given = off(&[3, 7]).unwrap();
        assert_eq!((given.cpus, given.client_cpus), (vec![0, 1, 2], vec![3]));
        // With SMT both keep what they have.
        let given = has(&[("smt", "on")], &pinned(&[6, 7])).unwrap();
        assert_eq!(given.cpus, [0, 1, 2, 3, 4, 5]);
        assert_eq!(given.client_cpus, [6, 7]);
    }

    #[test]
    fn what_the_machine_does_not_have_is_said() {
        let mut small = machine();
        small.server.truncate(2);
        small.client.truncate(2);
        small.nodes.truncate(1);
        assert!(
            has(&[("smt", "on")], &small)
                .unwrap_err()
                .contains("one thread")
        );
        assert!(
            has(&[("numa", "0")], &small)
                .unwrap_err()
                .contains("one memory node")
        );
        let without = Machine {
            numactl: false,
            ..machine()
        };
        assert!(
            has(&[("numa", "0")], &without)
                .unwrap_err()
                .contains("numactl")
        );
        assert!(
            has(&[("numa", "7")], &machine())
                .unwrap_err()
                .contains("no such node")
        );
    }

    #[test]
    fn pinned_load_threads_leave_the_rest_to_every_server() {
        let mut pinned = machine();
        pinned.server.truncate(6);
        pinned.client.drain(..6);
        pinned.pinned = true;
        let given = has(&[("scale", "1")], &pinned).unwrap();
        assert_eq!(given.cpus, [0, 1, 2, 3, 4, 5]);
        assert_eq!(given.client_cpus, [6, 7]);
    }
}
