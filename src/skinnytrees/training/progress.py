"""Showing how training goes: a tqdm bar when tqdm is installed, plain lines otherwise, nothing by default."""

import contextlib
import importlib.util
import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skinnytrees.training.loop import EpochReport

Show = Callable[["EpochReport"], None]


@contextlib.contextmanager
def progress_bar(n_epochs: int, verbose: int) -> Iterator[Show]:
    """Give a function that shows one epoch's report."""
    every = max(1, n_epochs // 20) if verbose == 1 else 1
    with _shown(verbose, lambda report: _print_epoch(report, n_epochs, every), total=n_epochs, unit="epoch") as show:
        yield show


@contextlib.contextmanager
def path_progress(verbose: int) -> Iterator[Show]:
    """Give a function that shows the report of one size of the path; how many there will be is not known before."""
    with _shown(verbose, _print_size, total=None, unit="size") as show:
        yield show


@contextlib.contextmanager
def count_progress(total: int, verbose: int, unit: str) -> Iterator[Callable[[], None]]:
    """Give a function to be called when one of ``total`` units of work is done."""
    if verbose <= 0:
        yield lambda: None
    elif importlib.util.find_spec("tqdm") is None:
        done = itertools.count(1)
        yield lambda: print(f"{unit} {next(done)}/{total}", flush=True)
    else:
        from tqdm.auto import tqdm

        with tqdm(total=total, unit=unit) as bar:

            def show() -> None:
                bar.update()

            yield show


@contextlib.contextmanager
def _shown(verbose: int, print_line: Show, **bar_settings: Any) -> Iterator[Show]:
    if verbose <= 0:
        yield lambda report: None
    elif importlib.util.find_spec("tqdm") is None:
        yield print_line
    else:
        from tqdm.auto import tqdm

        with tqdm(**bar_settings) as bar:

            def show(report: "EpochReport") -> None:
                bar.set_postfix(_numbers_of(report))
                bar.update()

            yield show


def _numbers_of(report: "EpochReport") -> dict[str, str]:
    """What a bar shows; a missing validation loss is left out."""
    losses = {"loss": report.loss, "validation": report.val_loss}
    shown = {name: f"{loss:.4g}" for name, loss in losses.items() if not math.isnan(loss)}
    return {**shown, "features": str(report.n_features)}


def _print_epoch(report: "EpochReport", n_epochs: int, every: int) -> None:
    done = report.epoch + 1
    if done % every == 0 or done == n_epochs:
        print(f"epoch {done:>4}/{n_epochs}  loss {report.loss:.4g}  features {report.n_features}", flush=True)


def _print_size(report: "EpochReport") -> None:
    validation = "" if math.isnan(report.val_loss) else f"  validation loss {report.val_loss:.4g}"
    print(f"features {report.n_features:>6}  training loss {report.loss:.4g}{validation}", flush=True)
