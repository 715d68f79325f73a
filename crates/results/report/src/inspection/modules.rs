//! What the modules of a server need of the processor.

use pgassay_inspect::modules::{Choice, Module};

use super::table;
use crate::document::Block;
use crate::number;

/// Modules named in a sentence.
const NAMED: usize = 3;

/// That modules need what this machine lacks, or need something of every machine.
pub fn sentence(modules: &[Module]) -> Option<String> {
    let ends = |module: &&Module| !module.lacking.is_empty();
    let lacking: Vec<&Module> = modules.iter().filter(ends).collect();
    if !lacking.is_empty() {
        let features: Vec<&str> = lacking
            .iter()
            .flat_map(|module| module.lacking.iter().map(String::as_str))
            .collect();
        return Some(format!(
            "{} can end the server with SIGILL on this machine, which lacks {}.",
            named(&lacking),
            features.join(", ")
        ));
    }
    let unconditional: Vec<&Module> = modules
        .iter()
        .filter(|module| module.choice == Choice::Unconditional)
        .collect();
    if unconditional.is_empty() {
        return None;
    }
    let needs = if unconditional.len() == 1 {
        "needs"
    } else {
        "need"
    };
    Some(format!(
        "{} {needs} more than the architecture's baseline without a check.",
        named(&unconditional)
    ))
}

fn named(modules: &[&Module]) -> String {
    let names: Vec<&str> = modules.iter().take(NAMED).map(|m| m.name()).collect();
    match modules.len().checked_sub(NAMED).filter(|n| *n > 0) {
        Some(more) => format!("{} and {more} more", names.join(", ")),
        None => names.join(", "),
    }
}

/// The modules that use extensions, and how many do not.
pub fn blocks(modules: &[Module]) -> Vec<Block> {
    if modules.is_empty() {
        return Vec::new();
    }
    let using: Vec<&Module> = modules.iter().filter(|m| !m.uses.is_empty()).collect();
    if using.is_empty() {
        let all = number::counted(modules.len() as u64, "module");
        return vec![Block::Text(format!(
            "{all} of the library directory: none uses more than the architecture's baseline."
        ))];
    }
    let rows = using.iter().map(|module| {
        let uses: Vec<String> = module
            .uses
            .iter()
            .map(|one| {
                format!(
                    "{} in {}",
                    one.extension,
                    number::counted(one.functions, "function")
                )
            })
            .collect();
        let how = match module.choice {
            Choice::RunTime => "at run time",
            Choice::Unconditional => "not chosen",
            Choice::Unclear => "not known",
        };
        vec![
            module.name().to_owned(),
            uses.join(", "),
            how.to_owned(),
            module.evidence.join(", "),
            module.lacking.join(", "),
        ]
    });
    let rest = modules.len() - using.len();
    let caption = format!(
        "What they use beyond the architecture's baseline; {} nothing.",
        match rest {
            1 => "1 more uses".to_owned(),
            n => format!("{n} more use"),
        }
    );
    let columns = ["module", "uses", "chosen", "by", "lacking here"];
    vec![table(caption, &columns, rows.collect())]
}
