"""What a training is fitted to the data, the machine and the time with."""
