//! A live server under its own load, over a window.

use pgassay_analysis::profile::tree::CallTree;
use pgassay_analysis::watched::Watched;

use super::{diagnosis, observed, statements};
use crate::document::{Block, Depth, Document, Section};
use crate::{Report, number, profiles};

impl Report for Watched {
    fn document(&self) -> Document {
        let mut about = vec![format!("{:.0} s from {}", self.seconds, self.started)];
        about.extend(self.version.clone());
        about.push(format!("pgassay {}", env!("CARGO_PKG_VERSION")));
        let rate = self.transactions_per_second.map(|rate| {
            Block::Text(format!(
                "The database ended {} transactions a second.",
                number::short(rate)
            ))
        });
        let blocks = rate
            .into_iter()
            .chain(statements::statements(&self.observed))
            .chain(observed::of_server(
                &self.observed,
                &self.target,
                None,
                Some("0"),
            ));
        Document {
            title: format!("Watch of {}", self.target),
            provenance: about.join("; "),
            headline: diagnosis::headline(&self.diagnosis),
            sections: vec![
                diagnosis::findings(&self.diagnosis, |_| false),
                Section {
                    id: "observed",
                    title: "What sessions and CPUs did",
                    depth: Depth::Titled,
                    blocks: blocks.collect(),
                },
            ],
            profiles: self.profiles(),
            ..Document::default()
        }
    }

    fn profiles(&self) -> Option<CallTree> {
        profiles::of_server(&self.target, &self.observed)
    }
}
