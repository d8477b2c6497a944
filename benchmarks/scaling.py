"""What a default fit costs on wide, sparse and long data, and how that grows with columns and with rows.

``python -m benchmarks.scaling`` prints seconds, memory and log-log slopes and draws ``docs/scaling.png``. Random data of two
classes with fixed seeds, 20 columns of them with signal; ``SkinnyTreesClassifier(feature_budget=20)``, kernels compiled
before the clock starts. Needs the extra ``plots``.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.plots.style import ACCENT, INK, PALE

N_SIGNAL = 20
PICTURE = Path(__file__).parents[1] / "docs" / "scaling.png"


class Sizes(NamedTuple):
    """Rows and columns of everything that is fitted."""

    dense: tuple[int, int]
    sparse: tuple[int, int]
    columns: tuple[int, ...]
    at_rows: int
    rows: tuple[int, ...]
    at_columns: int
    picture: Path


FULL = Sizes(
    dense=(187, 20_000), sparse=(800, 100_000),
    columns=(1000, 3000, 10_000, 30_000, 100_000), at_rows=200,
    rows=(1000, 3000, 10_000, 30_000, 100_000), at_columns=30,
    picture=PICTURE,
)  # fmt: skip
QUICK = Sizes(
    dense=(100, 500), sparse=(100, 2000), columns=(100, 200, 400, 800), at_rows=100, rows=(100, 200, 400, 800),
    at_columns=30, picture=Path("output/scaling.png"),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the program")
    sizes = QUICK if parser.parse_args().quick else FULL
    # The sparse fit comes first: a new process starts with the peak memory of the one that started it.
    report_sparse(*sizes.sparse)
    report_dense(*sizes.dense)
    by_columns = [seconds_of_dense_fit(sizes.at_rows, p) for p in sizes.columns]
    report_growth(f"columns at {sizes.at_rows} rows", sizes.columns, by_columns)
    by_rows = [seconds_of_dense_fit(n, sizes.at_columns) for n in sizes.rows]
    report_growth(f"rows at {sizes.at_columns} columns", sizes.rows, by_rows)
    draw(sizes, by_columns, by_rows)


# ------------------------------------------------------------------------------------------------ data and fits


def dense_rows(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian columns; the means of the two classes differ by one in the columns with signal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns))
    y = rng.integers(0, 2, n_rows)
    X[:, :N_SIGNAL] += y[:, None]
    return X, y


def sparse_rows(n_rows: int, n_columns: int, fraction_of_ones: float = 0.01) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Zeros and ones; a column with signal is one in about a third of the second class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    per_row = round(n_columns * fraction_of_ones)
    noise = (np.repeat(np.arange(n_rows), per_row), rng.integers(0, n_columns, n_rows * per_row))
    signal = np.nonzero((rng.random((n_rows, N_SIGNAL)) < 0.3) & (y[:, None] == 1))
    cells = np.concatenate([noise, signal], axis=1)
    X = sparse.csr_matrix((np.ones(cells.shape[1], dtype=np.float32), cells), shape=(n_rows, n_columns))
    X.data[:] = 1  # a cell that was drawn twice
    return X, y


def seconds_of_fit(X: Any, y: np.ndarray) -> float:
    started = time.perf_counter()
    SkinnyTreesClassifier(feature_budget=N_SIGNAL, random_state=0).fit(X, y)
    return time.perf_counter() - started


def seconds_of_dense_fit(n_rows: int, n_columns: int) -> float:
    """The faster of two fits."""
    X, y = dense_rows(n_rows, n_columns)
    return min(seconds_of_fit(X, y) for _ in range(2))


# ------------------------------------------------------------------------------------------------ reports


def report_dense(n_rows: int, n_columns: int) -> None:
    seconds = seconds_of_dense_fit(n_rows, n_columns)
    print(f"dense {n_rows} x {n_columns}: {seconds:.2f} s", flush=True)


def report_sparse(n_rows: int, n_columns: int) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh_process:
        seconds, before, peak = fresh_process.submit(measure_sparse, n_rows, n_columns).result()
    print(
        f"sparse {n_rows} x {n_columns}: {seconds:.2f} s, peak {peak:.0f} MB, of which {before:.0f} MB before the fit"
    )


def measure_sparse(n_rows: int, n_columns: int) -> tuple[float, float, float]:
    """Seconds of a fit, and the process's peak memory before and after it."""
    seconds_of_fit(*sparse_rows(60, 100))  # compiles, or loads what was compiled
    seconds_of_fit(*dense_rows(450, 40))
    X, y = sparse_rows(n_rows, n_columns)
    before = peak_megabytes()
    return seconds_of_fit(X, y), before, peak_megabytes()


def peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def report_growth(title: str, sizes: tuple[int, ...], seconds: list[float]) -> None:
    print(f"\n{title}")
    for size, taken in zip(sizes, seconds, strict=True):
        print(f"{size:>8} {taken:>8.2f} s")
    print(f"log-log slope {slopes(sizes, seconds)}", flush=True)


def slopes(sizes: tuple[int, ...], seconds: list[float]) -> str:
    """The power of the size with which seconds grow, overall and in the upper half of the sizes."""
    half = len(sizes) // 2
    return f"{slope(sizes, seconds):.2f}, from {sizes[half]:,} on {slope(sizes[half:], seconds[half:]):.2f}"


def slope(sizes: tuple[int, ...], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


# ------------------------------------------------------------------------------------------------ picture


def draw(sizes: Sizes, by_columns: list[float], by_rows: list[float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    draw_growth(left, "columns", f"{sizes.at_rows:,} rows", sizes.columns, by_columns)
    draw_growth(right, "rows", f"{sizes.at_columns} columns", sizes.rows, by_rows)
    left.set_ylabel("seconds of a default fit")
    sizes.picture.parent.mkdir(exist_ok=True)
    figure.savefig(sizes.picture, dpi=130)


def draw_growth(ax: Any, what: str, title: str, sizes: tuple[int, ...], seconds: list[float]) -> None:
    """Measured seconds, and a line of slope one through the last of them."""
    proportional = seconds[-1] * np.array(sizes) / sizes[-1]
    ax.loglog(sizes, proportional, "--", color=PALE, linewidth=1.5, label=f"proportional to {what}: slope 1")
    ax.loglog(
        sizes, seconds, "o-", color=INK, markersize=5, linewidth=1.5, label=f"measured: slope {slopes(sizes, seconds)}"
    )
    for i in (0, -1):
        ax.annotate(
            f"{seconds[i]:.1f} s", (sizes[i], seconds[i]), xytext=(0, 7), textcoords="offset points", ha="center",
            color=ACCENT,
        )  # fmt: skip
    ax.margins(x=0.08, y=0.22)  # room for the legend above the curve
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(f"number of {what}")
    ax.set_title(title)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left", fontsize=9)


if __name__ == "__main__":
    main()
