"""Training at a fixed support or under a penalty: the loop, and one runner per way to run an epoch."""
