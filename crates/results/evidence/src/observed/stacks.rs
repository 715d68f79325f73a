//! Recorded call chains with their names, as a profile.

use pgassay_model::observed::stacks::{KERNEL, StackRecord, SymbolTable};

use pgassay_readings::profile::{Frame, Profile, UNKNOWN, Unit};

/// The profile of several windows together: each chain weighs its samples, or of an event other than the
/// clock its occurrences.
pub fn profile<'r>(
    records: impl Iterator<Item = &'r StackRecord>,
    symbols: &SymbolTable,
) -> Option<Profile> {
    let mut profile = Profile::new(Unit::Samples);
    let mut lost = 0;
    for record in records {
        lost += record.lost;
        let frames: Vec<Frame> = record
            .frames
            .iter()
            .map(|(object, address)| name(record, symbols, *object, *address))
            .collect();
        let samples = record.seconds.iter().flatten();
        let samples = samples.map(|(chain, samples)| (*chain, f64::from(*samples)));
        let event_counts = record.event_counts.iter();
        let event_counts = event_counts.map(|(chain, count)| (*chain, *count as f64));
        let weights: Vec<(u32, f64)> = match record.event_counts.is_empty() {
            true => samples.collect(),
            false => event_counts.collect(),
        };
        for (chain, weight) in weights {
            let Some(chain) = record.chains.get(chain as usize) else {
                continue;
            };
            let named = chain
                .iter()
                .rev()
                .filter_map(|f| frames.get(*f as usize).cloned());
            profile.add(named, weight);
        }
    }
    if lost > 0 {
        profile.remark(&format!("the kernel had no room for {lost} samples"));
    }
    (profile.total > 0.0).then_some(profile)
}

fn name(record: &StackRecord, symbols: &SymbolTable, object: u32, address: u64) -> Frame {
    let key = record
        .objects
        .get(object as usize)
        .map_or("", String::as_str);
    let known = symbols.objects.get(key);
    let path = match (key, known) {
        (KERNEL, _) => KERNEL,
        (_, Some(object)) => object.path.as_str(),
        (key, None) => key,
    };
    match known.and_then(|object| object.find(address)) {
        Some((_, _, name)) if !name.is_empty() => Frame::new(name, path),
        // Bounds without a name still tell one function from another.
        Some((start, _, _)) => Frame {
            symbol: format!("function at {start:#x}"),
            ..Frame::new(UNKNOWN, path)
        },
        None => Frame::new(UNKNOWN, path),
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::stacks::KERNEL;
    use pgassay_model::observed::stacks::ObjectSymbols;

    use super::*;

    #[test]
    fn addresses_get_the_names_of_their_functions() {
        let record = StackRecord {
            frequency_hz: 99,
            objects: vec!["abcd".into(), KERNEL.into(), "/lib/x.so".into()],
            frames: vec![(0, 0x105), (0, 0x200), (1, 7), (2, 5), (9, 9)],
            chains: vec![vec![0, 1], vec![2, 1], vec![3], vec![4]],
            seconds: vec![vec![(0, 2)], vec![(1, 1), (2, 1), (3, 1), (88, 1)]],
            event_counts: Vec::new(),
            lost: 3,
            callers: "frame pointers".into(),
        };
        let mut symbols = SymbolTable::default();
        symbols.objects.insert(
            "abcd".into(),
            ObjectSymbols {
                path: "/usr/bin/postgres".into(),
                functions: vec![
                    (0x100, 0x110, "s_lock".into()),
                    (0x1f0, 0x210, String::new()),
                ],
            },
        );
        symbols.objects.insert(
            KERNEL.into(),
            ObjectSymbols {
                path: KERNEL.into(),
                functions: vec![(0, 10, "ep_poll".into())],
            },
        );
        let profile = profile([&record].into_iter(), &symbols).unwrap();
        assert_eq!(profile.total, 5.0);
        let folded = profile.folded();
        assert!(folded.contains("function at 0x1f0;s_lock 2\n"), "{folded}");
        assert!(folded.contains("function at 0x1f0;ep_poll 1\n"), "{folded}");
        assert!(profile.remarks[0].contains("3 samples"));
        assert!(profile.stacks().any(|(f, _)| f[0].object == "x.so"));
    }
}
