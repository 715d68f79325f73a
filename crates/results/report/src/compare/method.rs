//! How it was compared, enough to do it again.

use crate::sections::{has_seed, method};
use pgassay_analysis::compare::Compare;

use crate::document::{Block, Depth, Fact, Section};
use crate::{number, plain};

/// The plan and the commands.
pub fn section(compare: &Compare) -> Section {
    let (plan, run) = (&compare.analysis.main().plan, &compare.analysis.run);
    let mut facts = vec![
        Fact::new("workload", &plan.workload.name),
        method::scale(&plan.workload),
        Fact::new("protocol", &plan.workload.protocol),
        Fact::new("slice", number::duration(plan.window_ms as f64 / 1e3)).remark(format!(
            "counted, after {} that is not",
            number::duration(plan.warmup_ms as f64 / 1e3)
        )),
        Fact::new("seed", plan.seed.to_string()).remark("of the order and of the clients' keys"),
    ];
    facts.extend(method::load_from(run));
    if let Some(comparison) = &compare.plan {
        for (arm, typed) in compare.analysis.arms.iter().zip(&comparison.typed) {
            let mut value = typed.target.clone();
            for setting in &typed.settings {
                value.push_str(&format!(" {setting}"));
            }
            facts.push(Fact::new(arm.label.clone(), value).remark("as typed"));
        }
        facts.push(Fact::new("launches", comparison.launches.to_string()));
        facts.push(
            Fact::new("noise pairs", comparison.noise_rounds.to_string()).remark(match comparison
                .noise_each_launch
            {
                true => "of equal servers, at each client count and launch, before the others",
                false => "of equal servers, at each client count, before all others",
            }),
        );
        if comparison.places > 1 {
            facts.push(
                Fact::new("combinations", comparison.places.to_string()).remark(
                    "of what was varied beside clients, a server of each target at each; the noise floor is the first one's",
                ),
            );
        }
        let pairs = comparison.pairs.unwrap_or(comparison.most_pairs);
        facts.push(Fact::new("pairs", number::count(u64::from(pairs))).remark(
            match comparison.looks.is_empty() {
                true => "at each client count and launch, decided before the first".to_owned(),
                false => format!("at most; looks planned after {:?} pairs", comparison.looks),
            },
        ));
        facts.push(
            Fact::new("the idle servers", "up, their connections open and silent")
                .remark("one is loaded at a time; the order within each pair was drawn"),
        );
    }
    facts.extend(
        run.elapsed_seconds
            .map(|s| Fact::new("duration", number::duration(s)).remark("of the whole command")),
    );
    let mut again = run.command_line.clone();
    if compare.plan.is_some() && !has_seed(&again) {
        again.extend(["--seed".to_owned(), plan.seed.to_string()]);
    }
    let report = ["pgassay", "report", &run.id, "--json"].map(str::to_owned);
    Section {
        id: "method",
        title: "How it was compared",
        depth: Depth::Evidence,
        blocks: vec![
            Block::Facts(facts),
            Block::Text("To measure again, and to render this in another form:".to_owned()),
            Block::Commands(vec![plain::shell(&again), plain::shell(&report)]),
        ],
    }
}
