"""Oracle values for change points by MongoDB's signal-processing-algorithms.

    pip install signal-processing-algorithms
    python scripts/oracles/e_divisive.py > crates/results/stats/src/oracles/e_divisive.tsv

One row a case: the series, the change points found (0-based index of the first
value of the new level), and the statistic of every first split.
"""

from importlib.metadata import version

import numpy as np
from signal_processing_algorithms.energy_statistics.energy_statistics import (
    _calculate_t_stats,
    _convert,
    _get_distance_matrix,
    e_divisive,
)

rng = np.random.default_rng(20261121)
np.random.seed(1)
print(f"# signal-processing-algorithms {version('signal-processing-algorithms')}; written by scripts/oracles/e_divisive.py")


def case(levels, noise):
    x = np.concatenate([level + noise * rng.standard_normal(count) for level, count in levels])
    x = np.round(x, 6)
    found = sorted(e_divisive(list(x), pvalue=0.01, permutations=499))
    t = _calculate_t_stats(_get_distance_matrix(_convert(list(x))), use_c_if_possible=False)
    print("series", " ".join(map(repr, map(float, x))), " ".join(map(str, map(int, found))) or "-",
          " ".join(repr(float(v)) for v in t), sep="\t")


case([(7.0, 40)], 0.02)
case([(7.0, 20), (7.1, 20)], 0.02)
case([(7.0, 15), (6.9, 25), (7.05, 20)], 0.02)
case([(7.0, 30), (7.05, 10)], 0.01)
case([(7.0, 12), (7.3, 12), (7.0, 12), (6.8, 12)], 0.03)
case([(7.0, 25)], 0.10)
