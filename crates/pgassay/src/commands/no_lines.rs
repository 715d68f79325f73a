//! `pgassay lines` where instructions can't be stepped and decoded: the functions of `lines` that others call. What the
//! processor samples is named here, too.

use pgassay_lines::account::Account;
use pgassay_lines::walls::Processor;
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;
use pgassay_sys::stop::Stop;

use super::sampled;
use crate::cli::lines::LinesArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Shows samples, or says which processors counting is for.
///
/// # Errors
/// What kept it from sampling; always where nothing is to be sampled.
pub fn lines(args: &LinesArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    match sampled::Source::of(args)? {
        Some(source) if source.is_alone(args) => sampled::alone(args, source, terminal, stop),
        _ => Err(refused()),
    }
}

/// Says which processors counting is for.
///
/// # Errors
/// Always.
pub fn of_plan(_: &LinesArgs, _: WorkloadPlan, _: &mut Terminal, _: &Stop) -> anyhow::Result<Exit> {
    Err(refused())
}

/// Says the same.
///
/// # Errors
/// Always.
pub fn one(
    _: &LinesArgs,
    _: Option<&Processor>,
    _: &mut Terminal,
    _: &Stop,
) -> anyhow::Result<Account> {
    Err(refused())
}

fn refused() -> anyhow::Error {
    Failure::target("lines steps servers on x86-64, arm64 and ppc64le, and no others so far")
        .with_remedy(
            "run it on such a machine; or have this processor sample a running server: --sample SECONDS, without --load",
        )
        .into()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    type Lines = fn(&LinesArgs, &mut Terminal, &Stop) -> anyhow::Result<Exit>;
    type OfPlan = fn(&LinesArgs, WorkloadPlan, &mut Terminal, &Stop) -> anyhow::Result<Exit>;
    type One = fn(&LinesArgs, Option<&Processor>, &mut Terminal, &Stop) -> anyhow::Result<Account>;

    /// What one has and the other lacks shows on the other processor alone, as an error of the compiler.
    #[test]
    fn what_others_call_is_of_the_same_types_on_every_processor() {
        let lines: [Lines; 2] = [lines::lines, super::lines];
        let of_plan: [OfPlan; 2] = [lines::of_plan, super::of_plan];
        let one: [One; 2] = [lines::one, super::one];
        assert_eq!((lines.len(), of_plan.len(), one.len()), (2, 2, 2));
        // And nothing else of it is for others.
        let source = include_str!("lines/mod.rs");
        let public = source.lines().filter(|line| line.starts_with("pub fn "));
        assert_eq!(
            public.count(),
            3,
            "lines has a function that no_lines lacks"
        );
    }
}
