"""Other people's weights: models of Hugging Face read into heedful's, and heedful's written for them."""

from heedful.interop.huggingface import export_huggingface, import_huggingface

__all__ = ["export_huggingface", "import_huggingface"]
