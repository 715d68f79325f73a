//! Wait events: what sessions were seen waiting for, sampled over all of them.
//!
//! A session that is active and waits for nothing runs, or waits for a CPU. The
//! average number of sessions at a wait event is the event's count over the
//! samples: by Little's law the time spent there a second.

use std::collections::BTreeMap;

use pgassay_model::observed::waits::{WaitKey, WaitRecord};
use serde::{Deserialize, Serialize};

use pgassay_stats::share::{TOO_FEW, at_least};

/// What sessions were doing on average, over the trials of one point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitAnalysis {
    /// Looks at all sessions that it rests on.
    pub samples: u64,
    /// Samples a second that were reached.
    pub rate_hz: f64,
    /// Samples a second that were asked for, the fewest of all windows; 0 in older documents.
    #[serde(default)]
    pub asked_hz: f64,
    /// Client sessions in a statement, on average.
    pub active_sessions: f64,
    /// The part of them that ran or waited for a CPU: no wait event.
    pub running_sessions: f64,
    /// Client sessions outside a statement, on average, of which those in a transaction.
    pub idle_sessions: f64,
    /// Client sessions idle in a transaction.
    pub idle_in_transaction_sessions: f64,
    /// Client sessions whose state the server does not show to us.
    pub hidden_sessions: f64,
    /// Wait events of active client sessions, the most time first.
    pub events: Vec<WaitEvent>,
    /// The same of the server's other processes, those that wait in their main loop left out, and of
    /// sessions of other programs beside a load of ours.
    pub background: Vec<WaitEvent>,
}

/// One wait event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitEvent {
    /// Kind of process.
    pub backend: String,
    /// `wait_event_type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `wait_event`.
    pub event: String,
    /// Sessions there on average.
    pub sessions: f64,
}

impl WaitEvent {
    /// `LWLock:WALWrite`, as PostgreSQL's documentation writes it.
    pub fn name(&self) -> String {
        format!("{}:{}", self.kind, self.event)
    }
}

impl WaitAnalysis {
    /// Sessions at the events that `pick` picks, on average.
    pub fn at(&self, pick: impl Fn(&WaitEvent) -> bool) -> f64 {
        self.events
            .iter()
            .filter(|e| pick(e))
            .map(|e| e.sessions)
            .sum()
    }

    /// Share of the active sessions' time at those events, 0 to 1; 0 where none is active.
    pub fn share(&self, pick: impl Fn(&WaitEvent) -> bool) -> f64 {
        if self.active_sessions > 0.0 {
            self.at(pick) / self.active_sessions
        } else {
            0.0
        }
    }
}

impl WaitAnalysis {
    /// Whether the looks speak for at least this much of the active sessions' time, seen as
    /// this share of it: by the lower bound of the share, and ten sightings show nothing.
    /// Sessions of one look stand in one queue, so that for the bound they count together.
    pub fn shows(&self, share: f64, least: f64) -> bool {
        let samples = self.samples as f64;
        let sightings = share * self.active_sessions * samples;
        let looks = self.active_sessions.clamp(0.0, 1.0) * samples;
        sightings > TOO_FEW && at_least(share, looks.round() as u64) >= least
    }
}

/// Joins the records of several windows, the observed `seconds` in all.
pub fn analyse<'r>(
    records: impl Iterator<Item = &'r WaitRecord>,
    seconds: f64,
) -> Option<WaitAnalysis> {
    let mut totals: BTreeMap<&WaitKey, u64> = BTreeMap::new();
    let mut samples = 0;
    let mut asked_hz = f64::INFINITY;
    for record in records {
        samples += record.samples();
        asked_hz = asked_hz.min(record.rate_hz);
        for (key, count) in record.totals() {
            *totals.entry(key).or_default() += count;
        }
    }
    if samples == 0 {
        return None;
    }
    let average = |count: u64| count as f64 / samples as f64;
    let mut analysis = WaitAnalysis {
        samples,
        rate_hz: if seconds > 0.0 {
            samples as f64 / seconds
        } else {
            0.0
        },
        asked_hz,
        ..WaitAnalysis::default()
    };
    for (key, count) in totals {
        let sessions = average(count);
        let event = WaitEvent {
            backend: key.backend.clone(),
            kind: key.kind.clone(),
            event: key.event.clone(),
            sessions,
        };
        if !key.is_of_client() {
            // In its main loop a background process has nothing to do, nor has a session between statements.
            if key.kind != "Activity" && matches!(key.state.as_str(), "" | "active") {
                analysis.background.push(event);
            }
            continue;
        }
        match key.state.as_str() {
            "active" | "fastpath function call" => {
                analysis.active_sessions += sessions;
                if key.kind.is_empty() {
                    analysis.running_sessions += sessions;
                } else if let Some(known) = analysis
                    .events
                    .iter_mut()
                    .find(|e| e.kind == event.kind && e.event == event.event)
                {
                    known.sessions += sessions;
                } else {
                    analysis.events.push(event);
                }
            }
            "" | "disabled" => analysis.hidden_sessions += sessions,
            state => {
                analysis.idle_sessions += sessions;
                if state.starts_with("idle in transaction") {
                    analysis.idle_in_transaction_sessions += sessions;
                }
            }
        }
    }
    for events in [&mut analysis.events, &mut analysis.background] {
        events.sort_by(|a, b| b.sessions.total_cmp(&a.sessions));
    }
    Some(analysis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::observed::waits::CLIENT;
    use pgassay_model::observed::waits::WaitSecond;

    fn key(backend: &str, state: &str, kind: &str, event: &str) -> WaitKey {
        WaitKey {
            backend: backend.into(),
            state: state.into(),
            kind: kind.into(),
            event: event.into(),
        }
    }

    #[test]
    fn counts_become_sessions_on_average() {
        let mut record = WaitRecord::default();
        for second in 0..2 {
            for _ in 0..10 {
                record.add(
                    second,
                    [
                        (key(CLIENT, "active", "Lock", "tuple"), 3),
                        (key(CLIENT, "active", "", ""), 1),
                        (key(CLIENT, "idle", "Client", "ClientRead"), 2),
                        (
                            key(CLIENT, "idle in transaction", "Client", "ClientRead"),
                            1,
                        ),
                        (key("walwriter", "", "Activity", "WalWriterMain"), 1),
                        (key("checkpointer", "", "IO", "DataFileSync"), 1),
                    ],
                );
            }
        }
        assert_eq!(record.keys.len(), 6);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<WaitRecord>(&text).unwrap(), record);
        let waits = analyse([&record, &record].into_iter(), 4.0).unwrap();
        assert_eq!((waits.samples, waits.rate_hz), (40, 10.0));
        let asking = |rate_hz: f64| WaitRecord {
            rate_hz,
            ..record.clone()
        };
        let both = analyse([&asking(25.0), &asking(2.0)].into_iter(), 4.0).unwrap();
        assert_eq!(both.asked_hz, 2.0);
        assert_eq!((waits.active_sessions, waits.running_sessions), (4.0, 1.0));
        assert_eq!(
            (waits.idle_sessions, waits.idle_in_transaction_sessions),
            (3.0, 1.0)
        );
        assert_eq!(waits.events.len(), 1);
        assert_eq!(waits.events[0].name(), "Lock:tuple");
        assert_eq!(waits.share(|e| e.kind == "Lock"), 0.75);
        assert_eq!(waits.background.len(), 1);
        assert_eq!(analyse([].into_iter(), 1.0), None);
    }

    #[test]
    fn a_damaged_index_is_passed_over() {
        let record = WaitRecord {
            rate_hz: 20.0,
            keys: vec![],
            seconds: vec![WaitSecond {
                samples: 1,
                counts: vec![(7, 1)],
            }],
            shared_cpu: None,
        };
        assert_eq!(
            analyse([&record].into_iter(), 1.0).unwrap().active_sessions,
            0.0
        );
    }
}
