"""temporary"""
import numpy as np
from typing import Any
Comparison = Any
Scorer = Any
class LossComparison:
    def __init__(self, losses, weight):
        self.losses=losses; self.f=weight/weight.sum(); self.mean=losses@self.f
    def error_of_difference(self,to):
        e=self.losses-self.losses[to]
        return np.sqrt(((e-(e@self.f)[:,None])**2)@self.f**2)
    def error(self):
        return np.sqrt(((self.losses-self.mean[:,None])**2)@self.f**2)
class ScoreComparison: ...
def no_worse(c,tol,own=False):
    b=int(np.argmin(c.mean)); n=c.error_of_difference(b)
    if own: n=np.maximum(n,c.error()[b])
    return c.mean-c.mean[b]<=tol*n
