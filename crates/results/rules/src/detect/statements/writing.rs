//! Tables that a statement writes, and the CPU samples within such work.

use crate::evidence::Evidence;
use pgassay_evidence::profile::Work;
use pgassay_model::observed::plans::{Node, Operation, Plan, RelationFacts};

/// A table that a statement writes, with what the catalogues say of it.
pub fn written<'p>(
    plan: &'p Plan,
    operations: &[Operation],
) -> Option<(&'p Node, &'p str, &'p RelationFacts)> {
    plan.root.all().into_iter().find_map(|(_, node)| {
        let writes = |operation: &&Operation| operations.contains(operation);
        node.operation.as_ref().filter(writes)?;
        let name = node.relation.as_deref()?;
        Some((node, name, plan.relations.get(name)?))
    })
}

/// The share of the CPU samples within some work; none where no sample is.
pub fn within(evidence: &Evidence, work: Work) -> Option<f64> {
    evidence.profile?.within(work)
}
