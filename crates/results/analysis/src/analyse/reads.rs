//! Where the bytes came from: what lies under the data directory, and what of it can't be seen.

use pgassay_model::trial::Trial;
use pgassay_readings::samples;

use crate::measured::ReadsAnalysis;
use crate::storage::{Seen, figures};
use crate::trial_view::Server;

/// What the figures of a server's reads under one load rest on; none where nothing is known of its
/// storage. The figures themselves are metrics of the points.
pub fn analyse(trials: &[&Trial], server: Server) -> Option<ReadsAnalysis> {
    let storage = server.storage?;
    let block_size = server.block_size;
    let mut unseen: Vec<String> = Vec::new();
    for trial in trials {
        let read = figures(&samples::of_trial(trial), Some(storage), block_size);
        for why in [
            reason(&read.device).map(|why| format!("device reads: {why}")),
            reason(&read.processes_bytes)
                .map(|why| format!("reads of the server's processes: {why}")),
        ]
        .into_iter()
        .flatten()
        {
            if !unseen.contains(&why) {
                unseen.push(why);
            }
        }
    }
    if let Some(why) = storage
        .hidden
        .as_ref()
        .filter(|why| !unseen.iter().any(|u| u.contains(*why)))
    {
        unseen.push(format!("device reads: {why}"));
    }
    Some(ReadsAnalysis {
        storage: storage.clone(),
        block_size_bytes: block_size,
        unseen,
    })
}

fn reason<T>(seen: &Seen<T>) -> Option<&String> {
    match seen {
        Seen::Seen(_) => None,
        Seen::Unavailable(why) => Some(why),
    }
}
