//! What rules of several files share.

pub mod conditions;
pub mod counts;
pub mod cpu_samples;
pub mod forms;
pub mod hits;
pub mod horizon;
pub mod message_log;
pub mod nodes;
pub mod scans;
pub mod sessions;
pub mod shapes;
pub mod statement_text;
pub mod wait_shares;
pub mod waiting;
