"""The training loop and what it stands on: schedule, loss, checkpoints, processes."""
