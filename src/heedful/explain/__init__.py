"""Attention kept and drawn."""
