//! What kind of volume the data lies on, where the model that the disk reports tells. The limits of such a volume are set
//! by its provider, and the kernel does not know them.

use std::collections::BTreeMap;

use pgassay_model::reading::Reading;
use pgassay_model::storage::{LayerKind, Storage};
use pgassay_model::warning::Warning;

/// A kind of volume.
struct Kind {
    /// The model as the device names itself, or how that begins.
    model: &'static str,
    /// What it is, in words.
    title: &'static str,
    /// Where the provider says so.
    source: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        model: "Amazon Elastic Block Store",
        title: "a volume of Amazon EBS",
        source: "Amazon EC2 User Guide, Amazon EBS and NVMe",
    },
    Kind {
        model: "MSFT NVMe Accelerator",
        title: "a remote disk of Azure",
        source: "Azure/azure-vm-utils, doc/disk-identification.md",
    },
    Kind {
        model: "nvme_card-pd",
        title: "a Persistent Disk or Hyperdisk of Google Compute Engine",
        source: "GoogleCloudPlatform/guest-configs, src/lib/udev/google_nvme_id",
    },
];

/// That the data lies on a volume whose limits were not named; none where they were, or nothing tells that it is one.
pub fn limits_unknown(
    host: &BTreeMap<String, Reading>,
    storage: Option<&Storage>,
) -> Option<Warning> {
    if storage.is_some_and(|storage| storage.volume.is_some()) {
        return None;
    }
    let text = |name: &str| Some(host.get(name)?.text()?.trim());
    let device = text("device of the data");
    let of_data = device.and_then(|name| {
        let model = text(&format!("/sys/block/{name}/device/model"))?;
        Some((name, model))
    });
    // Beneath what is put together of several.
    let layers = storage.into_iter().flat_map(|storage| &storage.layers);
    let disks = layers.filter(|layer| layer.kind == LayerKind::Disk);
    let disks = disks.map(|layer| (layer.name.as_str(), layer.title.trim()));
    let mut named = of_data.into_iter().chain(disks);
    let (name, kind) = named.find_map(|(name, model)| {
        let kind = KINDS.iter().find(|kind| model.starts_with(kind.model))?;
        Some((name, kind))
    })?;
    let warning = Warning::new(
        "volume-limits-unknown",
        format!(
            "The data lies on {name}, {} by its model, {} ({}). What it allows is set by the provider, and the kernel \
             does not tell it: no limit is held against what was read.",
            kind.title, kind.model, kind.source
        ),
    );
    Some(warning.with_remedy(
        "name its limits: --volume iops=…,mbps=…, of one with burst credits also base-iops and credits",
    ))
}

#[cfg(test)]
mod tests {
    use pgassay_model::storage::{Layer, VolumeLimits};

    use super::*;

    fn host(device: &str, model: &str) -> BTreeMap<String, Reading> {
        let texts = [
            ("device of the data".to_owned(), device),
            (format!("/sys/block/{device}/device/model"), model),
        ];
        let readings = texts.map(|(name, text)| (name, Reading::Text(text.to_owned())));
        readings.into_iter().collect()
    }

    #[test]
    fn a_providers_volume_is_known_by_its_model() {
        let says = |device, model, storage| {
            let warning = limits_unknown(&host(device, model), storage);
            warning.map(|warning| warning.text)
        };
        for (device, model, title) in [
            (
                "nvme1n1",
                "Amazon Elastic Block Store              \n",
                "Amazon EBS",
            ),
            (
                "nvme0n2",
                "MSFT NVMe Accelerator v1.0",
                "remote disk of Azure",
            ),
            ("nvme0n1", "nvme_card-pd", "Persistent Disk"),
        ] {
            let text = says(device, model, None).unwrap();
            assert!(text.contains(device) && text.contains(title), "{text}");
        }
        // A local disk of the same provider, and one of nobody's.
        for model in [
            "nvme_card",
            "nvme_card3",
            "Microsoft NVMe Direct Disk v2",
            "Samsung SSD 990",
            "",
        ] {
            assert_eq!(says("nvme0n1", model, None), None, "{model}");
        }
        let limits = Storage {
            volume: Some(VolumeLimits::default()),
            ..Storage::default()
        };
        assert_eq!(
            says("nvme1n1", "Amazon Elastic Block Store", Some(&limits)),
            None
        );
        // Beneath a logical volume.
        let stacked = Storage {
            layers: vec![Layer {
                name: "nvme2n1".to_owned(),
                kind: LayerKind::Disk,
                title: "Amazon Elastic Block Store".to_owned(),
                beneath: Vec::new(),
            }],
            ..Storage::default()
        };
        let text = says("dm-0", "", Some(&stacked)).unwrap();
        assert!(text.contains("nvme2n1"), "{text}");
    }
}
