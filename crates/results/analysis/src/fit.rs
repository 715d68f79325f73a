//! The scaling law over a recorded sweep: what `pgassay fit` answers.

use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::axes::Course;
use crate::curves;
use crate::measured::PointAnalysis;
use crate::stats::Estimate;
use crate::stats::scaling::{self, FEWEST_COUNTS, REACH, Refusal, Scaling, ScalingPoint};
use crate::wire::CurvePoint;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/fit/1";

/// The fits of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the run directory.
    pub run: String,
    /// The workload that was swept.
    pub workload: String,
    /// CPUs of the machine, or of a container's quota; counts beyond are left out.
    pub cpus: Option<u32>,
    /// One entry an arm; of loads inside the server, one a variant.
    pub arms: Vec<ArmFit>,
}

/// The fit of one arm, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmFit {
    /// Short name of the arm, or which variant of the load.
    pub label: String,
    /// What it is over: `clients`, or `cpus`, the CPUs of the server.
    #[serde(default)]
    pub over: Over,
    /// The coefficients.
    pub scaling: Option<Scaling>,
    /// Why no fit is given.
    pub refused: Option<String>,
    /// What the coefficients say, in plain sentences.
    pub words: Vec<String>,
    /// Throughput, measured and fitted, at each client count of the run, and the
    /// fit at up to twice the largest that was fitted.
    pub points: Vec<FitPoint>,
}

/// What a scaling law is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Clients, or sessions.
    #[default]
    Clients,
    /// CPUs of the server.
    Cpus,
}

impl Over {
    /// Many of it.
    pub fn many(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Cpus => "CPUs",
        }
    }

    /// How more of it are measured.
    fn how(self) -> &'static str {
        match self {
            Self::Clients => "--clients 1,2,4,8,16",
            Self::Cpus => "--cpus 1..16*2, on a machine that has as many",
        }
    }
}

/// One client count, or number of CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FitPoint {
    /// Clients; of a fit over CPUs those that loaded the server, 0 where it is a prediction.
    pub clients: u32,
    /// CPUs of the server, where the fit is over these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Measured; none where it is a prediction.
    pub measured_tps: Option<Estimate>,
    /// By the law, with the interval of the curve.
    pub fitted_tps: Option<Estimate>,
}

impl FitPoint {
    /// Where it stands on what the law is over.
    pub fn at(&self) -> u32 {
        self.cpus.unwrap_or(self.clients)
    }
}

/// Fits every arm of a run, or where CPUs of the server were varied, throughput over these. A sweep
/// over clients says nothing about other numbers of CPUs.
pub fn fit(analysis: &Analysis) -> Fit {
    let over_cpus = over_cpus(analysis);
    if !over_cpus.is_empty() {
        let seed = analysis.main().plan.seed;
        let each = over_cpus.iter().map(|(label, points)| {
            fit_curve(
                label.clone(),
                Over::Cpus,
                points,
                analysis.host.usable_cpus(),
                seed,
            )
        });
        return Fit {
            schema: SCHEMA.to_owned(),
            run: analysis.run.id.clone(),
            workload: analysis.main().plan.workload.name.clone(),
            cpus: analysis.host.usable_cpus(),
            arms: each.collect(),
        };
    }
    Fit {
        schema: SCHEMA.to_owned(),
        run: analysis.run.id.clone(),
        workload: analysis.main().plan.workload.name.clone(),
        cpus: analysis.host.usable_cpus(),
        arms: curves::of(analysis)
            .iter()
            .map(|curve| {
                let arm = analysis.arms.get(curve.arm).map(|arm| arm.label.clone());
                let label = curve.load.clone().or(arm).unwrap_or_default();
                let points: Vec<Swept> = curve.points.iter().map(Swept::over_clients).collect();
                let seed = analysis.main().plan.seed;
                fit_curve(
                    label,
                    Over::Clients,
                    &points,
                    analysis.host.usable_cpus(),
                    seed,
                )
            })
            .collect(),
    }
}

/// A point of a sweep.
struct Swept<'a> {
    /// Where it stands on what is swept over.
    at: u32,
    clients: u32,
    throughput: &'a Estimate,
    trials: Vec<f64>,
    client_bound: bool,
}

impl<'a> Swept<'a> {
    fn over_clients(point: &'a CurvePoint) -> Self {
        Self {
            at: point.clients,
            clients: point.clients,
            throughput: &point.throughput,
            trials: point.trials.clone(),
            client_bound: point.client_bound,
        }
    }

    fn over_cpus(at: u32, point: &'a PointAnalysis) -> Self {
        Self {
            at,
            clients: point.point.clients,
            throughput: &point.throughput_tps,
            trials: point.trials.iter().map(|t| t.throughput_tps).collect(),
            client_bound: point.warnings.iter().any(|w| w.id == "client-bound"),
        }
    }

    fn scaling(&self) -> ScalingPoint {
        ScalingPoint {
            n: self.at,
            throughput: self.trials.clone(),
            client_bound: self.client_bound,
        }
    }
}

/// Throughput over CPUs of the server, where they were varied: the highest at each number, and, where
/// there are several, each number of clients that can keep all of them busy.
fn over_cpus(analysis: &Analysis) -> Vec<(String, Vec<Swept<'_>>)> {
    let counts_cpus = |course: &&Course| course.known().is_some_and(|axis| axis.counts_cpus);
    let courses: Vec<&Course> = analysis.axes.iter().filter(counts_cpus).collect();
    let swept = |course: &Course| -> Vec<Swept<'_>> {
        let of = course.points.iter().filter_map(|at| {
            let arm = analysis.main().arms.get(at.arm)?;
            let mut points = arm.points.iter();
            let point = points.find(|point| point.point.clients == course.clients)?;
            Some(Swept::over_cpus(at.number? as u32, point))
        });
        of.collect()
    };
    let mut withs: Vec<&str> = courses.iter().map(|course| course.with.as_str()).collect();
    withs.sort_unstable();
    withs.dedup();
    let mut all = Vec::new();
    for with in withs {
        let of: Vec<&&Course> = courses
            .iter()
            .filter(|course| course.with == with)
            .collect();
        let most = of
            .iter()
            .flat_map(|course| &course.points)
            .filter_map(|point| point.number)
            .fold(0.0, f64::max);
        if of.len() > 1 {
            let mut best: Vec<Swept> = Vec::new();
            for point in of.iter().flat_map(|course| swept(course)) {
                match best.iter_mut().find(|known| known.at == point.at) {
                    Some(known) if known.throughput.estimate >= point.throughput.estimate => {}
                    Some(known) => *known = point,
                    None => best.push(point),
                }
            }
            best.sort_by_key(|point| point.at);
            let label = match with {
                "" => "over CPUs, at the best number of clients".to_owned(),
                with => format!("over CPUs, at the best number of clients, {with}"),
            };
            all.push((label, best));
        }
        let busy = of
            .iter()
            .filter(|course| f64::from(course.clients) >= most || of.len() == 1);
        all.extend(busy.map(|course| (format!("over CPUs, at {}", course.at()), swept(course))));
    }
    all
}

fn fit_curve(label: String, over: Over, swept: &[Swept], cpus: Option<u32>, seed: u64) -> ArmFit {
    let sweep: Vec<ScalingPoint> = swept.iter().map(Swept::scaling).collect();
    let (scaling, refused) = match scaling::fit(&sweep, cpus, seed) {
        Ok(scaling) => (Some(scaling), None),
        Err(refusal) => (None, Some(refused(&refusal, over))),
    };
    let by_law = |at: u32| scaling.as_ref()?.predict(f64::from(at)).ok();
    let place = |at: u32| (over == Over::Cpus).then_some(at);
    let mut points: Vec<FitPoint> = swept
        .iter()
        .map(|point| FitPoint {
            clients: point.clients,
            cpus: place(point.at),
            measured_tps: Some(point.throughput.clone()),
            fitted_tps: by_law(point.at),
        })
        .collect();
    if let Some(largest) = scaling.as_ref().and_then(|s| s.fitted.last()) {
        let furthest = (f64::from(*largest) * REACH) as u32;
        if points.iter().all(|p| p.at() != furthest) {
            points.push(FitPoint {
                clients: match over {
                    Over::Clients => furthest,
                    Over::Cpus => 0,
                },
                cpus: place(furthest),
                measured_tps: None,
                fitted_tps: by_law(furthest),
            });
            points.sort_by_key(FitPoint::at);
        }
    }
    ArmFit {
        label,
        over,
        words: scaling.as_ref().map(|s| words(s, over)).unwrap_or_default(),
        scaling,
        refused,
        points,
    }
}

/// Why there is no fit, with the flag that measures more of what it is over.
fn refused(refusal: &Refusal, over: Over) -> String {
    match refusal {
        Refusal::TooFewPoints { have } => format!(
            "{have} different counts: {FEWEST_COUNTS} or more are needed to fit a scaling law; sweep over more, \
             such as {}",
            over.how()
        ),
        other => other.to_string(),
    }
}

/// Contention, coherence and the peak in words; what the interval does not tell
/// from nothing is said to be so.
fn words(scaling: &Scaling, over: Over) -> Vec<String> {
    let many = over.many();
    let percent = |v: f64| format!("{:.2} %", 100.0 * v);
    let (sigma, kappa) = (&scaling.sigma.value, &scaling.kappa.value);
    let mut words = vec![if sigma.low > 0.0 {
        format!(
            "Contention: {} of the work can be done by only one at a time ({} to {}), so that more \
             {many} can never do more than about {:.0} times what one does.",
            percent(sigma.estimate),
            percent(sigma.low),
            percent(sigma.high),
            (1.0 / sigma.estimate).max(1.0)
        )
    } else {
        format!(
            "Contention was not shown; up to {} of the work may be done by only one at a time.",
            percent(sigma.high)
        )
    }];
    words.push(if kappa.low > 0.0 {
        format!(
            "Coherence: each further {} costs every other {:.1e} of its work ({:.1e} to {:.1e}), \
             so that throughput falls in the end.",
            match over {
                Over::Clients => "client",
                Over::Cpus => "CPU",
            },
            kappa.estimate,
            kappa.low,
            kappa.high
        )
    } else {
        "Coherence was not shown: nothing here says that throughput falls in the end.".to_owned()
    });
    if let (Some(peak), true) = (&scaling.peak, kappa.low > 0.0) {
        let largest = scaling.fitted.last().copied().unwrap_or(0);
        let beyond = if peak.estimate > f64::from(largest) {
            ", beyond what was measured"
        } else {
            ""
        };
        words.push(format!(
            "Throughput is highest near {:.0} {many} ({:.0} to {:.0}){beyond}.",
            peak.estimate, peak.low, peak.high
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(kappa: f64) -> Scaling {
        let law = |n: f64| 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + kappa * n * (n - 1.0));
        let sweep: Vec<ScalingPoint> = [1u32, 2, 4, 8, 16, 32]
            .into_iter()
            .enumerate()
            .map(|(i, n)| ScalingPoint {
                n,
                // off the law by one part in a thousand, to both sides
                throughput: vec![law(f64::from(n)) * (1.0 + [1e-3, -1e-3][i % 2])],
                client_bound: false,
            })
            .collect();
        crate::stats::scaling::fit(&sweep, None, 1).expect("follows the law")
    }

    #[test]
    fn the_coefficients_are_put_into_words() {
        let said = words(&scaling(1e-3), Over::Clients);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("Contention: 5.") || said[0].starts_with("Contention: 4."));
        assert!(said[0].contains("20 times"), "{}", said[0]);
        assert!(said[2].contains("near 31 clients"), "{}", said[2]);
    }

    #[test]
    fn what_was_not_shown_is_not_claimed() {
        let said = words(&scaling(0.0), Over::Clients);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].starts_with("Coherence was not shown"));
    }
}
