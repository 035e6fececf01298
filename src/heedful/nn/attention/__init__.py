"""Attention kinds, one file per kind: how queries attend to keys once everything is projected and split into heads."""
