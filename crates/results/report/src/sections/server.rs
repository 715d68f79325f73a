//! The server: what it says of itself, and its settings.

use pgassay_analysis::Analysis;
use pgassay_analysis::measured::ArmAnalysis;
use pgassay_model::server::Origin;

use crate::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::number;

/// Each server in turn.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let mut blocks = Vec::new();
    for arm in &analysis.arms {
        if analysis.arms.len() > 1 {
            blocks.push(Block::Heading(arm.label.clone()));
        }
        blocks.push(Block::Facts(facts(arm)));
        blocks.extend(settings(arm).map(Block::Table));
    }
    (!blocks.is_empty()).then_some(Section {
        id: "server",
        title: "The server",
        depth: Depth::Evidence,
        blocks,
    })
}

fn facts(arm: &ArmAnalysis) -> Vec<Fact> {
    let mut facts = vec![
        Fact::new("target", &arm.target).remark(match arm.typed.as_str() {
            // Nothing was, or an old run does not say so.
            "" => "",
            _ => "as typed",
        }),
    ];
    match &arm.server {
        None => facts.push(Fact::new("server", "nothing was read of it")),
        Some(server) => {
            facts.push(Fact::new("version", &server.version));
            facts.push(Fact::new("executable", &server.executable));
            facts.push(match &server.origin {
                Origin::Launched {
                    bin_dir,
                    stand_in,
                    prepared,
                } => {
                    let remark = match (stand_in, prepared) {
                        (true, _) => "an archive that stands in: not the build you run",
                        (false, true) => {
                            "a throw-away cluster, its data directory copied from a prepared one, removed afterwards"
                        }
                        (false, false) => "a throw-away cluster, removed afterwards",
                    };
                    Fact::new("launched from", bin_dir).remark(remark)
                }
                Origin::Running => Fact::new("origin", "a server that was running before"),
            });
        }
    }
    if let Some(check) = &arm.commit_check {
        facts.push(
            Fact::new(
                "transactions",
                format!(
                    "{} sent by pgassay, {} committed by the server's count",
                    number::count(check.client_transactions),
                    number::count(check.server_commits)
                ),
            )
            .remark("the server also counts set-up and samplers"),
        );
    }
    facts
}

fn settings(arm: &ArmAnalysis) -> Option<Table> {
    let settings = &arm.server.as_ref()?.settings;
    if settings.is_empty() {
        return None;
    }
    Some(Table {
        caption: "Settings in force that bear on the figures.".to_owned(),
        columns: vec![
            Column::words("setting", 0),
            Column::words("value", 0),
            Column::words("set by", 1),
        ],
        rows: settings
            .iter()
            .map(|s| {
                vec![
                    Cell::plain(&s.name),
                    Cell::plain(&s.value),
                    Cell::plain(&s.source),
                ]
            })
            .collect(),
        folded: false,
        marks: vec![],
    })
}
