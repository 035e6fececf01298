"""Hugging Face models, converted to heedful's and back."""
