"""Metrics, each reported with what is needed to reproduce it."""
