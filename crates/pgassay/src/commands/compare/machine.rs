//! What the machine did to the comparison: throttling, battery.

use std::fs;
use std::path::Path;

use pgassay_model::warning::Warning;
use pgassay_observe::cgroup;

/// Where the kernel lists mains and batteries.
const SUPPLIES: &str = "/sys/class/power_supply";

/// Counters of throttling, and what fed the machine, when the comparison began.
#[derive(Debug)]
pub struct Watch {
    quota_us: Option<u64>,
    thermal: u64,
    battery: bool,
}

impl Watch {
    /// Reads the counters.
    pub fn begin() -> Self {
        Self {
            quota_us: cgroup::throttled_us(),
            thermal: thermal_throttles(),
            battery: on_battery(Path::new(SUPPLIES)),
        }
    }

    /// Whether the machine ran on its battery when the comparison began.
    pub fn on_battery(&self) -> bool {
        self.battery
    }

    /// What happened since, as warnings; `seconds` is how long that was.
    pub fn end(&self, seconds: f64) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let quota = cgroup::throttled_us().zip(self.quota_us);
        let stopped = quota.map_or(0.0, |(now, then)| now.saturating_sub(then) as f64 / 1e6);
        if stopped > 0.005 * seconds {
            warnings.push(
                Warning::new(
                    "throttled",
                    format!(
                        "The control group's CPU quota held processes back for {stopped:.1} s \
                         while this was measured: the quota was compared, not the servers."
                    ),
                )
                .with_remedy("raise cpu.max of the container or slice"),
            );
        }
        let hot = thermal_throttles().saturating_sub(self.thermal);
        if hot > 0 {
            warnings.push(
                Warning::new(
                    "throttled",
                    format!("The processor slowed itself down {hot} times because of its heat."),
                )
                .with_remedy("cool the machine, or fix a lower frequency"),
            );
        }
        if self.battery || on_battery(Path::new(SUPPLIES)) {
            warnings.push(
                Warning::new(
                    "on-battery",
                    "The machine ran on its battery: its processor's speed is saved on.",
                )
                .with_remedy("plug it in and measure again"),
            );
        }
        warnings
    }
}

/// Times that cores slowed down for heat (x86: Linux, thermal_throttle).
fn thermal_throttles() -> u64 {
    let Ok(cpus) = fs::read_dir("/sys/devices/system/cpu") else {
        return 0;
    };
    cpus.flatten()
        .filter_map(|cpu| {
            let path = cpu.path().join("thermal_throttle/core_throttle_count");
            fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        })
        .sum()
}

/// Whether a battery of the machine is being emptied. One in a mouse or a pen is no
/// concern: its scope is `Device` (Linux, drivers/power/supply/power_supply_sysfs.c).
fn on_battery(supplies: &Path) -> bool {
    let Ok(supplies) = fs::read_dir(supplies) else {
        return false;
    };
    supplies.flatten().any(|supply| {
        let read = |name: &str| fs::read_to_string(supply.path().join(name)).unwrap_or_default();
        read("type").trim() == "Battery"
            && read("scope").trim() != "Device"
            && read("status").trim() == "Discharging"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_battery_that_feeds_the_machine_counts() {
        let dir = std::env::temp_dir().join(format!("pgassay-supplies-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        let supply = |name: &str, files: &[(&str, &str)]| {
            fs::create_dir_all(dir.join(name)).unwrap();
            for (file, text) in files {
                fs::write(dir.join(name).join(file), format!("{text}\n")).unwrap();
            }
        };
        assert!(!on_battery(&dir));
        supply("AC", &[("type", "Mains"), ("online", "0")]);
        supply(
            "hidpp_battery_0",
            &[
                ("type", "Battery"),
                ("scope", "Device"),
                ("status", "Discharging"),
            ],
        );
        supply("BAT0", &[("type", "Battery"), ("status", "Charging")]);
        assert!(!on_battery(&dir));
        supply("BAT0", &[("status", "Discharging")]);
        assert!(on_battery(&dir));
        fs::remove_dir_all(&dir).unwrap();
    }
}
