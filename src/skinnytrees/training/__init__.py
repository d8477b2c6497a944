"""Training at a fixed support or under a penalty: the loop, and one runner for each kind of epoch."""
