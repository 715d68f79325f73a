//! Huge pages beyond the limit of the pod or container.

use crate::detect::pages::needed::pages_needed;
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let wanted = seen.value("huge_pages")?;
    if wanted == "off" {
        return not_applicable("huge_pages = off");
    }
    let total = seen.of_host("the number of huge pages", |h| h.huge_pages_total)?;
    if total == 0 {
        return not_applicable("no huge pages are reserved on this machine");
    }
    let page = seen
        .of_host("the huge page size", |h| h.huge_page_size_bytes)?
        .max(1);
    let Some(limits) = hugetlb_limits(seen, page)? else {
        return could_not_see("no control group with limits of huge pages is seen");
    };
    let need = pages_needed(seen, seen.bytes("shared_buffers")?, page).saturating_mul(page);
    let strictest = limits.touched.min(limits.reserved);
    let saw = match strictest {
        u64::MAX => "the control group may use all huge pages".to_owned(),
        limit => format!(
            "the control group may use {} of huge pages, and the server's shared memory takes {}",
            shown(limit),
            shown(need)
        ),
    };
    if strictest >= need {
        return passed(saw);
    }
    let (severity, happens) = if limits.reserved <= limits.touched {
        (
            Severity::Medium,
            "the server does not get them, and with huge_pages = on does not start",
        )
    } else {
        (
            Severity::High,
            "reserving more succeeds, and touching it is a bus error",
        )
    };
    Observation::new(
        severity,
        Confidence::High,
        format!("Of {total} huge pages on this machine {saw}: {happens} (huge_pages = {wanted})."),
    )
    .advice(format!(
        "give the container {} of huge pages (Kubernetes: resources.limits hugepages-{}Mi)",
        shown(need),
        page >> 20
    ))
    .sql("ALTER SYSTEM SET huge_pages = 'off';   -- then restart, if it is not to have them")
    .found()
}

/// What a control group allows of huge pages of one size, in bytes.
struct HugeLimits {
    /// To touch: beyond it there is a bus error.
    touched: u64,
    /// To map: beyond it the mapping is refused.
    reserved: u64,
}

/// The strictest limits on the way up; none if no group has the controller.
fn hugetlb_limits(seen: &FactView, page: u64) -> Result<Option<HugeLimits>, NotJudged> {
    // The kernel names the size by its largest unit: hugetlb.2MB.max, hugetlb.1GB.max.
    let size = match page {
        page if page >= 1 << 30 => format!("{}GB", page >> 30),
        page if page >= 1 << 20 => format!("{}MB", page >> 20),
        page => format!("{}KB", page >> 10),
    };
    let strictest = |files: [&str; 2]| -> Result<Option<u64>, NotJudged> {
        let mut strictest = None;
        for file in files {
            let end = format!("/hugetlb.{size}.{file}");
            for (_, text) in seen.texts("/sys/fs/cgroup", &end)? {
                let limit = text.parse().unwrap_or(u64::MAX);
                strictest = Some(strictest.map_or(limit, |least: u64| least.min(limit)));
            }
        }
        Ok(strictest)
    };
    let touched = strictest(["max", "limit_in_bytes"])?;
    let reserved = strictest(["rsvd.max", "rsvd.limit_in_bytes"])?;
    Ok(touched.or(reserved).map(|_| HugeLimits {
        touched: touched.unwrap_or(u64::MAX),
        reserved: reserved.unwrap_or(u64::MAX),
    }))
}
