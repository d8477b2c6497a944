"""Showing how training goes: a tqdm bar when tqdm is installed, plain lines otherwise, nothing by default."""

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skinnytrees.training import EpochReport


@contextlib.contextmanager
def progress_bar(n_epochs: int, verbose: int) -> Iterator[Callable[["EpochReport"], None]]:
    """Give a function that shows one epoch's report."""
    if verbose <= 0:
        yield lambda report: None
    elif importlib.util.find_spec("tqdm") is None:
        every = max(1, n_epochs // 20) if verbose == 1 else 1
        yield lambda report: _print_line(report, n_epochs, every)
    else:
        from tqdm.auto import tqdm

        with tqdm(total=n_epochs, unit="epoch") as bar:

            def show(report: "EpochReport") -> None:
                bar.set_postfix(loss=f"{report.loss:.4g}", features=report.n_features)
                bar.update()

            yield show


def _print_line(report: "EpochReport", n_epochs: int, every: int) -> None:
    done = report.epoch + 1
    if done % every == 0 or done == n_epochs:
        print(f"epoch {done:>4}/{n_epochs}  loss {report.loss:.4g}  features {report.n_features}", flush=True)


def print_report(report: "EpochReport") -> None:
    """One line a size of the path."""
    validation = "" if report.val_loss != report.val_loss else f"  validation loss {report.val_loss:.4g}"
    print(f"features {report.n_features:>6}  training loss {report.loss:.4g}{validation}", flush=True)


def ignore_report(report: "EpochReport") -> None:
    """Nothing."""
