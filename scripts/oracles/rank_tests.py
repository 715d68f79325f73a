"""Oracle values for the signed-rank and Mann-Whitney p-values by SciPy, and the
Hodges-Lehmann estimate and interval by forming all Walsh averages with NumPy.

    python scripts/oracles/rank_tests.py > crates/results/stats/src/oracles/rank_tests_scipy.tsv

A second opinion beside R: larger samples (SciPy's exact distribution goes
further) and one-sided extremes. Columns as in rank_tests.tsv.
"""

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20261121)
print(f"# SciPy {scipy.__version__}, NumPy {np.__version__}; written by scripts/oracles/rank_tests.py")


def num(values):
    return " ".join(repr(float(v)) for v in np.atleast_1d(values))


def signed_rank_cdf(n):
    counts = np.zeros(n * (n + 1) // 2 + 1, dtype=object)
    counts[0] = 1
    for rank in range(1, n + 1):
        shifted = np.zeros_like(counts)
        shifted[rank:] = counts[:-rank]
        counts = counts + shifted
    total = 2**n
    return np.array([float(c) / float(total) for c in np.cumsum(counts)])


def interval(walsh, cdf, level):
    tail = (1 - level) / 2
    k = np.searchsorted(cdf, tail + 1e-12, side="right") - 1
    return walsh[k], walsh[len(walsh) - 1 - k]


for n in (6, 9, 12, 16, 24, 50, 80, 120):
    for shift, scale in ((0.0, 0.1), (0.02, 0.03), (0.2, 0.05)):
        x = np.round(rng.normal(shift, scale, n), 7)
        i, j = np.triu_indices(n)
        walsh = np.sort((x[i] + x[j]) / 2)
        cdf = signed_rank_cdf(n)
        p = stats.wilcoxon(x, method="exact").pvalue
        low95, high95 = interval(walsh, cdf, 0.95)
        low90, high90 = interval(walsh, cdf, 0.90)
        print("signed-rank", num(x), num(p), num(np.median(walsh)), num(low95), num(high95), num(low90), num(high90), sep="\t")

for n, m in ((5, 5), (8, 12), (25, 25), (50, 50)):
    for shift in (0.0, 0.05):
        x = np.round(rng.normal(0, 0.05, n), 7)
        y = np.round(rng.normal(shift, 0.05, m), 7)
        p = stats.mannwhitneyu(x, y, method="exact").pvalue
        d = np.sort((y[None, :] - x[:, None]).ravel())
        print("mann-whitney-p", num(x) + " / " + num(y), num(p), num(np.median(d)), sep="\t")
