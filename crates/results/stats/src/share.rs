//! Shares of samples, and what few samples of something can speak for.

/// No more sightings than these make a share, however large a part of little they are.
pub const TOO_FEW: f64 = 10.0;

/// The least share that so many samples with this share in them speak for: Wilson's lower bound
/// at 95 %, one-sided (Journal of the American Statistical Association 22, 1927). Three samples
/// of 55 are 5.5 %, and may stand for 2 %. Nothing of no samples.
pub fn at_least(share: f64, samples: u64) -> f64 {
    const Z: f64 = 1.644_853_6;
    if samples == 0 {
        return 0.0;
    }
    let n = samples as f64;
    let centre = share + Z * Z / (2.0 * n);
    let half = Z
        * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n))
            .max(0.0)
            .sqrt();
    (centre - half) / (1.0 + Z * Z / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_speak_for_less_than_they_show() {
        let three_of_55 = at_least(3.0 / 55.0, 55);
        assert!((0.020..0.025).contains(&three_of_55), "{three_of_55}");
        let many = at_least(0.08, 2000);
        assert!((0.070..0.072).contains(&many), "{many}");
        assert!(at_least(0.0, 10).abs() < 1e-12);
        assert_eq!(at_least(1.0, 0), 0.0);
        let all_of_three = at_least(1.0, 3);
        assert!((0.5..0.55).contains(&all_of_three), "{all_of_three}");
    }
}
