//! Which events are counted, and by which of the kernel's numbers on this processor.
//!
//! What every processor has goes by the kernel's general names (uapi/linux/perf_event.h), which it
//! translates for each; the rest by what the kernel describes in sysfs. No processor's own numbers stand here.

use super::unit::{Encoded, Unit};

/// Where an event's numbers are from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// PERF_TYPE_HARDWARE.
    Hardware(u64),
    /// PERF_TYPE_HW_CACHE: the cache, read, missed or not.
    Cache(u64, bool),
    /// PERF_TYPE_SOFTWARE: counted by the kernel itself.
    Software(u64),
    /// Described in sysfs under this name.
    Described(&'static str),
}

use Origin::{Cache, Described, Hardware, Software};

const L1_INSTRUCTIONS: u64 = 1;
const LAST_LEVEL: u64 = 2;
const INSTRUCTION_TLB: u64 = 4;

/// In which mode of the processor it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In both where that is allowed, else in user mode.
    Both,
    /// In user mode.
    User,
    /// In both or not at all: it happens in the kernel.
    Whole,
}

/// An event.
#[derive(Debug)]
struct Wanted {
    name: &'static str,
    mode: Mode,
    /// The first that the kernel takes.
    origins: &'static [Origin],
}

/// Events that are counted at the same times, so that they can be divided by each other.
#[derive(Debug)]
struct Group {
    name: &'static str,
    /// Nothing without all of them.
    whole: bool,
    /// Together, or each by itself.
    together: bool,
    events: &'static [Wanted],
}

const fn both(name: &'static str, origins: &'static [Origin]) -> Wanted {
    Wanted {
        name,
        mode: Mode::Both,
        origins,
    }
}

const fn in_mode(name: &'static str, mode: Mode, origins: &'static [Origin]) -> Wanted {
    Wanted {
        name,
        mode,
        origins,
    }
}

/// Everything that is counted. Processors have four to eight counters for all of it: the kernel gives
/// them to one group after another.
const GROUPS: &[Group] = &[
    Group {
        name: "core",
        whole: false,
        together: true,
        events: &[
            both("cycles", &[Hardware(0)]),
            both("instructions", &[Hardware(1)]),
            both("branches", &[Hardware(4)]),
            both("branch-misses", &[Hardware(5)]),
        ],
    },
    Group {
        name: "user",
        whole: true,
        together: true,
        events: &[
            in_mode("cycles", Mode::User, &[Hardware(0)]),
            in_mode("instructions", Mode::User, &[Hardware(1)]),
        ],
    },
    Group {
        name: "stalls",
        whole: false,
        together: true,
        events: &[
            both("cycles", &[Hardware(0)]),
            both(
                "stalled-cycles-frontend",
                &[Hardware(7), Described("stall_frontend")],
            ),
            both(
                "stalled-cycles-backend",
                &[Hardware(8), Described("stall_backend")],
            ),
        ],
    },
    Group {
        name: "fetch",
        whole: false,
        together: true,
        events: &[
            both("L1-icache-load-misses", &[Cache(L1_INSTRUCTIONS, true)]),
            both("iTLB-load-misses", &[Cache(INSTRUCTION_TLB, true)]),
        ],
    },
    Group {
        name: "cache",
        whole: false,
        together: true,
        events: &[
            both("LLC-loads", &[Cache(LAST_LEVEL, false)]),
            both("LLC-load-misses", &[Cache(LAST_LEVEL, true)]),
        ],
    },
    // Which level these are of is the processor's own affair.
    Group {
        name: "general",
        whole: false,
        together: true,
        events: &[
            both("cache-references", &[Hardware(2)]),
            both("cache-misses", &[Hardware(3)]),
        ],
    },
    Group {
        name: "topdown",
        whole: true,
        together: true,
        events: &[
            both("slots", &[Described("slots")]),
            both("retiring", &[Described("topdown-retiring")]),
            both("bad-spec", &[Described("topdown-bad-spec")]),
            both("fe-bound", &[Described("topdown-fe-bound")]),
            both("be-bound", &[Described("topdown-be-bound")]),
        ],
    },
    Group {
        name: "topdown-slots",
        whole: true,
        together: true,
        events: &[
            both("total", &[Described("topdown-total-slots")]),
            both("issued", &[Described("topdown-slots-issued")]),
            both("retired", &[Described("topdown-slots-retired")]),
            both("fetch-bubbles", &[Described("topdown-fetch-bubbles")]),
            both("recovery-bubbles", &[Described("topdown-recovery-bubbles")]),
        ],
    },
    Group {
        name: "topdown-stalls",
        whole: true,
        together: true,
        events: &[
            both("cycles", &[Hardware(0)]),
            both("stall-slot", &[Described("stall_slot")]),
            both("stall-slot-frontend", &[Described("stall_slot_frontend")]),
            both("stall-slot-backend", &[Described("stall_slot_backend")]),
            both("op-retired", &[Described("op_retired")]),
            both("op-spec", &[Described("op_spec")]),
        ],
    },
    Group {
        name: "software",
        whole: false,
        together: false,
        events: &[
            both("task-clock", &[Software(1)]),
            both("page-faults", &[Software(2)]),
            in_mode("context-switches", Mode::Whole, &[Software(3)]),
            in_mode("cpu-migrations", Mode::Whole, &[Software(4)]),
        ],
    },
];

/// Events of which samples are taken, so that they can be told by class.
const SAMPLED: &[&str] = &[
    "core/cycles",
    "core/instructions",
    "core/branch-misses",
    "fetch/L1-icache-load-misses",
    "fetch/iTLB-load-misses",
    "cache/LLC-load-misses",
    "software/page-faults",
    "software/context-switches",
];

/// The group of the kernel's own events: there without any counter.
pub const SOFTWARE: &str = "software";
/// Stands for all groups of top-down where none can be had.
pub const TOP_DOWN: &str = "topdown";

/// An event as it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// `GROUP/NAME`.
    pub name: String,
    /// In which mode.
    pub mode: Mode,
    /// The kernel's numbers for it; the first that it takes.
    pub encodings: Vec<Encoded>,
    /// By what its count is multiplied.
    pub scale: f64,
    /// Whether samples of it are taken, too.
    pub sampled: bool,
}

/// What is asked for on a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Groups of events that are counted at the same times.
    pub groups: Vec<PlannedGroup>,
    /// What is not asked for, by name, and why.
    pub absent: Vec<(String, String)>,
    /// Slots that the processor can fill in a cycle, where it says so.
    pub slots: Option<u64>,
}

/// A group as it is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlannedGroup {
    /// Nothing without all of them.
    pub whole: bool,
    /// Together, or each by itself.
    pub together: bool,
    /// Its events.
    pub events: Vec<Planned>,
}

/// What is counted on a machine with these units; `units` are those of its cores.
pub fn plan(units: &[Unit]) -> Plan {
    let mut plan = Plan::default();
    let only = match units {
        [] => None,
        [only] => Some(only),
        several => {
            let names: Vec<&str> = several.iter().map(|unit| unit.name.as_str()).collect();
            let why = format!(
                "this machine has several kinds of cores ({}), whose counts are not to be added",
                names.join(", ")
            );
            for group in GROUPS.iter().filter(|group| group.name != SOFTWARE) {
                plan.absent
                    .extend(group.events.iter().map(|e| (named(group, e), why.clone())));
            }
            None
        }
    };
    plan.slots = only.and_then(Unit::slots);
    for group in GROUPS {
        if units.len() > 1 && group.name != SOFTWARE {
            continue;
        }
        let made = of_group(group, only);
        match made {
            Ok(made) => plan.groups.push(made),
            Err(why) if !group.name.starts_with(TOP_DOWN) => {
                plan.absent.push((group.name.to_owned(), why));
            }
            Err(_) => {}
        }
    }
    let is_top_down =
        |group: &PlannedGroup| group.events.iter().any(|e| e.name.starts_with(TOP_DOWN));
    if !plan.groups.iter().any(is_top_down) && units.len() < 2 {
        let where_to = only.map_or("*", |unit| unit.name.as_str());
        plan.absent.push((
            TOP_DOWN.to_owned(),
            format!("the kernel describes no events for it in /sys/bus/event_source/devices/{where_to}/events"),
        ));
    }
    plan
}

fn named(group: &Group, event: &Wanted) -> String {
    format!("{}/{}", group.name, event.name)
}

/// A group on this unit, or why it can't be had.
fn of_group(group: &Group, unit: Option<&Unit>) -> Result<PlannedGroup, String> {
    let mut events = Vec::new();
    for wanted in group.events {
        let (mut encodings, mut scale, mut why) = (Vec::new(), 1.0, None);
        for origin in wanted.origins {
            let fixed = |kind, config| Encoded {
                kind,
                config: [config, 0, 0],
            };
            match origin {
                Hardware(config) => encodings.push(fixed(0, *config)),
                Software(config) => encodings.push(fixed(1, *config)),
                // The operation, reading, is 0.
                Cache(cache, missed) => {
                    encodings.push(fixed(3, cache | u64::from(*missed) << 16));
                }
                Described(name) => match unit.and_then(|unit| Some((unit, unit.event(name)?))) {
                    Some((unit, Ok(encoded))) => {
                        encodings.push(encoded);
                        scale = unit.scale(name);
                    }
                    Some((_, Err(reason))) => why = Some(format!("{name}: {reason}")),
                    None => why = Some(format!("the kernel describes no event {name}")),
                },
            }
        }
        let name = named(group, wanted);
        match why {
            Some(why) if encodings.is_empty() => {
                if group.whole {
                    return Err(why);
                }
            }
            _ => events.push(Planned {
                sampled: SAMPLED.contains(&name.as_str()),
                name,
                mode: wanted.mode,
                encodings,
                scale,
            }),
        }
    }
    Ok(PlannedGroup {
        whole: group.whole,
        together: group.together,
        events,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sampled_is_counted_too() {
        let counted: Vec<String> = plan(&[])
            .groups
            .into_iter()
            .flat_map(|group| group.events)
            .filter(|event| event.sampled)
            .map(|event| event.name)
            .collect();
        let sampled: Vec<&str> = SAMPLED.to_vec();
        assert_eq!(counted, sampled);
    }

    #[test]
    fn a_machine_without_a_unit_is_asked_for_the_general_events_all_the_same() {
        let plan = plan(&[]);
        let names: Vec<&str> = plan
            .groups
            .iter()
            .flat_map(|group| &group.events)
            .map(|event| event.name.as_str())
            .collect();
        assert!(names.contains(&"core/cycles") && names.contains(&"software/task-clock"));
        assert!(!names.iter().any(|name| name.starts_with(TOP_DOWN)));
        assert_eq!(plan.absent.len(), 1);
        assert_eq!(plan.absent[0].0, TOP_DOWN);
    }

    #[test]
    fn counts_of_different_cores_are_not_added() {
        let kind = |name: &str| Unit {
            name: name.into(),
            ..Unit::default()
        };
        let plan = plan(&[kind("cpu_core"), kind("cpu_atom")]);
        assert_eq!(plan.groups.len(), 1);
        assert!(plan.groups[0].events[0].name.starts_with(SOFTWARE));
        assert!(
            plan.absent
                .iter()
                .all(|(_, why)| why.contains("cpu_core, cpu_atom"))
        );
    }
}
