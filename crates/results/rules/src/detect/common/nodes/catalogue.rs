//! Questions to the catalogues, what tables and keys look like, that a client sends with each request.

use crate::detect::common::hits::{Hit, Named, Part, asks_catalogues, joined, weighty};
use crate::detect::common::nodes::NODE;
use crate::detect::common::shapes::advice;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::Confidence;

/// All such statements, as one finding.
pub fn asked(evidence: &Evidence, run: &RunEvidence) -> Option<Named> {
    let hits = weighty(run)
        .filter(|statement| asks_catalogues(statement))
        .map(|statement| Hit {
            statement,
            // Asked once, they are gone with their messages and their plans.
            part: Part::of_text(evidence, statement),
            left: None,
            saw: "The load asks the catalogues again and again what tables and their columns or keys look like (information_schema, pg_catalog), as object mappers and drivers do \
                  that keep no metadata."
                .to_owned(),
            confidence: Confidence::High,
            evidence: Vec::new(),
            steps: vec![
                advice(
                    "ask for what tables look like once, at the start, and keep the answer: switch the object mapper's or driver's cache of metadata on (schema validation and reflection off outside of \
                     start-up); drop these statements from the requests",
                ),
                advice(
                    "where it must be asked for, ask pg_catalog by the table's number: pg_attribute WHERE attrelid = 'table'::regclass, pg_constraint WHERE conrelid = \
                     'table'::regclass AND contype = 'p': the views of information_schema join many tables and check privileges for each row, and compare names that are cast, which no \
                     index serves",
                ),
            ],
        })
        .collect();
    Some(Named {
        entry: NODE,
        subject: Some("catalogues-asked".to_owned()),
        title: "Questions to the catalogues with each request".to_owned(),
        seen: joined(run, hits)?,
    })
}
