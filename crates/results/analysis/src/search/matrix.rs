//! Small symmetric matrices and their Cholesky factorization.

use std::ops::{Index, IndexMut};

/// A square matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    n: usize,
    cells: Vec<f64>,
}

impl Matrix {
    pub(super) fn from_fn(n: usize, cell: impl Fn(usize, usize) -> f64) -> Self {
        let rows = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let cells = rows.map(|(i, j)| cell(i, j)).collect();
        Self { n, cells }
    }

    /// Returns its lower triangular factor; `None` where it is not positive definite. The
    /// cells above the diagonal are not read.
    pub(super) fn cholesky(mut self) -> Option<Cholesky> {
        for i in 0..self.n {
            for j in 0..=i {
                let known: f64 = (0..j).map(|k| self[(i, k)] * self[(j, k)]).sum();
                let rest = self[(i, j)] - known;
                self[(i, j)] = if j < i {
                    rest / self[(j, j)]
                } else if rest > 0.0 {
                    rest.sqrt()
                } else {
                    return None;
                };
            }
        }
        Some(Cholesky(self))
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.cells[i * self.n + j]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.cells[i * self.n + j]
    }
}

/// The factor L of a symmetric matrix LLᵀ.
#[derive(Debug, Clone)]
pub(super) struct Cholesky(Matrix);

impl Cholesky {
    /// Solves Lz = v. Where the matrix is the covariance of v, the elements of z are
    /// independent and have variance 1.
    pub(super) fn whiten(&self, v: &[f64]) -> Vec<f64> {
        let mut z = Vec::with_capacity(v.len());
        for (i, v) in v.iter().enumerate() {
            let known: f64 = z.iter().enumerate().map(|(k, z)| self.0[(i, k)] * z).sum();
            z.push((v - known) / self.0[(i, i)]);
        }
        z
    }

    /// Returns the logarithm of the matrix's determinant.
    pub(super) fn ln_determinant(&self) -> f64 {
        (0..self.0.n).map(|i| 2.0 * self.0[(i, i)].ln()).sum()
    }

    /// Returns the columns of L⁻¹, whose products are the elements of the matrix's inverse.
    pub(super) fn inverse_columns(&self) -> Vec<Vec<f64>> {
        let n = self.0.n;
        let unit = |j| -> Vec<f64> { (0..n).map(|i| f64::from(u8::from(i == j))).collect() };
        (0..n).map(|j| self.whiten(&unit(j))).collect()
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_inverse_and_the_factor_are_those_of_the_matrix(
            cells in proptest::collection::vec(-1.0f64..1.0, 25), n in 0usize..6,
        ) {
            let row = |i: usize| &cells[5 * i..5 * i + n];
            let at = |i: usize, j: usize| dot(row(i), row(j)) + f64::from(u8::from(i == j));
            let factor = Matrix::from_fn(n, at).cholesky().expect("positive definite");
            let columns = factor.inverse_columns();
            for i in 0..n {
                let column: Vec<f64> = (0..n).map(|j| at(i, j)).collect();
                let white = factor.whiten(&column);
                prop_assert!((dot(&white, &white) - at(i, i)).abs() < 1e-12);
                for j in 0..n {
                    let inverse = |k: usize| dot(&columns[k], &columns[j]);
                    let product: f64 = (0..n).map(|k| at(i, k) * inverse(k)).sum();
                    prop_assert!((product - f64::from(u8::from(i == j))).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn the_determinant_is_that_of_two_rows() {
        let at = |i: usize, j: usize| [[4.0, 2.0], [2.0, 3.0]][i][j];
        let factor = Matrix::from_fn(2, at)
            .cholesky()
            .expect("positive definite");
        assert!((factor.ln_determinant() - 8f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn what_is_not_positive_definite_has_no_factor() {
        for last in [1.0, 0.5, f64::NAN] {
            let at = |i: usize, j: usize| [[1.0, 1.0], [1.0, last]][i][j];
            assert!(Matrix::from_fn(2, at).cholesky().is_none(), "{last}");
        }
    }
}
