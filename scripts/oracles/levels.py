"""Critical values of the test for several levels (crates/results/stats/src/levels.rs), and its power beside Hartigan's dip.

    pip install numpy diptest
    python scripts/oracles/levels.py > crates/results/stats/src/oracles/levels.tsv

Rows "separation": a sample, its best division and how far its parts are apart, computed by trying every division.
Rows "critical": a number of values, and the separation that one in a hundred samples exceeds, of the shape of one level for
which that is largest (normal, uniform, exponential, Student's t with 2 and with 3 degrees of freedom). Rows "power": a number
of values, how many standard deviations two normal levels are apart (two fifths of the values at the higher), the
share found by the separation, and the share found by the dip at the same rate of error.
"""

from importlib.metadata import version

import numpy as np
from diptest import dipstat

rng = np.random.default_rng(20261129)
print(f"# numpy {version('numpy')}, diptest {version('diptest')}; written by scripts/oracles/levels.py")


def least(n):
    """The fewest values of a part: an eighth, and three at least."""
    return max(3, -(-n // 8))


def separations(x):
    """Of each row, sorted: the largest difference of the means of two parts by the standard deviation within them."""
    n = x.shape[1]
    x = x - x.mean(axis=1, keepdims=True)
    sums, squares = np.cumsum(x, axis=1), np.cumsum(x * x, axis=1)
    k = np.arange(least(n), n - least(n) + 1)
    a, b = sums[:, k - 1], sums[:, -1:] - sums[:, k - 1]
    within = squares[:, -1:] - a * a / k - b * b / (n - k)
    return (b / (n - k) - a / k) / np.sqrt(np.maximum(within, 1e-300) / (n - 2))


SHAPES = [
    lambda size: rng.normal(size=size),
    lambda size: rng.uniform(size=size),
    lambda size: rng.exponential(size=size),
    lambda size: rng.standard_t(2, size=size),
    lambda size: rng.standard_t(3, size=size),
]

for n in (6, 8, 13, 20, 40):
    for apart in (0.0, 8.0):
        x = np.round(rng.normal(size=n) + apart * (np.arange(n) < n * 0.4), 6)
        x.sort()
        every = []
        for k in range(least(n), n - least(n) + 1):
            a, b = x[:k], x[k:]
            within = ((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()
            every.append(((b.mean() - a.mean()) / np.sqrt(within / (n - 2)), k))
        most, k = max(every)
        print("separation", " ".join(map(repr, map(float, x))), k, repr(float(most)), sep="\t")

for n in (6, 7, 8, 9, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000):
    samples = min(200_000, 20_000_000 // n)
    drawn = lambda shape: np.sort(shape((samples, n)), axis=1)
    critical = max(np.quantile(separations(drawn(shape)).max(axis=1), 0.99) for shape in SHAPES)
    print("critical", n, repr(round(float(critical), 3)), sep="\t")
    if n in (8, 12, 20, 50):
        dip = np.quantile([dipstat(row) for row in np.sort(rng.uniform(size=(20_000, n)), axis=1)], 0.99)
        for apart in (4, 6, 8, 11):
            x = np.sort(rng.normal(size=(5_000, n)) + apart * (np.arange(n) < n * 0.4), axis=1)
            found = np.mean(separations(x).max(axis=1) > critical)
            by_dip = np.mean([dipstat(row) > dip for row in x])
            print("power", n, apart, repr(round(float(found), 3)), repr(round(float(by_dip), 3)), sep="\t")
