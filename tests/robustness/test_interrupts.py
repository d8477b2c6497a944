"""Ctrl-C during fits on several threads: they end soon, with a model if there is one."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

# Seconds after which a process is killed that does not end by itself: much longer than an epoch, so that a busy machine does not
# matter, and much shorter than any of the fits below.
PATIENCE = 120
# A shell that starts the tests in the background lets them ignore Ctrl-C; the program does not.
FIT = """
import signal
import numpy as np
from skinnytrees import SkinnyTreesClassifier

signal.signal(signal.SIGINT, signal.default_int_handler)

def say(line):
    print(line, flush=True)

def fitted(n_rows, max_epochs, callback):
    X = np.random.default_rng(0).normal(size=(n_rows, 12))
    model = SkinnyTreesClassifier(3, n_jobs=2, max_epochs=max_epochs, callbacks=[callback], random_state=0, {options})
    return model.fit(X, X[:, 0] * X[:, 1] > 0)

fitted(100, 2, lambda report: None)  # compiles
say("begin")
try:
    say(f"model of {{fitted({n_rows}, 3_000_000, lambda report: say(report.n_features)).n_features_selected_}}")
except KeyboardInterrupt:
    say("KeyboardInterrupt")
"""


def interrupted_fit(options, n_rows, after):
    """Last line on standard output and standard error of a fit that gets Ctrl-C a second after a line."""
    program = [sys.executable, "-c", FIT.format(options=options, n_rows=n_rows)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        while process.stdout.readline().strip() not in {after, ""}:
            pass
        time.sleep(1)
        assert process.poll() is None, "the fit is over already"
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate()
        watchdog.cancel()
        return out.splitlines()[-1], err


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize(
    ("options", "n_rows", "after", "last_line", "message"),
    [
        # Nothing is reported before the folds are over, and there is no model yet.
        ("cv=3", 8000, "begin", "KeyboardInterrupt", ""),
        # The smallest size is the last; then comes the final ensemble, of many epochs.
        ("validation_fraction=0.2", 400, "1", "model of", "The final ensemble was interrupted"),
    ],
    ids=["folds", "final ensemble"],
)
def test_ctrl_c_ends_trainings_on_several_threads_long_before_their_last_epoch(
    options, n_rows, after, last_line, message
):
    """The fits would take most of an hour; a process that goes on is killed before it prints its last line."""
    out, err = interrupted_fit(options, n_rows, after)
    assert out.startswith(last_line), err
    assert message in err
    assert err.count("interrupted") == bool(message), "threads do not warn on their own"
