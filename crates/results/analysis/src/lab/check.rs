//! Reads a plan, and says what is wrong with it before anything is launched.

use std::collections::BTreeSet;

use super::legs::legs;
use super::plan::{
    ArmPlan, LabPlan, Measure, Operand, PLAN_SCHEMA, Range, ShareOf, StagePlan, Test,
};
use crate::metrics::MetricId;
use crate::profile::lock::Lock;

/// The largest plan that is read, in bytes.
pub const LARGEST: usize = 1 << 20;
/// The most clients, CPUs, arms, stages and points of one stage.
const MOST_CLIENTS: u32 = 100_000;
const MOST_CPUS: u32 = 65_536;
const MOST_ARMS: usize = 24;
const MOST_STAGES: usize = 100;
const MOST_POINTS: usize = 1000;
/// Arms of one comparison.
const MOST_COMPARED: usize = 8;
/// Arms of one comparison whose settings may differ: as many as compare has flags for.
const MOST_SET: usize = 3;
/// The longest slice, in seconds.
const LONGEST: f64 = 3600.0;

/// Quantities that are no metric of a trial, with whether a way is named behind a colon.
pub const FURTHER: &[(&str, bool)] = &[
    ("query-cpu", true),
    ("amplification", true),
    ("execution", true),
    ("request-bytes", true),
    ("pgio-reads-per-session", false),
    ("instructions", false),
    ("locked", false),
    ("lse", false),
    ("exclusive", false),
    ("outline-calls", false),
];

/// Reads a plan.
///
/// # Errors
/// Everything that is wrong with it, a line each: what TOML says with its line and column, or what does
/// not fit together.
pub fn parse(text: &str) -> Result<LabPlan, String> {
    if text.len() > LARGEST {
        return Err(format!("a plan has at most {LARGEST} bytes"));
    }
    let plan: LabPlan = toml::from_str(text).map_err(|error| error.to_string())?;
    match check(&plan) {
        wrong if wrong.is_empty() => Ok(plan),
        wrong => Err(wrong.join("\n")),
    }
}

/// What does not fit together, in the order of the plan.
fn check(plan: &LabPlan) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |text: String| wrong.push(text);
    if let Some(schema) = &plan.schema
        && schema != PLAN_SCHEMA
    {
        say(format!(
            "schema `{schema}`: this program reads {PLAN_SCHEMA}"
        ));
    }
    if !is_name(&plan.name) {
        say(format!(
            "name `{}`: lower-case letters, digits and hyphens",
            plan.name
        ));
    }
    unique("source", plan.sources.iter().map(|s| &s.id), &mut say);
    unique("arm", plan.arms.iter().map(|a| &a.name), &mut say);
    unique("stage", plan.stages.iter().map(|s| &s.id), &mut say);
    unique("figure", plan.figures.iter().map(|f| &f.id), &mut say);
    unique("statement", plan.statements.iter().map(|s| &s.id), &mut say);
    for (what, count, most) in [
        ("arms", plan.arms.len(), MOST_ARMS),
        ("stages", plan.stages.len(), MOST_STAGES),
    ] {
        if count == 0 || count > most {
            say(format!("{count} {what}: 1 to {most}"));
        }
    }
    if plan.statements.is_empty() {
        say("no statements: nothing would be checked".to_owned());
    }
    for arm in &plan.arms {
        if arm.target.is_some() == arm.variant.is_some() {
            say(format!(
                "arm `{}`: name a target to launch, or a variant to build, and not both",
                arm.name
            ));
        }
        let words = [&arm.target, &arm.variant, &arm.host, &arm.processor];
        for word in words.into_iter().flatten() {
            if word.starts_with('-') {
                say(format!("arm `{}`: `{word}` begins with a hyphen", arm.name));
            }
        }
    }
    of_placed(plan, &mut say);
    for stage in &plan.stages {
        of_stage(plan, stage, &mut say);
    }
    for figure in &plan.figures {
        if !plan.sources.iter().any(|s| s.id == figure.source) {
            say(format!(
                "figure `{}`: there is no source `{}`",
                figure.id, figure.source
            ));
        }
    }
    for statement in &plan.statements {
        let mut of = |text: String| say(format!("statement `{}`: {text}", statement.id));
        for figure in &statement.figures {
            if !plan.figures.iter().any(|f| f.id == *figure) {
                of(format!("there is no figure `{figure}`"));
            }
        }
        of_test(plan, &statement.test, &mut of);
    }
    wrong
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>, say: &mut impl FnMut(String)) {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > 64 {
            say(format!("{what} `{name}`: a name has 1 to 64 characters"));
        }
        if !seen.insert(name) {
            say(format!("there are two {what}s `{name}`"));
        }
    }
}

fn of_stage(plan: &LabPlan, stage: &StagePlan, say: &mut impl FnMut(String)) {
    let mut say = |text: String| say(format!("stage `{}`: {text}", stage.id));
    if !is_name(&stage.id) {
        say("its id has lower-case letters, digits and hyphens".to_owned());
    }
    for arm in &stage.arms {
        if plan.arm(arm).is_none() {
            say(no_arm(plan, arm));
        }
    }
    let arms = plan.arms_of(stage);
    match stage.measure {
        Measure::Compare if arms.len() < 2 => {
            say("compare takes two arms or more; one arm is for run".to_owned());
        }
        Measure::Compare if arms.len() > MOST_COMPARED => {
            say(format!("compare takes {MOST_COMPARED} arms at most"));
        }
        Measure::Run if arms.len() != 1 => say(format!(
            "run takes one arm, and there are {}; several are for compare",
            arms.len()
        )),
        Measure::Count if arms.len() != 2 => {
            say(format!(
                "count takes two arms, and there are {}",
                arms.len()
            ));
        }
        _ => {}
    }
    let set = arms
        .iter()
        .skip(MOST_SET)
        .filter_map(|name| plan.arm(name))
        .find(|arm| arm.has_own());
    if let Some(arm) = set {
        say(format!(
            "arm `{}` has settings, an environment, CPUs or a wrap of its own; only the first {MOST_SET} arms of a \
             stage may",
            arm.name
        ));
    }
    of_hosts(plan, stage, &mut say);
    of_machines(plan, stage, &mut say);
    for arm in arms.iter().filter_map(|name| plan.arm(name)) {
        let (what, gives) = match stage.measure {
            Measure::Compare => continue,
            Measure::Run => (arm.is_kept().then_some("CPUs"), "only compare gives"),
            Measure::Count | Measure::Inspect => (
                arm.is_given().then_some("an environment, CPUs or a wrap"),
                "only compare and run give",
            ),
        };
        if let Some(what) = what {
            say(format!(
                "arm `{}` has {what} of its own, which {gives} it",
                arm.name
            ));
        }
    }
    let settings = plan.arms.iter().flat_map(|arm| &arm.settings);
    for setting in settings.chain(&stage.settings) {
        if !setting.contains('=') {
            say(format!("`{setting}` is no setting: name=value"));
        }
    }
    let word = |c: char| c.is_ascii_alphanumeric() || "-_:".contains(c);
    let named = stage.workload.chars().all(word) && !stage.workload.is_empty();
    if stage.workload.starts_with('-') || !(named || is_script(&stage.workload)) {
        say(format!(
            "workload `{}`: the name of a workload, or of a script that ends in .sql",
            stage.workload
        ));
    }
    for clients in &stage.clients {
        if *clients == 0 || *clients > MOST_CLIENTS {
            say(format!("{clients} clients: 1 to {MOST_CLIENTS}"));
        }
    }
    for scale in &stage.scale {
        if *scale == 0 || *scale > 100_000 {
            say(format!("scale {scale}: 1 to 100000"));
        }
    }
    if legs(stage).len() * stage.clients.len().max(1) > MOST_POINTS {
        say(format!("more than {MOST_POINTS} points"));
    }
    of_places(plan, stage, &mut say);
    if let Some(seconds) = stage.seconds
        && !(0.01..=LONGEST).contains(&seconds)
    {
        say(format!("{seconds} seconds: 0.01 to {LONGEST}"));
    }
    if stage.trials.is_some_and(|n| n == 0 || n > 10_000) {
        say("trials: 1 to 10000".to_owned());
    }
    if !(stage.weight > 0.0 && stage.weight <= 1000.0) {
        say(format!("weight {}: above 0, to 1000", stage.weight));
    }
}

/// Arms with CPUs in two ways.
fn of_placed(plan: &LabPlan, say: &mut impl FnMut(String)) {
    let twice = |arm: &&ArmPlan| arm.placed.is_some() && !arm.cpus.is_empty();
    for arm in plan.arms.iter().filter(twice) {
        say(format!(
            "arm `{}`: name cpus or placed, and not both",
            arm.name
        ));
    }
}

/// Arms of another processor.
fn of_hosts(plan: &LabPlan, stage: &StagePlan, say: &mut impl FnMut(String)) {
    let arms = plan.arms_of(stage).into_iter();
    let arms: Vec<&ArmPlan> = arms.filter_map(|name| plan.arm(name)).collect();
    let (foreign, native): (Vec<&ArmPlan>, Vec<&ArmPlan>) =
        arms.iter().partition(|arm| arm.host.is_some());
    let runs = matches!(stage.measure, Measure::Compare | Measure::Run);
    if let (Some(arm), true) = (foreign.first(), runs) {
        say(format!(
            "arm `{}` is of another processor: it is for inspect and count",
            arm.name
        ));
    }
    if let (Some(_), Some(arm), Measure::Count) = (foreign.first(), native.first(), stage.measure) {
        say(format!(
            "arm `{}` has no host, and the other arm has one: instructions of two processors' servers are counted \
             in emulators, both of them",
            arm.name
        ));
    }
    if let Some(arm) = native.iter().find(|arm| arm.processor.is_some()) {
        say(format!("arm `{}` has a processor and no host", arm.name));
    }
}

/// CPUs, threads and memory nodes of a stage's servers.
fn of_places(plan: &LabPlan, stage: &StagePlan, say: &mut impl FnMut(String)) {
    if !stage.places_servers() {
        return;
    }
    if !matches!(stage.measure, Measure::Compare | Measure::Run) {
        say("cpus, smt and numa are for compare and run".to_owned());
    }
    for cpus in &stage.cpus {
        if *cpus == 0 || *cpus > MOST_CPUS {
            say(format!("{cpus} cpus: 1 to {MOST_CPUS}"));
        }
    }
    for smt in &stage.smt {
        if !["on", "off", "only-first"].contains(&smt.as_str()) {
            say(format!("smt `{smt}`: on, off or only-first"));
        }
    }
    for numa in &stage.numa {
        if !["interleave", "local"].contains(&numa.as_str()) && numa.parse::<u32>().is_err() {
            say(format!(
                "numa `{numa}`: a node's number, interleave or local"
            ));
        }
    }
    let arms = plan.arms_of(stage).into_iter();
    for arm in arms.filter_map(|name| plan.arm(name)) {
        if arm.is_placed() {
            say(format!(
                "arm `{}` has CPUs or a wrap of its own, and the stage chooses both by cpus, smt or numa",
                arm.name
            ));
        }
    }
}

/// The servers of one command are on one machine.
fn of_machines(plan: &LabPlan, stage: &StagePlan, say: &mut impl FnMut(String)) {
    let arms = plan.arms_of(stage).into_iter();
    let arms: Vec<_> = arms.filter_map(|name| plan.arm(name)).collect();
    let Some(far) = arms.iter().find(|arm| arm.machine().is_some()) else {
        return;
    };
    let machine = far.machine().unwrap_or_default();
    match stage.measure {
        Measure::Compare => {
            if let Some(other) = arms.iter().find(|arm| arm.machine() != far.machine()) {
                say(format!(
                    "arm `{}` is on {machine}, `{}` {}: the servers of one comparison are on one machine. Give each a \
                     stage of its own that runs it, and let a statement's ratio hold one against the other",
                    far.name,
                    other.name,
                    other
                        .machine()
                        .map_or("here".to_owned(), |machine| format!("on {machine}")),
                ));
            }
        }
        Measure::Run => {}
        Measure::Count | Measure::Inspect => say(format!(
            "arm `{}` is on {machine}, and {} is done here; run and compare are carried out there",
            far.name,
            stage.measure.command()
        )),
    }
    for arm in arms {
        if arm.machine().is_some() && arm.placed.is_some() {
            say(format!(
                "arm `{}` is on another machine, whose CPUs are not known: name them by `cpus` instead of `placed`",
                arm.name
            ));
        }
    }
}

/// Whether a workload is a script, by the path that it names.
pub fn is_script(workload: &str) -> bool {
    workload.ends_with(".sql")
}

fn no_arm(plan: &LabPlan, name: &str) -> String {
    let known: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    format!("there is no arm `{name}`; there are {}", known.join(", "))
}

fn of_test(plan: &LabPlan, test: &Test, say: &mut impl FnMut(String)) {
    match test {
        Test::Ratio { of, over, range } => {
            of_operand(plan, of, say);
            of_operand(plan, over, say);
            of_range(*range, say);
        }
        Test::Value { of, range } => {
            of_operand(plan, of, say);
            of_range(*range, say);
        }
        Test::Order {
            stage,
            arms,
            quantity,
            ..
        } => {
            if arms.len() < 2 {
                say("an order needs two arms".to_owned());
            }
            if let Err(error) = MetricId::find(quantity) {
                say(error.to_string());
            }
            for arm in arms {
                at(plan, stage, arm, say);
            }
        }
        Test::Peak { stage, arm, range } => {
            at(plan, stage, arm, say);
            of_range(*range, say);
        }
        Test::Share {
            stage,
            arm,
            of,
            name,
            range,
            ..
        } => {
            at(plan, stage, arm, say);
            of_range(*range, say);
            if *of == ShareOf::Lock && Lock::parse(name).is_none() {
                say(format!("'{name}' is no lock, such as buffer-header"));
            }
        }
        Test::Untested { .. } => {}
    }
}

fn of_range(range: Range, say: &mut impl FnMut(String)) {
    match (range.at_least, range.at_most) {
        (None, None) => say("its range has neither at-least nor at-most".to_owned()),
        (Some(low), Some(high)) if low > high => {
            say(format!("its range goes from {low} down to {high}"));
        }
        (low, high) if low.is_some_and(f64::is_nan) || high.is_some_and(f64::is_nan) => {
            say("an end of its range is no number".to_owned());
        }
        _ => {}
    }
}

fn of_operand(plan: &LabPlan, operand: &Operand, say: &mut impl FnMut(String)) {
    at(plan, &operand.stage, &operand.arm, say);
    let (name, way) = match operand.quantity.split_once(':') {
        Some((name, way)) => (name, Some(way)),
        None => (operand.quantity.as_str(), None),
    };
    match FURTHER.iter().find(|(known, _)| *known == name) {
        Some((_, wants)) if *wants != way.is_some() => say(match wants {
            true => format!("quantity `{name}` needs a way behind a colon"),
            false => format!("quantity `{name}` has no ways"),
        }),
        Some(_) => {}
        None => {
            if let Err(error) = MetricId::find(&operand.quantity) {
                let further: Vec<&str> = FURTHER.iter().map(|(name, _)| *name).collect();
                say(format!("{error}; besides {}", further.join(", ")));
            }
        }
    }
    if let Some(stage) = plan.stage(&operand.stage) {
        let found = legs(stage).iter().filter(|leg| leg.is_of(operand)).count();
        if found != 1 {
            say(format!(
                "{found} parts of stage `{}` are meant: name its scale, shared-buffers, cpus, smt or numa as the stage does",
                stage.id
            ));
        }
    }
}

fn at(plan: &LabPlan, stage: &str, arm: &str, say: &mut impl FnMut(String)) {
    let Some(found) = plan.stage(stage) else {
        let known: Vec<&str> = plan.stages.iter().map(|s| s.id.as_str()).collect();
        return say(format!(
            "there is no stage `{stage}`; there are {}",
            known.join(", ")
        ));
    };
    if plan.arm(arm).is_none() {
        return say(no_arm(plan, arm));
    }
    if !plan.arms_of(found).contains(&arm) {
        say(format!("stage `{stage}` does not measure arm `{arm}`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"
name = "mine"
title = "t"
question = "q"
[[source]]
id = "s"
title = "somebody"
hardware = "something"
[[figure]]
id = "f"
source = "s"
what = "w"
value = "1"
[[arm]]
name = "a"
target = "temp"
[[arm]]
name = "b"
target = "temp"
[[stage]]
id = "reads"
measure = "compare"
clients = [1, 2]
scale = [1, 10]
[[statement]]
id = "x"
says = "b is faster"
figures = ["f"]
test = { kind = "ratio", of = { stage = "reads", arm = "b", clients = 2, scale = 1 }, over = { stage = "reads", arm = "a", clients = 2, scale = 1 }, range = { at-least = 1 } }
"#;

    fn wrong(from: &str, to: &str) -> String {
        assert!(RIGHT.contains(from), "{from}");
        parse(&RIGHT.replacen(from, to, 1)).unwrap_err()
    }

    #[test]
    fn a_right_plan_is_read() {
        let plan = parse(RIGHT).unwrap();
        assert_eq!(plan.arms_of(&plan.stages[0]), ["a", "b"]);
        assert_eq!(legs(&plan.stages[0]).len(), 2);
        // As it is recorded and read back.
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<LabPlan>(&text).unwrap(), plan);
    }

    #[test]
    fn mistakes_are_named_with_what_there_is() {
        for (from, to, says) in [
            ("title = \"t\"", "titel = \"t\"", "titel"),
            ("name = \"mine\"", "name = \"My lab\"", "hyphens"),
            (
                "arm = \"b\"",
                "arm = \"c\"",
                "there is no arm `c`; there are a, b",
            ),
            (
                "stage = \"reads\"",
                "stage = \"writes\"",
                "there is no stage `writes`",
            ),
            ("source = \"s\"", "source = \"z\"", "there is no source `z`"),
            (
                "figures = [\"f\"]",
                "figures = [\"g\"]",
                "there is no figure `g`",
            ),
            ("clients = [1, 2]", "clients = [0]", "0 clients"),
            (
                "clients = [1, 2]",
                "clients = [4000000000]",
                "4000000000 clients",
            ),
            ("clients = [1, 2]", "clients = [-1]", "invalid value"),
            ("scale = [1, 10]", "scale = [1000000]", "scale 1000000"),
            ("scale = [1, 10]", "weight = -1.0", "weight -1"),
            ("scale = [1, 10]", "seconds = nan", "seconds"),
            (
                "measure = \"compare\"",
                "measure = \"run\"",
                "run takes one arm",
            ),
            ("measure = \"compare\"", "measure = \"guess\"", "guess"),
            ("at-least = 1", "at-least = 2, at-most = 1", "down to 1"),
            ("{ at-least = 1 }", "{}", "neither"),
            (
                "clients = 2, scale = 1 }, over",
                "clients = 2 }, over",
                "2 parts of stage",
            ),
            ("target = \"temp\"", "", "name a target"),
            (
                "target = \"temp\"",
                "target = \"--scratch=/x\"",
                "begins with a hyphen",
            ),
            (
                "clients = [1, 2]",
                "workload = \"--allow-shell\"",
                "workload `--allow-shell`",
            ),
            (
                "clients = [1, 2]",
                "workload = \"/tmp/x\"",
                "workload `/tmp/x`",
            ),
            ("name = \"b\"", "name = \"a\"", "two arms `a`"),
            ("kind = \"ratio\"", "kind = \"miracle\"", "miracle"),
            (
                "arm = \"b\"",
                "arm = \"b\", quantity = \"luck\"",
                "`luck` is not a metric",
            ),
            (
                "arm = \"b\"",
                "arm = \"b\", quantity = \"query-cpu\"",
                "needs a way",
            ),
        ] {
            let said = wrong(from, to);
            assert!(said.contains(says), "{from} -> {to}: {said}");
        }
        assert!(parse("name = ").unwrap_err().contains("line 1"));
        assert!(
            parse(&"#".repeat(LARGEST + 1))
                .unwrap_err()
                .contains("bytes")
        );
    }
}
