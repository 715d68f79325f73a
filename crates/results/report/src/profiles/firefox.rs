//! The processed profile format of the Firefox Profiler, <https://profiler.firefox.com>: a thread
//! for each profile.

use std::collections::HashMap;
use std::time::SystemTime;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile,
    SamplingInterval, StringHandle, Timestamp, WeightType,
};
use pgassay_analysis::profile::Class;
use pgassay_analysis::profile::tree::CallTree;

/// Samples of a run are folded by call chain, so they have no times: they are laid out one after
/// the other, this many milliseconds each.
const APART_MS: f64 = 1.0;

/// The profiles as a file for the Firefox Profiler. Weights that are no whole numbers, per cent of
/// a listing, count in hundredths.
pub fn firefox(tree: &CallTree, name: &str) -> String {
    let interval = SamplingInterval::from_millis(APART_MS as u64);
    let mut profile = Profile::new(name, SystemTime::UNIX_EPOCH.into(), interval);
    profile.set_symbolicated(true);
    let categories: HashMap<Class, CategoryHandle> = tree
        .classes()
        .into_iter()
        .map(|class| (class, profile.add_category(class.title(), colour(class))))
        .collect();
    let names: Vec<StringHandle> = tree
        .functions
        .iter()
        .map(|function| profile.intern_string(&function.frame.symbol))
        .collect();
    let whole = |weight: &f64| weight.fract() == 0.0;
    let weights = || tree.views.iter().flat_map(|view| &view.own);
    let factor = match weights().all(|(_, weight)| whole(weight)) {
        true => 1.0,
        false => 100.0,
    };
    let begin = Timestamp::from_millis_since_reference(0.0);
    for (id, view) in (1u32..).zip(&tree.views) {
        let process = profile.add_process(&view.name(), id, begin);
        let thread = profile.add_thread(process, id, begin, true);
        profile.set_thread_name(thread, &view.name());
        profile.set_thread_samples_weight_type(thread, WeightType::Samples);
        let mut at = 0.0;
        for (node, weight) in &view.own {
            let frames = tree.chain(*node).into_iter().map(|index| FrameInfo {
                frame: Frame::Label(names[index as usize]),
                category_pair: categories[&tree.functions[index as usize].class].into(),
                flags: FrameFlags::empty(),
            });
            let stack = profile.intern_stack_frames(thread, frames);
            let time = Timestamp::from_millis_since_reference(at);
            let count = (weight * factor).round();
            profile.add_sample(thread, time, stack, CpuDelta::ZERO, count as i32);
            at += count * APART_MS;
        }
        profile.set_thread_end_time(thread, Timestamp::from_millis_since_reference(at));
    }
    crate::compact(&profile)
}

/// The colour of what samples were spent on, as in our flame graphs.
fn colour(class: Class) -> CategoryColor {
    match super::family(class) {
        "look-0" => CategoryColor::Blue,
        "look-1" => CategoryColor::Orange,
        "look-2" => CategoryColor::Green,
        "look-3" => CategoryColor::Purple,
        _ => CategoryColor::Gray,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::tests::hostile;

    #[test]
    fn all_samples_are_in_it_thread_by_thread() {
        let file: serde_json::Value = serde_json::from_str(&firefox(&hostile(), "a run")).unwrap();
        // Viewers bring profiles of this version up to theirs.
        assert_eq!(file["meta"]["preprocessedProfileVersion"], 55);
        assert_eq!(file["meta"]["product"], "a run");
        let threads = file["threads"].as_array().unwrap();
        let names: Vec<&str> = threads
            .iter()
            .map(|t| t["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["select-only, 1 client", "select-only, 8 clients"]);
        for (thread, total) in threads.iter().zip([5, 7]) {
            let weights = thread["samples"]["weight"].as_array().unwrap();
            let sum: i64 = weights.iter().map(|w| w.as_i64().unwrap()).sum();
            assert_eq!(sum, total);
            // Every column of a table is as long as it says.
            for table in ["frameTable", "funcTable", "stackTable", "samples"] {
                let length = thread[table]["length"].as_u64().unwrap() as usize;
                for (name, column) in thread[table].as_object().unwrap() {
                    let length_of = column.as_array().map_or(length, Vec::len);
                    assert_eq!(length_of, length, "{table}.{name}");
                }
            }
            let strings = thread["stringArray"].as_array().unwrap();
            assert!(strings.iter().any(|s| s == "</script><b>\"evil\\"));
        }
    }
}
