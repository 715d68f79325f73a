//! Which compiler flags for a CPU, why, and what not to use.

use pgassay_inspect::recommend::{Avoid, Choice, Recommended};

use crate::Report;
use crate::document::{Block, Depth, Document, Fact, Section};

impl Report for Recommended {
    fn document(&self) -> Document {
        let recommendation = &self.recommendation;
        let section = |id, title, blocks| Section {
            id,
            title,
            depth: Depth::Titled,
            blocks,
        };
        let choices = recommendation.choices.iter().flat_map(choice);
        let avoid = recommendation.avoid.iter().flat_map(avoid);
        Document {
            title: format!(
                "For {} ({}) with {}",
                recommendation.cpu, recommendation.products, recommendation.compiler
            ),
            provenance: format!("Recommended by pgassay {}", env!("CARGO_PKG_VERSION")),
            alarms: Vec::new(),
            headline: Vec::new(),
            sections: vec![
                section("choices", "What to use", choices.collect()),
                section("avoid", "What not to use", avoid.collect()),
            ],
            notes: Vec::new(),
            ..Document::default()
        }
    }
}

fn choice(choice: &Choice) -> [Block; 2] {
    let flags = match choice.flags.as_slice() {
        [] => "no flag of its own".to_owned(),
        flags => flags.join(" "),
    };
    let mut facts = vec![
        Fact::new("when", &choice.when),
        Fact::new("why", &choice.why),
    ];
    facts.extend(choice.sources.iter().map(|s| Fact::new("source", s)));
    [Block::Heading(flags), Block::Facts(facts)]
}

fn avoid(avoid: &Avoid) -> [Block; 2] {
    let facts = vec![
        Fact::new("why", &avoid.why),
        Fact::new("source", &avoid.source),
    ];
    [Block::Heading(avoid.what.clone()), Block::Facts(facts)]
}
