//! What the machine did to the comparison: throttling, battery.

use std::fs;

use pgassay_analysis::warning::Warning;

/// Counters of throttling when the comparison began.
#[derive(Debug)]
pub struct Watch {
    quota_us: Option<u64>,
    thermal: u64,
}

impl Watch {
    /// Reads the counters.
    pub fn begin() -> Self {
        Self {
            quota_us: quota_throttled_us(),
            thermal: thermal_throttles(),
        }
    }

    /// What happened since, as warnings; `seconds` is how long that was.
    pub fn end(&self, seconds: f64) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let quota = quota_throttled_us().zip(self.quota_us);
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
        if on_battery() {
            warnings.push(
                Warning::new(
                    "on-battery",
                    "The machine runs on its battery: its processor's speed is saved on.",
                )
                .with_remedy("plug it in and measure again"),
            );
        }
        warnings
    }
}

/// Time for which processes of our control group were kept from running by its
/// quota, or one above it, in microseconds (Linux, admin-guide/cgroup-v2.rst, cpu.stat).
fn quota_throttled_us() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut path = path.trim_end_matches('/');
    let mut most = None;
    loop {
        let stat = fs::read_to_string(format!("/sys/fs/cgroup{path}/cpu.stat"));
        let throttled = stat.ok().and_then(|stat| {
            let mut lines = stat.lines();
            lines.find_map(|l| l.strip_prefix("throttled_usec ")?.parse().ok())
        });
        most = most.max(throttled);
        match path.rfind('/') {
            Some(end) => path = &path[..end],
            None => return most,
        }
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

/// Whether a battery is being emptied.
fn on_battery() -> bool {
    let Ok(supplies) = fs::read_dir("/sys/class/power_supply") else {
        return false;
    };
    supplies.flatten().any(|supply| {
        let read = |name: &str| fs::read_to_string(supply.path().join(name)).unwrap_or_default();
        read("type").trim() == "Battery" && read("status").trim() == "Discharging"
    })
}
