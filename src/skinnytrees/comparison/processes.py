"""Tasks in separate processes: a task that fails, hangs or takes too much memory does not affect the others."""

import contextlib
import multiprocessing
import os
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import joblib

try:
    import cloudpickle
except ImportError:  # joblib before 1.6 carries it inside
    from joblib.externals import cloudpickle

from skinnytrees.comparison.tasks import Task, run_task

# A server that has imported what tasks need makes processes in milliseconds; where there is none, each imports for itself.
_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


class _Running:
    """A running task and its process."""

    def __init__(self, context: Any, task: Task, data_file: str, memory_limit: float | None) -> None:
        self.task, self.start = task, time.monotonic()
        self.answer, child = context.Pipe(duplex=False)
        # By value, so that estimators which the user's own program defines can be read there.
        work = cloudpickle.dumps(task), data_file, memory_limit, child
        self.process = context.Process(target=_work, args=work, daemon=True)
        with _without_main():
            self.process.start()
        child.close()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def result(self, time_limit: float) -> dict[str, Any] | None:
        """The result of the task, or the reason why it has none; None while it runs.

        Its time is counted from the message that it has started: the start of a process is not part of a fit.
        """
        while self.answer.poll():
            try:
                result: dict[str, Any] | str = self.answer.recv()
            except EOFError:
                break
            if isinstance(result, dict):
                self.end()
                return result
            self.start = time.monotonic()
        if self.seconds > time_limit:
            self.end()
            return {"error": f"stopped after {time_limit:g} s"}
        if not self.process.is_alive():
            code = self.process.exitcode
            self.end()
            killed = code is not None and code < 0
            return {
                "error": f"ended by signal {-code} (out of memory?)" if killed and code else f"ended with code {code}"
            }
        return None

    def end(self) -> None:
        """Kill the process if it still runs, and wait for it."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.answer.close()


def run_tasks(
    tasks: Sequence[Task], data_file: str, n_jobs: int, time_limit: float, memory_limit: float | None
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Results as they are finished, up to ``n_jobs`` tasks at a time; an interrupted caller leaves no process behind."""
    context = multiprocessing.get_context(_METHOD)
    if _METHOD == "forkserver":
        context.set_forkserver_preload(["skinnytrees.comparison.tasks"])
    waiting, running = list(reversed(tasks)), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                running.append(_Running(context, waiting.pop(), data_file, memory_limit))
            left = min(max(0.0, time_limit - one.seconds) for one in running)
            wait(
                [one.answer for one in running] + [one.process.sentinel for one in running],
                timeout=min(left, 60.0) + 0.05,
            )
            for one in list(running):
                result = one.result(time_limit)
                if result is not None:
                    running.remove(one)
                    yield one.task, {"error": "", "seconds": one.seconds, **result}
    finally:
        for one in running:
            one.end()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hide the user's program: a new process would run it again, unless it guards itself by ``__name__``."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(pickled: bytes, data_file: str, memory_limit: float | None, answer: Connection) -> None:
    """In the process: run the task and send its result, or the error in one line."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        if memory_limit is not None:
            _limit_memory(memory_limit)
        X, y = joblib.load(data_file)
        answer.send("started")
        result = run_task(cloudpickle.loads(pickled), X, y)
    except MemoryError:
        limit = "the machine has" if memory_limit is None else f"the limit of {memory_limit / 1e9:.1f} GB allows"
        result = {"error": f"needs more memory than {limit}"}
    except BaseException as error:
        # Whatever a system raises, the comparison continues, and the row of the fit has the reason.
        result = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]}
    result["peak_memory"] = _peak_memory()
    answer.send(result)
    answer.close()


def _end_with_parent() -> None:
    """End this process when the comparison ends, even if it was killed and could not end its tasks."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _limit_memory(n_bytes: float) -> None:
    with contextlib.suppress(ImportError, ValueError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(n_bytes), int(n_bytes)))


def _peak_memory() -> float | None:
    """Most memory that this process has held, in bytes."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def machine_memory() -> float | None:
    """Memory of the machine in bytes, or None where it cannot be found out."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None
