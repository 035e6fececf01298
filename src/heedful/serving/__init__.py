"""The HTTP service around trained models."""
