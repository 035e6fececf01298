"""Inference with trained models, one file per job: text or images in, typed results out."""

from heedful.pipelines.load import load_pipeline

__all__ = ["load_pipeline"]
