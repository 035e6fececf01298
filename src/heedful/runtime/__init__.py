"""The machine: devices and precision, processes and shared memory, safe file writing, terminal output, a run's log."""
