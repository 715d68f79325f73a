//! A batch script.

use super::{Files, Plan};
use crate::cli::deploy::SlurmArgs;

/// The script. Names in its directives are words without blanks or quotes; the plan's words stand quoted,
/// as parameters of a shell that takes them as they are.
pub(super) fn files(args: &SlurmArgs, plan: &Plan) -> Files {
    let mut directives = vec![
        format!("--job-name={}", args.plan.name),
        format!("--nodes={}", args.nodes),
        "--ntasks-per-node=1".to_owned(),
        "--exclusive".to_owned(),
        format!("--time={}", args.time),
        format!("--output={}-%j.log", args.plan.name),
        // A minute to end cleanly: every finished trial is kept.
        "--signal=TERM@60".to_owned(),
    ];
    let optional = [
        ("partition", &args.partition),
        ("constraint", &args.constraint),
        ("account", &args.account),
    ];
    for (name, value) in optional {
        directives.extend(value.as_ref().map(|value| format!("--{name}={value}")));
    }
    let directives: Vec<String> = directives.iter().map(|d| format!("#SBATCH {d}")).collect();
    let program = pgassay_text::shell_word(&args.program);
    let words: Vec<&str> = plan.words().collect();
    let words = pgassay_text::shell(&words);
    let then = match (plan.collects(), plan.names_an_output()) {
        (true, false) => "exec \"$program\" \"$@\" --output \"$place/facts.json\"",
        (true, true) => "exec \"$program\" \"$@\"",
        (false, _) => {
            "\"$program\" collect --host --output \"$place/facts.json\"\n    \
             exec \"$program\" --runs \"$place/runs\" \"$@\""
        }
    };
    let script = format!(
        "#!/bin/bash\n\
         # Written by `pgassay deploy slurm`; it is yours to change. Each node is measured by itself:\n\
         #\n\
         #   sbatch pgassay.sbatch\n\
         {directives}\n\
         set -euo pipefail\n\
         \n\
         # A directory that all nodes see: below the one from which the job was submitted.\n\
         results=${{PGASSAY_RESULTS:-${{SLURM_SUBMIT_DIR:-$PWD}}/{name}-${{SLURM_JOB_ID:-0}}}}\n\
         program={program}\n\
         mkdir -p \"$results\"\n\
         export results program\n\
         \n\
         # shellcheck disable=SC2016\n\
         srun --ntasks-per-node=1 --kill-on-bad-exit=0 bash -c '\n    \
             set -eu\n    \
             place=\"$results/$(hostname -s)\"\n    \
             mkdir -p \"$place/runs\"\n    \
             {then}\n\
         ' pgassay {words} || echo \"a node failed: see above\" >&2\n\
         \n\
         exec \"$program\" fleet \"$results\" --html \"$results/fleet.html\"\n",
        name = args.plan.name,
        directives = directives.join("\n"),
    );
    Files {
        shown: 0,
        files: vec![("pgassay.sbatch", script)],
        next: |dir| vec![format!("sbatch {dir}/pgassay.sbatch")],
    }
}
