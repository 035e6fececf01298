"""The machine: devices and precision, processes and shared memory, files written safely, what a person sees, a run's log."""
