"""Training: the loop, schedule, optimizers, checkpoints, and the run directory around them."""
