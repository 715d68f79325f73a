//! Sessions queue for locks of a prepared transaction.

use crate::detect::locks::holders::is_prepared;
use crate::detect::locks::queue::{MOSTLY, Queue};
use crate::detect::prelude::*;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let part = queue.part(is_prepared);
    if part < MOSTLY {
        return None;
    }
    let saw = format!(
        "Sessions queue for locks of a prepared transaction: {}.",
        queue.takes(&run)
    );
    Some(
        queue
            .seen(evidence, &run, saw)
            .seen(format!("it held them in {} of what was seen", tenths(part)))
            .sql("SELECT gid, prepared, owner, database FROM pg_prepared_xacts ORDER BY prepared;")
            .advice("COMMIT PREPARED or ROLLBACK PREPARED it, in its database, as its owner"),
    )
}
