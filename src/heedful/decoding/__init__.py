"""Decoding: greedy search, beam search and sampling, in batches and with cached keys and values."""
