//! The times of transfers as measured on a machine: shown, and read again as a map for the walls.

use pgassay_kernels::{CoreToCore, Pair};
use pgassay_model::Failure;
use pgassay_report::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use pgassay_report::{Document, Report, Rows};
use serde::{Deserialize, Serialize};

use crate::walls::Map;

/// The document's schema.
pub const SCHEMA: &str = "pgassay/core-to-core/1";
/// CPUs up to which each pair stands in the report; beyond, by distance alone.
const SHOWN: usize = 16;

/// Times between the CPUs of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// `pgassay/core-to-core/1`.
    pub schema: String,
    /// The processor's name; none if the machine does not tell.
    pub cpu: Option<String>,
    /// How far apart pairs are, the nearest first.
    pub distances: Vec<Distance>,
    /// The times.
    #[serde(flatten)]
    pub times: CoreToCore,
}

/// Pairs that are equally far apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distance {
    /// `siblings of a core`, `cores of a socket`, `sockets`.
    pub between: String,
    /// Pairs.
    pub pairs: usize,
    /// The least, the median and the greatest of their times, in nanoseconds.
    pub least_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// The greatest.
    pub greatest_ns: f64,
}

impl Measured {
    /// Sums up what was measured.
    pub fn of(times: CoreToCore, cpu: Option<String>) -> Self {
        let at = |number: usize| times.cpus.iter().find(|at| at.cpu == number);
        let between = |pair: &Pair| match (at(pair.a), at(pair.b)) {
            (Some(a), Some(b)) if a.socket != b.socket => "sockets",
            (Some(a), Some(b)) if a.core == b.core => "siblings of a core",
            _ => "cores of a socket",
        };
        let distances = ["siblings of a core", "cores of a socket", "sockets"]
            .into_iter()
            .filter_map(|distance| {
                let pairs = times.pairs.iter().filter(|pair| between(pair) == distance);
                let mut ns: Vec<f64> = pairs.map(|pair| pair.ns).collect();
                ns.sort_by(f64::total_cmp);
                Some(Distance {
                    between: distance.to_owned(),
                    pairs: ns.len(),
                    least_ns: *ns.first()?,
                    median_ns: median(&ns),
                    greatest_ns: *ns.last()?,
                })
            })
            .collect();
        Self {
            schema: SCHEMA.to_owned(),
            cpu,
            distances,
            times,
        }
    }

    /// Reads what `pgassay core-to-core --json` wrote.
    ///
    /// # Errors
    /// If the text is not that, or has no pair.
    pub fn read(text: &str) -> Result<Self, Failure> {
        let remedy = "a file that pgassay core-to-core --json --output FILE wrote";
        let read: Self = serde_json::from_str(text).map_err(|error| {
            Failure::usage(format!("not the times of a machine: {error}")).with_remedy(remedy)
        })?;
        let sound = |pair: &Pair| pair.ns.is_finite() && pair.ns > 0.0;
        if read.schema != SCHEMA
            || read.times.pairs.is_empty()
            || !read.times.pairs.iter().all(sound)
        {
            return Err(Failure::usage("it holds no times between CPUs").with_remedy(remedy));
        }
        // Who wrote the sums is not known; they follow from the times.
        Ok(Self::of(read.times, read.cpu))
    }

    /// As the walls take it: near are siblings, typical cores of one socket, far other sockets.
    pub fn map(&self) -> Map {
        let of = |name: &str| {
            let found = self.distances.iter().find(|d| d.between == name);
            found.map(|d| d.median_ns)
        };
        let (near, cores, far) = (
            of("siblings of a core"),
            of("cores of a socket"),
            of("sockets"),
        );
        Map {
            name: "measured".to_owned(),
            title: self.cpu.clone().unwrap_or_else(|| "measured".to_owned()),
            near_ns: near.filter(|_| cores.is_some()),
            typical_ns: cores.or(near).or(far).unwrap_or(f64::NAN),
            far_ns: far.filter(|_| cores.is_some()),
            source: "pgassay core-to-core".to_owned(),
        }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

impl Report for Measured {
    fn document(&self) -> Document {
        let cpu = self.cpu.as_deref().unwrap_or("this machine");
        let few = self.times.cpus.len() <= SHOWN;
        let mut blocks = vec![
            Block::Facts(vec![
                Fact::new("processor", cpu),
                Fact::new("CPUs", self.times.cpus.len().to_string()),
            ]),
            Block::Table(self.by_distance()),
        ];
        blocks.extend(few.then(|| Block::Table(self.matrix())));
        Document {
            title: format!("{cpu}: a cache line from CPU to CPU"),
            provenance: format!("pgassay {}", env!("CARGO_PKG_VERSION")),
            headline: self.headline(),
            sections: vec![Section {
                id: "core-to-core",
                title: "Time of one hand-over",
                depth: Depth::Summary,
                blocks,
            }],
            notes: Notes::default().into_notes(),
            ..Document::default()
        }
    }

    /// One row a pair.
    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new(["a", "b", "ns", "lower_ns", "upper_ns", "rounds"]);
        for pair in &self.times.pairs {
            rows.push(vec![
                pair.a.to_string(),
                pair.b.to_string(),
                format!("{:.1}", pair.ns),
                format!("{:.1}", pair.lower_ns),
                format!("{:.1}", pair.upper_ns),
                pair.rounds.to_string(),
            ]);
        }
        Some(rows)
    }
}

impl Measured {
    fn headline(&self) -> Vec<String> {
        let said = |distance: &Distance| match distance.pairs {
            1 => format!(
                "Between {}, a line takes {:.0} ns one way.",
                distance.between, distance.median_ns
            ),
            pairs => format!(
                "Between {}, a line takes {:.0} ns one way ({:.0} to {:.0} over {pairs} pairs).",
                distance.between, distance.median_ns, distance.least_ns, distance.greatest_ns
            ),
        };
        let mut headline: Vec<String> = self.distances.iter().map(said).collect();
        let widely = |pair: &&Pair| pair.upper_ns > 1.5 * pair.lower_ns;
        let unsteady = self.times.pairs.iter().filter(widely).count();
        if unsteady > 0 {
            headline.push(format!(
                "{unsteady} of {} pairs are unsteady (their quartiles are more than half apart): other \
                 programs or guests had the CPUs.",
                self.times.pairs.len()
            ));
        }
        headline
    }

    fn by_distance(&self) -> Table {
        let rows = self.distances.iter().map(|distance| {
            vec![
                Cell::plain(distance.between.clone()),
                Cell::plain(distance.pairs.to_string()),
                Cell::plain(format!("{:.1}", distance.median_ns)),
                Cell::plain(format!("{:.1}", distance.least_ns)),
                Cell::plain(format!("{:.1}", distance.greatest_ns)),
            ]
        });
        Table::new(
            "Nanoseconds of one hand-over, one way, of each pair the median over rounds on fresh pages.",
            vec![
                Column::words("between", 0),
                Column::figures("pairs", "", 0),
                Column::figures("median", "ns", 0),
                Column::figures("least", "ns", 1),
                Column::figures("greatest", "ns", 1),
            ],
            rows,
        )
    }

    /// Each CPU against each other, the quartiles behind the median.
    fn matrix(&self) -> Table {
        let cpus = &self.times.cpus;
        let mut columns = vec![Column::words("CPU", 0)];
        columns.extend(
            cpus.iter()
                .map(|at| Column::figures(&at.cpu.to_string(), "ns", 0)),
        );
        let between = |a: usize, b: usize| {
            let mut pairs = self.times.pairs.iter();
            pairs.find(|pair| (pair.a, pair.b) == (a, b) || (pair.a, pair.b) == (b, a))
        };
        let rows = cpus.iter().map(|a| {
            let mut row = vec![Cell::plain(a.cpu.to_string())];
            row.extend(cpus.iter().map(|b| {
                Cell::plain_or_missing(between(a.cpu, b.cpu).map(|pair| {
                    format!(
                        "{:.0} ({:.0} to {:.0})",
                        pair.ns, pair.lower_ns, pair.upper_ns
                    )
                }))
            }));
            row
        });
        Table::new(
            "Each pair: the median, and the quartiles over rounds.",
            columns,
            rows,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_kernels::placement::Cpu;

    fn measured() -> Measured {
        let cpu = |cpu, core, socket| Cpu { cpu, core, socket };
        let pair = |a, b, ns| Pair {
            a,
            b,
            ns,
            lower_ns: ns - 1.0,
            upper_ns: ns + 1.0,
            rounds: 30,
        };
        let times = CoreToCore {
            cpus: vec![cpu(0, 0, 0), cpu(1, 1, 0), cpu(2, 0, 0), cpu(3, 0, 1)],
            pairs: vec![
                pair(0, 1, 50.0),
                pair(0, 2, 10.0),
                pair(0, 3, 140.0),
                pair(1, 2, 60.0),
                pair(1, 3, 120.0),
                pair(2, 3, 130.0),
            ],
        };
        Measured::of(times, Some("a processor".to_owned()))
    }

    #[test]
    fn pairs_are_summed_up_by_distance() {
        let map = measured().map();
        assert_eq!(
            (map.near_ns, map.typical_ns, map.far_ns),
            (Some(10.0), 55.0, Some(130.0))
        );
        let said = pgassay_report::markdown(&measured());
        assert!(
            said.contains(
                "Between sockets, a line takes 130 ns one way (120 to 140 over 3 pairs)."
            ),
            "{said}"
        );
    }

    #[test]
    fn what_was_written_is_read_again() {
        let written = serde_json::to_string(&measured()).unwrap();
        assert_eq!(Measured::read(&written).unwrap(), measured());
        for wrong in [
            "",
            "{}",
            &written.replace("/1", "/9"),
            &written.replace("50.0", "-50.0"),
        ] {
            assert!(Measured::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn siblings_alone_are_the_typical_distance() {
        let mut only = measured();
        only.times.pairs.retain(|pair| (pair.a, pair.b) == (0, 2));
        let map = Measured::of(only.times, None).map();
        assert_eq!(
            (map.near_ns, map.typical_ns, map.far_ns),
            (None, 10.0, None)
        );
    }
}
