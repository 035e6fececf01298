"""Corpora in, batches out. Nothing here depends on a model."""
