//! The file format of speedscope: <https://www.speedscope.app/file-format-schema.json>.

use pgassay_analysis::profile::tree::CallTree;
use serde::Serialize;

/// Names the format.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: String,
    active_profile_index: usize,
    shared: Shared<'a>,
    profiles: Vec<Sampled>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: f64,
    end_value: f64,
    /// Chains of indices of frames, outermost first.
    samples: Vec<Vec<u32>>,
    weights: Vec<f64>,
}

/// The profiles as a file for speedscope; the weight of a chain is its number of samples.
pub fn speedscope(tree: &CallTree, name: &str) -> String {
    let frames = tree.functions.iter().map(|function| Named {
        name: &function.frame.symbol,
        file: &function.frame.object,
    });
    let profiles = tree.views.iter().map(|view| Sampled {
        r#type: "sampled",
        name: view.name(),
        unit: "none",
        start_value: 0.0,
        end_value: view.total(),
        samples: view.own.iter().map(|(node, _)| tree.chain(*node)).collect(),
        weights: view.own.iter().map(|(_, weight)| *weight).collect(),
    });
    let file = File {
        schema: SCHEMA,
        name,
        exporter: format!("pgassay {}", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: Shared {
            frames: frames.collect(),
        },
        profiles: profiles.collect(),
    };
    crate::compact(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::tests::hostile;

    #[test]
    fn all_samples_are_in_it_by_name() {
        let text = speedscope(&hostile(), "a run");
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file["$schema"], SCHEMA);
        let frames = file["shared"]["frames"].as_array().unwrap();
        assert!(frames.iter().any(|f| f["name"] == "</script><b>\"evil\\"));
        let profiles = file["profiles"].as_array().unwrap();
        let names: Vec<&str> = profiles
            .iter()
            .map(|p| p["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["select-only, 1 client", "select-only, 8 clients"]);
        for (profile, total) in profiles.iter().zip([5.0, 7.0]) {
            let weights = profile["weights"].as_array().unwrap();
            let samples = profile["samples"].as_array().unwrap();
            assert_eq!(weights.len(), samples.len());
            let sum: f64 = weights.iter().map(|w| w.as_f64().unwrap()).sum();
            assert_eq!((sum, profile["endValue"].as_f64()), (total, Some(total)));
            for frame in samples.iter().flat_map(|s| s.as_array().unwrap()) {
                assert!((frame.as_u64().unwrap() as usize) < frames.len());
            }
        }
    }
}
