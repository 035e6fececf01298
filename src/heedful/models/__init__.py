"""Whole models, thinly assembled from `nn/`, and their named sizes."""
