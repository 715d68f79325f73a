//! Whether two plans measure the same: labs of two machines are held against each other stage by stage only then.

use serde::Serialize;
use serde_json::{Map, Value};

use super::plan::{ArmPlan, LabPlan, StagePlan};

/// In what two plans differ so that their figures answer different questions, in sentences about the first and the
/// second; none where they measure the same. What a machine or its time decides (client counts, scale, numbers of
/// CPUs, trials) is no part of it, and neither are the words, figures and statements around the measurement.
pub fn differences(a: &LabPlan, b: &LabPlan) -> Vec<String> {
    if a.name != b.name {
        return vec![format!("the plans are {} and {}", a.name, b.name)];
    }
    let mut all = Vec::new();
    let mut shared = 0;
    for stage in &a.stages {
        let Some(other) = b.stages.iter().find(|other| other.id == stage.id) else {
            continue;
        };
        shared += 1;
        let (of_a, of_b) = (measured(a, stage), measured(b, other));
        compare(&format!("stage `{}`", stage.id), &of_a, &of_b, &mut all);
    }
    if shared == 0 {
        all.push("the plans have no stage in common".to_owned());
    }
    for arm in &a.arms {
        if let Some(other) = b.arms.iter().find(|other| other.name == arm.name) {
            let name = format!("arm `{}`", arm.name);
            compare(&name, &fields::<ArmPlan>(arm), &fields(other), &mut all);
        }
    }
    all
}

/// What a stage measures, whatever the machine is.
fn measured(plan: &LabPlan, stage: &StagePlan) -> Map<String, Value> {
    let names = plan.arms_of(stage).into_iter();
    let fixed = StagePlan {
        arms: names.map(str::to_owned).collect(),
        clients: Vec::new(),
        scale: Vec::new(),
        cpus: Vec::new(),
        seconds: None,
        trials: None,
        observe: Vec::new(),
        weight: 1.0,
        ..stage.clone()
    };
    fields(&fixed)
}

fn fields<T: Serialize>(of: &T) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn compare(what: &str, a: &Map<String, Value>, b: &Map<String, Value>, all: &mut Vec<String>) {
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (of_a, of_b) = (a.get(name), b.get(name));
        if of_a != of_b {
            all.push(format!(
                "{what}: {name} is {} and {}",
                said(of_a),
                said(of_b)
            ));
        }
    }
}

fn said(value: Option<&Value>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            let each = list.iter().map(|one| said(Some(one)));
            each.collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const PLAN: &str = r#"
name = "mine"
title = "t"
question = "q"
[[arm]]
name = "a"
target = "temp"
[[arm]]
name = "b"
target = "temp"
settings = ["jit=off"]
[[stage]]
id = "reads"
measure = "compare"
clients = [1, 64]
scale = [100]
[[statement]]
id = "s"
says = "nothing"
test = { kind = "untested", why = "no reason" }
"#;

    #[test]
    fn what_the_machine_decides_is_no_difference_and_what_is_measured_is() {
        let plan = parse(PLAN).unwrap();
        let against = |from: &str, to: &str| {
            assert!(PLAN.contains(from), "{from}");
            differences(&plan, &parse(&PLAN.replacen(from, to, 1)).unwrap())
        };
        assert!(differences(&plan, &plan).is_empty());
        for (from, to) in [
            ("[1, 64]", "[1, 8]"),
            ("[100]", "[10]"),
            ("title = \"t\"", "title = \"other\""),
            ("says = \"nothing\"", "says = \"something\""),
            (
                "measure = \"compare\"",
                "measure = \"compare\"\narms = [\"a\", \"b\"]",
            ),
        ] {
            assert_eq!(against(from, to), Vec::<String>::new(), "{to}");
        }
        for (from, to, says) in [
            ("\"mine\"", "\"other\"", "the plans are mine and other"),
            (
                "jit=off",
                "jit=on",
                "arm `b`: settings is jit=off and jit=on",
            ),
            (
                "measure = \"compare\"",
                "measure = \"compare\"\nprotocol = \"simple\"",
                "stage `reads`: protocol is not set and simple",
            ),
            ("\"reads\"", "\"writes\"", "no stage in common"),
        ] {
            let said = against(from, to).join("; ");
            assert!(said.contains(says), "{says}: {said}");
        }
    }
}
