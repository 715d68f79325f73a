//! The control group is throttled.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let mut worst: Option<(u64, u64)> = None;
    for (_, text) in seen.texts("/sys/fs/cgroup", "/cpu.stat")? {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(' ')?;
                (key == name).then(|| value.trim().parse::<u64>().ok())?
            })
        };
        if let (Some(periods), Some(throttled)) = (field("nr_periods"), field("nr_throttled"))
            && periods > 0
            && worst.is_none_or(|(p, t)| {
                u128::from(throttled) * u128::from(p) > u128::from(t) * u128::from(periods)
            })
        {
            worst = Some((periods, throttled));
        }
    }
    let Some((periods, throttled)) = worst else {
        return match seen.of_host("a quota", |h| h.cpu_quota) {
            Ok(_) => could_not_see("the group has a quota, and no cpu.stat that counts"),
            Err(_) => not_applicable("no quota of CPU time is set"),
        };
    };
    let share = throttled as f64 / periods as f64;
    let saw = format!(
        "{throttled} of {periods} periods were throttled ({})",
        percent(share)
    );
    if share < 0.01 || throttled < 10 {
        return passed(saw);
    }
    Observation::new(
        high_if(share > 0.1),
        Confidence::High,
        format!(
            "{saw} since the group was created: in each the server was stopped until the end of the period."
        ),
    )
    .shell(
        "systemctl set-property UNIT CPUQuota=   # or the container's --cpus, a Kubernetes limit",
    )
    .found()
}
