"""Turning a model's predictions into text: search and sampling, batched, with cached keys and values."""
