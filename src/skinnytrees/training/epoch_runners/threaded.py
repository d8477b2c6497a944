"""Epochs in which groups enter and leave, with the large products of a step distributed over threads."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.active_set import count_pieces
from skinnytrees.kernels.state import Schedule
from skinnytrees.kernels.work_queue import close, make_work_queue, work_until_closed
from skinnytrees.threads import one_blas_thread
from skinnytrees.training.epoch_runners.active_set import ActiveSetRunner


class ThreadedRunner(ActiveSetRunner):
    """The same steps, bit for bit, with large products distributed over threads."""

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        if count_pieces.py_func(self.task.batch_size, self.active.n_alive[1], self.trees.W.shape[1]) == 1:
            return super().epoch(schedule, order)
        queue = self.queue = make_work_queue()
        shared = queue, self.trees, self.active, self.work
        with ThreadPoolExecutor(self.task.n_threads - 1) as pool:
            for _ in range(self.task.n_threads - 1):
                pool.submit(one_blas_thread()(work_until_closed), *shared, lambda: time.sleep(0))
            try:
                return super().epoch(schedule, order)
            finally:
                close(queue)
