//! Plans: those that are built in, and files.

use std::path::Path;

use anyhow::bail;
use pgassay_analysis::lab::{LabPlan, check, parse};
use pgassay_model::Failure;
use pgassay_sys::input;
use pgassay_text::suggestion::did_you_mean;

use crate::commands::recorded_lab::BUILT_IN_WORDS;
use std::io::Read as _;

/// The built-in labs: files of `labs/`.
const BUILT_IN: &[(&str, &str)] = &[
    ("arm-x86", include_str!("../../../../../labs/arm-x86.toml")),
    ("lse", include_str!("../../../../../labs/lse.toml")),
    (
        "oracle-arm",
        include_str!("../../../../../labs/oracle-arm.toml"),
    ),
    (
        "page-size",
        include_str!("../../../../../labs/page-size.toml"),
    ),
    (
        "placement",
        include_str!("../../../../../labs/placement.toml"),
    ),
    ("power8", include_str!("../../../../../labs/power8.toml")),
];

/// A plan and where it is from.
pub struct Named {
    /// The plan.
    pub plan: LabPlan,
    /// Its text.
    pub text: String,
    /// `built in`, or the file.
    pub from: String,
    /// The file; none of a built-in plan.
    pub file: Option<std::path::PathBuf>,
}

/// Every built-in plan.
///
/// # Errors
/// Where one is wrong, which a test rules out.
pub fn all() -> anyhow::Result<Vec<LabPlan>> {
    let each = BUILT_IN.iter();
    each.map(|(name, text)| Ok(named(name, text)?.plan))
        .collect()
}

fn named(name: &str, text: &str) -> anyhow::Result<Named> {
    let plan = parse(text).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    Ok(Named {
        plan,
        text: text.to_owned(),
        from: BUILT_IN_WORDS.to_owned(),
        file: None,
    })
}

/// The plan of that name, or in that file.
///
/// # Errors
/// Where there is none, or it is wrong.
pub fn find(given: &str) -> anyhow::Result<Named> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == given) {
        return named(name, text);
    }
    let known = || {
        let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        format!(
            "built in are {}; a plan's file ends in .toml",
            names.join(", ")
        )
    };
    if !given.ends_with(".toml") {
        bail!(
            Failure::usage(format!(
                "there is no lab `{given}`{}",
                did_you_mean(given, BUILT_IN.iter().map(|(name, _)| *name))
            ))
            .with_remedy(known())
        );
    }
    let path = Path::new(given);
    let mut text = String::new();
    // A device or a FIFO would be waited for; more than the largest plan is none.
    input::open(path)
        .and_then(|file| {
            file.take(check::LARGEST as u64 + 1)
                .read_to_string(&mut text)
        })
        .map_err(|error| {
            Failure::usage(format!("{given} can't be read: {error}")).with_remedy(known())
        })?;
    let plan = parse(&text).map_err(|why| {
        Failure::usage(format!("{given}: {why}"))
            .with_remedy("docs/labs.md describes plans, and pgassay lab power8 --show prints one")
    })?;
    Ok(Named {
        plan,
        text,
        from: given.to_owned(),
        file: Some(path.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_plans_are_right_and_named_as_their_files() {
        for ((name, _), plan) in BUILT_IN.iter().zip(all().unwrap()) {
            assert_eq!(*name, plan.name);
        }
    }
}
