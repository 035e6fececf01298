"""Corpora in, batches out. This room knows no model."""
