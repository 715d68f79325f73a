//! Who has which of a load's clients.

use pgassay_load::{Schedule, Share, own_before};

/// Each machine's clients: as many as any other has, and where that can't be one more on the first ones. With
/// `threads` on each, as far as it has clients.
pub(super) fn shares(clients: u32, machines: usize, threads: u32) -> Vec<(Share, u32)> {
    let machines = u32::try_from(machines).unwrap_or(u32::MAX).max(1);
    let (each, more) = (clients / machines, clients % machines);
    let mut first_client = 0;
    let mut first_thread = 0;
    let share = |machine: u32| {
        let own = each + u32::from(machine < more);
        let share = Share {
            first_client,
            clients,
            first_thread,
        };
        first_client += own;
        first_thread += threads.clamp(1, own.max(1)).min(own);
        (share, own)
    };
    (0..machines).map(share).collect()
}

/// The part of a schedule that falls to `own` clients of all, of whom `apart` keep to none.
pub(super) fn part(schedule: Schedule, whole: &Share, own: u32, apart: u32) -> Schedule {
    // Those that keep to it, here and of the first so many.
    let apart = apart.min(whole.clients);
    let keeping = |first: u32| first - own_before(first, apart, whole.clients);
    let share = Share {
        first_client: keeping(whole.first_client),
        clients: keeping(whole.clients),
        ..*whole
    };
    let own = keeping(whole.first_client + own) - share.first_client;
    let all = share.clients.max(1);
    match schedule {
        Schedule::Closed => Schedule::Closed,
        Schedule::Paced { per_second, gaps } => Schedule::Paced {
            per_second: per_second * f64::from(own) / f64::from(all),
            gaps,
        },
        Schedule::Ramp {
            from,
            to,
            after,
            over,
        } => Schedule::Ramp {
            from: from * f64::from(own) / f64::from(all),
            to: to * f64::from(own) / f64::from(all),
            after,
            over,
        },
        Schedule::Burst { size, every } => {
            let upto = |client: u32| u64::from(size) * u64::from(client) / u64::from(all);
            let size = upto(share.first_client + own) - upto(share.first_client);
            Schedule::Burst {
                size: u32::try_from(size).unwrap_or(u32::MAX),
                every,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pgassay_load::Gaps;

    use super::*;

    #[test]
    fn every_client_is_somewhere_once_and_shares_differ_by_one_at_most() {
        for clients in [1, 2, 7, 64, 1000] {
            for machines in [1, 2, 3, 5, 100] {
                let shares = shares(clients, machines, 2);
                let mut next = 0;
                for (share, own) in &shares {
                    assert_eq!((share.first_client, share.clients), (next, clients));
                    next += own;
                }
                assert_eq!(next, clients);
                let own = shares.iter().map(|(_, own)| *own);
                assert!(own.clone().max() <= own.min().map(|least| least + 1));
            }
        }
        let threads = |machines| {
            let shares = shares(5, machines, 2).into_iter();
            shares
                .map(|(share, _)| share.first_thread)
                .collect::<Vec<_>>()
        };
        assert_eq!(threads(3), [0, 2, 4]);
        assert_eq!(threads(7), [0, 1, 2, 3, 4, 5, 5]);
    }

    #[test]
    fn the_parts_of_a_schedule_are_the_whole() {
        let paced = Schedule::Paced {
            per_second: 900.0,
            gaps: Gaps::Exponential,
        };
        let burst = Schedule::Burst {
            size: 10,
            every: Duration::from_secs(1),
        };
        let ramp = Schedule::Ramp {
            from: 90.0,
            to: 900.0,
            after: Duration::from_secs(1),
            over: Duration::from_secs(5),
        };
        for apart in [0, 1, 3, 6] {
            let shares = shares(7, 3, 1);
            let mut ends = (0.0, 0.0);
            let mut rate = 0.0;
            let mut bursts = 0;
            for (share, own) in &shares {
                match part(paced, share, *own, apart) {
                    Schedule::Paced { per_second, .. } => rate += per_second,
                    other => panic!("{other:?}"),
                }
                match part(ramp, share, *own, apart) {
                    Schedule::Ramp { from, to, .. } => ends = (ends.0 + from, ends.1 + to),
                    other => panic!("{other:?}"),
                }
                match part(burst, share, *own, apart) {
                    Schedule::Burst { size, .. } => bursts += size,
                    other => panic!("{other:?}"),
                }
                assert_eq!(part(Schedule::Closed, share, *own, apart), Schedule::Closed);
            }
            assert!((rate - 900.0).abs() < 1e-6);
            assert!((ends.0 - 90.0).abs() < 1e-6 && (ends.1 - 900.0).abs() < 1e-6);
            assert_eq!(bursts, 10);
        }
    }
}
