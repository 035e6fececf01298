"""Chooses training settings that fit the data, the machine and the time."""
