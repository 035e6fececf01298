"""Whole models, assembled from `nn/`, and their named sizes."""

from heedful.models.registry import MODEL_KINDS, build_model, config_class, kind_of

__all__ = ["MODEL_KINDS", "build_model", "config_class", "kind_of"]
