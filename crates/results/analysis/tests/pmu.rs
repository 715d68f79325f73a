//! Events of several processors: what is asked for by what the kernel describes there, and what comes of the
//! readings. `pmu/` has a file for each, made from documentation.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pgassay_analysis::metrics::MetricId;
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::samplers;
use pgassay_model::trial::Trial;
use pgassay_readings::pmu::events::{Plan, plan};
use pgassay_readings::pmu::unit::Unit;

/// Transactions of the one trial.
const TRANSACTIONS: u64 = 1000;

/// A processor as its file has it.
struct Recorded {
    units: Vec<Unit>,
    trial: Trial,
}

fn recorded(name: &str) -> Recorded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pmu/{name}.txt"));
    let text = fs::read_to_string(path).unwrap();
    assert!(text.starts_with("# "), "{name}: where it is from");
    let mut parts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            Some(part) => current = part.to_owned(),
            None => parts.entry(current.clone()).or_default().push(line),
        }
    }
    let reading =
        |part: &str| Reading::Text(parts.get(part).map_or(String::new(), |l| l.join("\n")));
    let sample = Sample {
        before: reading("before"),
        after: reading("after"),
        elapsed_ns: 1_000_000_000,
    };
    let units = parts
        .iter()
        .filter(|(part, _)| !["before", "after"].contains(&part.as_str()))
        .map(|(unit, lines)| Unit {
            name: unit.clone(),
            files: lines
                .iter()
                .filter_map(|line| line.split_once(' '))
                .map(|(file, text)| (file.to_owned(), text.to_owned()))
                .collect(),
        })
        .collect();
    Recorded {
        units,
        trial: Trial {
            window_ns: 1_000_000_000,
            transactions: TRANSACTIONS,
            samples: BTreeMap::from([(samplers::SERVER_EVENTS.to_owned(), sample)]),
            ..Trial::default()
        },
    }
}

impl Recorded {
    fn metric(&self, id: &str) -> Option<f64> {
        MetricId::find(id).unwrap().in_trial(&self.trial)
    }

    #[track_caller]
    fn holds(&self, expected: &[(&str, Option<f64>)]) {
        for (id, value) in expected {
            let seen = self.metric(id);
            let same = match (seen, value) {
                (Some(seen), Some(value)) => (seen - value).abs() <= 1e-9 * value.abs().max(1.0),
                (seen, value) => seen.is_none() && value.is_none(),
            };
            assert!(same, "{id}: {seen:?}, not {value:?}");
        }
    }
}

/// Every line of the readings names the numbers that the plan asks for.
#[track_caller]
fn asked_as_read(recorded: &Recorded, plan: &Plan) {
    let events: BTreeMap<&str, Vec<String>> = plan
        .groups
        .iter()
        .flat_map(|group| &group.events)
        .map(|event| {
            let numbers = event
                .encodings
                .iter()
                .map(|e| format!("{}:{:#x} {}", e.kind, e.config[0], event.scale));
            (event.name.as_str(), numbers.collect())
        })
        .collect();
    let sample = &recorded.trial.samples[samplers::SERVER_EVENTS];
    let mut lines = 0;
    for line in sample
        .after
        .text()
        .unwrap()
        .lines()
        .filter_map(|l| l.strip_prefix("= "))
    {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, numbers, _, scale] = words.as_slice() else {
            panic!("{line}");
        };
        let asked = events
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not asked for"));
        assert!(
            asked.contains(&format!("{numbers} {scale}")),
            "{line}: {asked:?}"
        );
        lines += 1;
    }
    assert!(lines > 4);
}

fn has_group(plan: &Plan, name: &str) -> bool {
    let mut events = plan.groups.iter().flat_map(|group| &group.events);
    events.any(|event| event.name.starts_with(&format!("{name}/")))
}

#[test]
fn an_arm_without_slots_tells_stalls_in_cycles() {
    let seen = recorded("graviton2");
    let plan = plan(&seen.units);
    asked_as_read(&seen, &plan);
    // Its slots are 0: it does not tell them.
    assert_eq!(plan.slots, None);
    assert!(!has_group(&plan, "topdown-stalls"));
    assert!(
        plan.absent
            .iter()
            .any(|(name, why)| name == "topdown" && why.contains("armv8_pmuv3_0"))
    );
    seen.holds(&[
        ("ipc", Some(0.8)),
        ("cycles", Some(100_000.0)),
        ("instructions", Some(80_000.0)),
        ("kernel-instructions", Some(0.25)),
        ("branch-misses", Some(400.0)),
        ("branch-miss-share", Some(0.025)),
        ("stalled-frontend", Some(0.4)),
        ("stalled-backend", Some(0.3)),
        // Counted half of the time.
        ("l1i-misses", Some(2000.0)),
        ("itlb-misses", Some(100.0)),
        ("llc-misses", None),
        ("retiring", None),
    ]);
}

#[test]
fn an_arm_that_counts_slots_has_top_down() {
    let seen = recorded("graviton3");
    let plan = plan(&seen.units);
    asked_as_read(&seen, &plan);
    assert_eq!(plan.slots, Some(8));
    assert!(has_group(&plan, "topdown-stalls"));
    seen.holds(&[
        ("frontend-bound", Some(0.5)),
        ("backend-bound", Some(0.25)),
        ("retiring", Some(0.225)),
        ("bad-speculation", Some(0.025)),
        ("ipc", None),
    ]);
}

#[test]
fn intel_divides_its_slots_by_itself_from_ice_lake_on() {
    let seen = recorded("icelake");
    let plan = plan(&seen.units);
    asked_as_read(&seen, &plan);
    assert!(!has_group(&plan, "topdown-slots"));
    seen.holds(&[
        ("ipc", Some(1.5)),
        ("llc-misses", Some(20.0)),
        ("retiring", Some(0.3)),
        ("bad-speculation", Some(0.1)),
        ("frontend-bound", Some(0.4)),
        ("backend-bound", Some(0.2)),
        ("stalled-frontend", None),
    ]);
}

#[test]
fn intel_before_counts_slots_with_scales() {
    let mut seen = recorded("skylake");
    asked_as_read(&seen, &plan(&seen.units));
    seen.holds(&[
        ("retiring", Some(0.4)),
        ("bad-speculation", Some(0.05)),
        ("frontend-bound", Some(0.3)),
        ("backend-bound", Some(0.25)),
    ]);
    // With two threads a core the kernel describes the cycles of both: no top-down of one server then.
    let total = "events/topdown-total-slots".to_owned();
    seen.units[0]
        .files
        .insert(total, "event=0x3c,umask=0x0,any=1".to_owned());
    let plan = plan(&seen.units);
    assert!(!has_group(&plan, "topdown-slots"));
    assert!(plan.absent.iter().any(|(name, _)| name == "topdown"));
}

#[test]
fn amd_has_neither_top_down_nor_its_last_level_in_the_core() {
    let seen = recorded("zen3");
    let plan = plan(&seen.units);
    asked_as_read(&seen, &plan);
    seen.holds(&[
        ("ipc", Some(1.5)),
        ("cycles", Some(4000.0)),
        ("stalled-frontend", Some(0.3)),
        ("stalled-backend", None),
        ("llc-misses", None),
        // In user mode alone nothing is known of the kernel's part.
        ("kernel-instructions", None),
        ("frontend-bound", None),
    ]);
}
