//! WAL decoded many times over.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let decoders = number(&seen.row("decoders")?, "active").unwrap_or(0.0);
    let saw = format!("{decoders} logical replication slots are being read");
    if decoders < 3.0 {
        return passed(saw);
    }
    let many = match seen.cpus() {
        Ok(cpus) => decoders >= f64::from(cpus),
        Err(_) => decoders >= 8.0,
    };
    Observation::new(
        high_if(many),
        Confidence::Medium,
        format!("{saw}: for each a walsender, or the session that reads it, decodes all WAL, which takes CPU time from the load."),
    )
    .sql("SELECT slot_name, plugin, database, active_pid FROM pg_replication_slots WHERE slot_type = 'logical';")
    .advice("have one consumer read a slot and hand the changes on to the others (a message broker), with a publication of the tables that are needed; drop a slot (pg_drop_replication_slot) only when its consumer reads another way; or decode on a standby (from 16 on)")
    .found()
}
