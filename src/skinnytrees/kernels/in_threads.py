"""The parts of a step as kernels of their own, for threads that share its products."""

from skinnytrees.kernels import active_set, epoch
from skinnytrees.kernels.compilation import kernel

gather_batch = kernel(active_set.gather_batch.py_func)
add_scores = kernel(active_set.add_scores.py_func)
begin_step = kernel(active_set.begin_step.py_func)
step_on_blocks = kernel(active_set.step_on_blocks.py_func)
middle_of_step = kernel(epoch.middle_of_step.py_func)
drop_dead = kernel(active_set.drop_dead.py_func)
