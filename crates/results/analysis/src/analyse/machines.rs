//! What is to be known of a figure whose load came from several machines.

use pgassay_model::machines::MachineRecord;
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;

use crate::measured::RoundTrip;
use crate::trial_view::TrialView;

/// Windows that lie further apart than this share of their length, in half of the trials, did not measure the same time.
const SKEW: f64 = 0.01;
/// A machine whose clients are further from the others' rate than this has a slower way, or is slower itself.
const RATE: f64 = 0.8;
/// Transactions of a machine below which its rate says nothing.
const FEWEST: u64 = 100;

/// Windows that did not begin together, machines that were late, shares that are not equal.
pub(super) fn warnings(trials: &[TrialView]) -> Vec<Warning> {
    let given: Vec<&[MachineRecord]> = trials
        .iter()
        .map(|trial| trial.record.machines.as_slice())
        .filter(|machines| !machines.is_empty())
        .collect();
    let found = [skew(&given), unequal(&given), slower(&given)];
    found.into_iter().flatten().collect()
}

/// The shortest round trip of each machine to the servers, in the order in which machines are named.
pub(super) fn round_trips<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<RoundTrip> {
    let mut found: Vec<RoundTrip> = Vec::new();
    for machine in trials.flat_map(|trial| &trial.machines) {
        let Some(ns) = machine.round_trip_ns else {
            continue;
        };
        let us = ns as f64 / 1e3;
        match found.iter_mut().find(|known| known.name == machine.name) {
            Some(known) => known.us = known.us.min(us),
            None => found.push(RoundTrip {
                name: machine.name.clone(),
                us,
            }),
        }
    }
    found
}

/// The name and the share of the busiest machine's busiest thread, where machines are named.
pub(super) fn busiest<'a>(trials: &'a [TrialView<'_>]) -> Option<&'a str> {
    let machines = trials.iter().flat_map(|trial| &trial.record.machines);
    let share = |machine: &&MachineRecord| machine.busiest_thread_share;
    let busiest = machines.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    Some(&busiest.name)
}

/// By how much the windows of a trial's machines began and ended apart, and by how much that may be wrong, in nanoseconds.
fn apart(machines: &[MachineRecord]) -> (u64, u64) {
    let span = |time: &dyn Fn(&MachineRecord) -> i64| {
        let times = || machines.iter().map(time);
        times()
            .max()
            .zip(times().min())
            .map_or(0, |(last, first)| last.abs_diff(first))
    };
    let begin = span(&|machine| machine.begin_ns);
    let end = span(&|machine| machine.begin_ns.saturating_add_unsigned(machine.window_ns));
    let error = machines.iter().map(|machine| machine.clock_error_ns).max();
    (begin.max(end), error.unwrap_or(0))
}

fn skew(given: &[&[MachineRecord]]) -> Option<Warning> {
    let share = |machines: &[MachineRecord]| {
        let window = machines.iter().map(|machine| machine.window_ns).max();
        apart(machines).0 as f64 / window.unwrap_or(0).max(1) as f64
    };
    let mut trials = given.to_vec();
    trials.sort_by(|a, b| share(a).total_cmp(&share(b)));
    // The figure is one over trials: a single one does not bend it.
    let usual = trials.get(trials.len() / 2)?;
    let worst = trials.last().filter(|_| share(usual) > SKEW)?;
    let (skew, error) = apart(worst);
    let last = worst.iter().max_by_key(|machine| machine.begin_ns)?;
    let bound = 100.0 * share(worst);
    Some(
        Warning::new(
            "load-skew",
            format!(
                "the windows of the machines that gave the load lay up to {:.1} ms apart (± {:.1} ms): where not \
                 all loaded the server, throughput may be wrong by up to {bound:.1} %; {} began last, {:.1} ms \
                 after it was to",
                skew as f64 / 1e6,
                error as f64 / 1e6,
                last.name,
                last.begin_ns as f64 / 1e6,
            ),
        )
        .with_remedy("take longer windows (--time), or a machine that is less busy"),
    )
}

/// Clients that do not divide: said where one machine has half as many again as another. One that has none
/// gives no load, and has no record.
fn unequal(given: &[&[MachineRecord]]) -> Option<Warning> {
    let machines = given.first()?;
    let clients = || machines.iter().map(|machine| machine.clients);
    let (most, least) = (clients().max()?, clients().min()?);
    if u64::from(most) * 2 < u64::from(least) * 3 {
        return None;
    }
    let each: Vec<String> = machines
        .iter()
        .map(|machine| format!("{} {}", machine.name, machine.clients))
        .collect();
    Some(
        Warning::new(
            "load-unequal",
            format!(
                "the machines had unequal shares of the clients: {}",
                each.join(", ")
            ),
        )
        .with_remedy("choose numbers of clients that are multiples of the number of machines"),
    )
}

/// Machines whose clients did much less than those of another in all trials together.
fn slower(given: &[&[MachineRecord]]) -> Option<Warning> {
    let first = given.first()?;
    let rate = |name: &str| {
        let of = |machines: &&[MachineRecord]| {
            machines
                .iter()
                .find(|machine| machine.name == name)
                .cloned()
        };
        let own: Vec<MachineRecord> = given.iter().filter_map(of).collect();
        let done: u64 = own.iter().map(|machine| machine.transactions).sum();
        let time: f64 = own
            .iter()
            .map(|machine| f64::from(machine.clients) * machine.window_ns as f64 / 1e9)
            .sum();
        (done >= FEWEST && time > 0.0).then(|| done as f64 / time)
    };
    let rates: Vec<(&str, f64)> = first
        .iter()
        .filter_map(|machine| Some((machine.name.as_str(), rate(&machine.name)?)))
        .collect();
    let slowest = rates.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let fastest = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (slowest.1 < RATE * fastest.1).then(|| {
        Warning::new(
            "load-machines-differ",
            format!(
                "a client on {} did {:.0} transactions a second, one on {} {:.0}: the machines, or their ways to \
                 the server, differ",
                slowest.0, slowest.1, fastest.0, fastest.1
            ),
        )
        .with_remedy("measure with each machine alone (--from), to see what it can do")
    })
}

#[cfg(test)]
mod tests {
    use pgassay_model::trial::Trial;

    use super::*;
    use crate::trial_view::Server;

    const SECOND: u64 = 1_000_000_000;

    fn machine(name: &str, clients: u32, begin_ns: i64, transactions: u64) -> MachineRecord {
        MachineRecord {
            name: name.to_owned(),
            clients,
            transactions,
            window_ns: SECOND,
            begin_ns,
            clock_error_ns: 200_000,
            busiest_thread_share: transactions as f64 / 1e6,
            ..MachineRecord::default()
        }
    }

    fn found(machines: Vec<MachineRecord>) -> Vec<(String, String)> {
        let trial = Trial {
            window_ns: SECOND,
            machines,
            ..Trial::default()
        };
        let views = [TrialView::of(&trial, Server::default())];
        let warnings = warnings(&views).into_iter();
        warnings.map(|warning| (warning.id, warning.text)).collect()
    }

    #[test]
    fn the_shortest_round_trip_of_each_machine_counts() {
        let far = |ns| {
            let near = machine("a", 1, 0, 1);
            let mut far = machine("b", 1, 0, 1);
            far.round_trip_ns = ns;
            Trial {
                machines: vec![near, far],
                ..Trial::default()
            }
        };
        let trials = [far(Some(250_000)), far(Some(210_000)), far(None)];
        let found = round_trips(trials.iter());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].us), ("b", 210.0));
    }

    #[test]
    fn windows_that_lie_apart_are_told_with_their_bound() {
        assert!(found(Vec::new()).is_empty());
        let even = vec![machine("a", 4, 0, 9_000), machine("b", 4, 3_000_000, 9_100)];
        assert!(found(even.clone()).is_empty());
        let mut late = even;
        late[1].begin_ns = 40_000_000;
        let told = found(late);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].0, "load-skew");
        for part in ["40.0 ms apart", "± 0.2 ms", "4.0 %", "b began last"] {
            assert!(told[0].1.contains(part), "{}", told[0].1);
        }
    }

    #[test]
    fn unequal_shares_and_slower_machines_are_named() {
        let shares = found(vec![machine("a", 2, 0, 2_000), machine("b", 1, 0, 1_000)]);
        assert_eq!(shares[0].0, "load-unequal");
        assert!(shares[0].1.contains("a 2, b 1"));
        assert_eq!(shares.len(), 1);
        assert!(found(vec![machine("a", 4, 0, 4_000), machine("b", 3, 0, 3_000)]).is_empty());
        let slow = found(vec![machine("a", 4, 0, 4_000), machine("b", 4, 0, 1_000)]);
        assert_eq!(slow[0].0, "load-machines-differ");
        assert!(slow[0].1.contains("on b did 250") && slow[0].1.contains("on a 1000"));
        // Too few to tell.
        assert!(found(vec![machine("a", 4, 0, 90), machine("b", 4, 0, 10)]).is_empty());
    }
}
