//! What the machine runs in, and on: hypervisor, container, distribution, disk.

use procfs_core::process::MountInfo;

use super::Texts;

/// Hypervisors by the signature in CPUID (Linux's arch/x86/kernel/cpu, and the
/// vendors' documents).
const BY_CPUID: &[(&str, &str)] = &[
    ("KVMKVMKVM", "kvm"),
    ("Linux KVM Hv", "kvm"),
    ("Microsoft Hv", "hyper-v"),
    ("VMwareVMware", "vmware"),
    ("XenVMMXenVMM", "xen"),
    ("TCGTCGTCGTCG", "qemu (emulated)"),
    ("bhyve bhyve", "bhyve"),
    ("prl hyperv", "parallels"),
    ("VBoxVBoxVBox", "virtualbox"),
    ("ACRNACRNACRN", "acrn"),
];

/// Virtual machines by words of the DMI's vendor or product.
const BY_DMI: &[(&str, &str)] = &[
    ("amazon ec2", "kvm (Amazon EC2)"),
    ("google", "kvm (Google Compute Engine)"),
    ("alibaba cloud", "kvm (Alibaba Cloud)"),
    ("openstack", "kvm (OpenStack)"),
    ("digitalocean", "kvm (DigitalOcean)"),
    ("hetzner", "kvm (Hetzner)"),
    ("qemu", "kvm or qemu"),
    ("kvm", "kvm"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("xen", "xen"),
    ("parallels", "parallels"),
    ("apple virtualization", "apple virtualization"),
    ("bhyve", "bhyve"),
];

/// The hypervisor's name; `none` where the processor or the machine's own
/// tables say that there is none.
pub(super) fn virtualisation(texts: Texts<'_>) -> Option<String> {
    let dmi = |file: &str| {
        texts
            .filled(&format!("/sys/class/dmi/id/{file}"))
            .unwrap_or_default()
    };
    let (vendor, product) = (dmi("sys_vendor"), dmi("product_name"));
    let machine = format!("{vendor} {product}").to_lowercase();
    // A cloud's whole machines have its name and no hypervisor: EC2's are
    // called `c7g.metal` and the like.
    let whole = product.contains(".metal");
    let by_machine = if machine.contains("microsoft") && machine.contains("virtual machine") {
        Some("hyper-v")
    } else {
        BY_DMI
            .iter()
            .find(|(word, _)| machine.contains(word))
            .map(|(_, name)| *name)
    };

    if let Some(signature) = texts.filled("cpuid hypervisor") {
        let by_cpuid = BY_CPUID.iter().find(|(known, _)| signature == *known);
        return Some(match (by_cpuid, by_machine) {
            // The cloud's name says more where both agree.
            (Some((_, name)), Some(machine)) if machine.starts_with(name) => machine.to_owned(),
            (Some((_, name)), _) => (*name).to_owned(),
            (None, _) => format!("unknown ({signature})"),
        });
    }
    if let Some(kind) = texts.filled("/sys/hypervisor/type") {
        return Some(kind.to_owned());
    }
    if let Some(flags) = texts.get("/proc/cpuinfo").and_then(flags_line) {
        // x86 says so itself, and the signature is missing only in old records.
        return Some(
            if flags.contains(&"hypervisor") {
                "unknown"
            } else {
                "none"
            }
            .to_owned(),
        );
    }
    if let Some(by_power) = power(texts) {
        return Some(by_power.to_owned());
    }
    if whole {
        return Some("none".into());
    }
    if let Some(name) = by_machine {
        return Some(name.to_owned());
    }
    let tree = texts
        .get("/proc/device-tree/compatible")
        .unwrap_or_default();
    if tree.lines().any(|line| line == "linux,dummy-virt") {
        return Some("kvm or qemu".into());
    }
    // A machine with tables of its own in which no hypervisor is named.
    let named = !vendor.is_empty() || texts.filled("/proc/device-tree/model").is_some();
    named.then(|| "none".into())
}

/// x86's flags.
fn flags_line(cpuinfo: &str) -> Option<Vec<&str>> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "flags").then(|| value.split_whitespace().collect())
    })
}

/// POWER names its platform at the end of /proc/cpuinfo: pSeries is always
/// above a hypervisor, PowerNV never.
fn power(texts: Texts<'_>) -> Option<&'static str> {
    let cpuinfo = texts.get("/proc/cpuinfo")?;
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    match field("platform")? {
        "pSeries" if field("machine").is_some_and(|machine| machine.contains("qemu")) => {
            Some("kvm or qemu")
        }
        "pSeries" => Some("powervm"),
        "PowerNV" => Some("none"),
        _ => None,
    }
}

/// The container's type, where there is a sign of one.
pub(super) fn container(texts: Texts<'_>) -> Option<String> {
    // Written by the container's manager (systemd's container interface).
    if let Some(kind) = texts.filled("/run/systemd/container") {
        return Some(kind.to_owned());
    }
    // Present, and mostly empty.
    if texts.get("/run/.containerenv").is_some() {
        return Some("podman".into());
    }
    let groups = texts.get("/proc/self/cgroup").unwrap_or_default();
    for (word, kind) in [
        ("kubepods", "kubernetes"),
        ("/docker", "docker"),
        ("/lxc", "lxc"),
        ("libpod", "podman"),
    ] {
        if groups.contains(word) {
            return Some(kind.into());
        }
    }
    texts.get("/.dockerenv").map(|_| "docker".into())
}

/// The distribution's own name for itself (os-release(5)).
pub(super) fn distribution(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        os_release.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key == name).then(|| value.trim_matches(['"', '\'']).to_owned())
        })
    };
    field("PRETTY_NAME")
        .or_else(|| field("NAME"))
        .filter(|name| !name.is_empty())
}

/// The file system of the data and the device under it.
pub(super) fn data_device(texts: Texts<'_>) -> Option<String> {
    let mount = MountInfo::from_line(texts.filled("mountinfo of the data")?).ok()?;
    Some(match texts.filled("device of the data") {
        Some(device) => format!("{} on {device}", mount.fs_type),
        None => match mount.mount_source.filter(|source| source != "none") {
            Some(source) => format!("{} on {source}", mount.fs_type),
            None => mount.fs_type,
        },
    })
}
