//! Made-up noise, to find out how often the rules err.
//!
//! The five kinds are what machines do to slices of a benchmark: nothing special,
//! waves longer than a slice, rare wild slices, a slow drift, and two states that
//! it falls into for a while. The example `calibrate` and the tests draw from
//! here; no figure about a real server ever does.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generator of every random draw in this module: small, fast, and the same
/// on every machine for a given seed.
pub type Rng = Xoshiro256PlusPlus;

/// A generator from a seed.
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// One draw of the standard normal distribution (Box and Muller, 1958).
pub fn normal(rng: &mut Rng) -> f64 {
    let u: f64 = 1.0 - rng.random::<f64>(); // in (0, 1], so that the logarithm exists
    let angle = std::f64::consts::TAU * rng.random::<f64>();
    (-2.0 * u.ln()).sqrt() * angle.cos()
}

/// A kind of noise in the logarithm of a slice's throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// Each slice by itself, normal.
    Independent,
    /// Each slice resembles the one before: AR(1) with coefficient 0.9.
    Autocorrelated,
    /// Student's t with 2 degrees of freedom: no variance, wild slices.
    HeavyTailed,
    /// A trend of 10 spreads over the whole run, and a random walk on top.
    Drifting,
    /// Two states 4 spreads apart, left with a chance of 1 in 10 per slice.
    Bimodal,
}

impl Noise {
    /// All kinds.
    pub const ALL: [Noise; 5] = [
        Noise::Independent,
        Noise::Autocorrelated,
        Noise::HeavyTailed,
        Noise::Drifting,
        Noise::Bimodal,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Noise::Independent => "independent",
            Noise::Autocorrelated => "autocorrelated",
            Noise::HeavyTailed => "heavy-tailed",
            Noise::Drifting => "drifting",
            Noise::Bimodal => "bimodal",
        }
    }

    /// The logarithms of that many successive slices of a server that would do 1
    /// without noise; `spread` is that of a slice (the scale of t where the
    /// variance does not exist).
    pub fn slices(self, count: usize, spread: f64, rng: &mut Rng) -> Vec<f64> {
        let mut state = match self {
            Noise::Autocorrelated => normal(rng),
            Noise::Bimodal => f64::from(u8::from(rng.random::<bool>())),
            _ => 0.0,
        };
        (0..count)
            .map(|i| {
                let value = match self {
                    Noise::Independent => normal(rng),
                    Noise::Autocorrelated => {
                        state = 0.9 * state + f64::sqrt(1.0 - 0.81) * normal(rng);
                        state
                    }
                    Noise::HeavyTailed => {
                        let u = 1.0 - rng.random::<f64>();
                        normal(rng) / (-u.ln()).sqrt().max(1e-9)
                    }
                    Noise::Drifting => {
                        state += 0.3 * normal(rng);
                        10.0 * i as f64 / count as f64 + state + normal(rng)
                    }
                    Noise::Bimodal => {
                        if rng.random::<f64>() < 0.1 {
                            state = 1.0 - state;
                        }
                        4.0 * state + normal(rng)
                    }
                };
                spread * value
            })
            .collect()
    }

    /// Interleaved pairs (a, b) in random order within each, B doing
    /// `1 + effect` times what A does.
    pub fn pairs(self, count: usize, spread: f64, effect: f64, rng: &mut Rng) -> Vec<(f64, f64)> {
        let slices = self.slices(2 * count, spread, rng);
        slices
            .chunks_exact(2)
            .map(|pair| {
                let (a, b) = if rng.random::<bool>() {
                    (pair[0], pair[1])
                } else {
                    (pair[1], pair[0])
                };
                (1000.0 * a.exp(), 1000.0 * b.exp() * (1.0 + effect))
            })
            .collect()
    }
}

/// Pairs of two servers that wander independently: the throughput of each follows an AR(1) process
/// (coefficient 0.9 from one pair to the next, standard deviation `wander`) besides the noise of its
/// slices. The order within a pair does not change that, so neighbouring pairs are correlated.
pub fn wandering_servers(
    count: usize,
    (spread, wander): (f64, f64),
    effect: f64,
    rng: &mut Rng,
) -> Vec<(f64, f64)> {
    let mut states = [normal(rng), normal(rng)];
    (0..count)
        .map(|_| {
            let [a, b] = states.map(|state| (wander * state + spread * normal(rng)).exp());
            for state in &mut states {
                *state = 0.9 * *state + f64::sqrt(1.0 - 0.81) * normal(rng);
            }
            (1000.0 * a, 1000.0 * b * (1.0 + effect))
        })
        .collect()
}

/// Pairs of several launches, each arm of each launch with luck of its own that
/// all its slices share.
pub fn launches(
    noise: Noise,
    (launches, pairs): (usize, usize),
    (spread, luck): (f64, f64),
    effect: f64,
    rng: &mut Rng,
) -> Vec<Vec<(f64, f64)>> {
    (0..launches)
        .map(|_| {
            let (a, b) = ((luck * normal(rng)).exp(), (luck * normal(rng)).exp());
            let measured = noise.pairs(pairs, spread, effect, rng);
            measured.into_iter().map(|(x, y)| (x * a, y * b)).collect()
        })
        .collect()
}
