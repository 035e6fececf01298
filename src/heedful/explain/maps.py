"""The attention of every layer and head for one input (SPEC 20)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.data.batches import collate
from heedful.decoding.translator import Translator
from heedful.nn.attention import keep_attention


@dataclass(frozen=True)
class AttentionMaps:
    """Who looked where. Each kind is a list over layers of weights (H, queries, keys); rows sum to one."""

    source: list[str]  # L source tokens, the end included
    inputs: list[str]  # T target tokens as the decoder read them: begin, then the translation
    outputs: list[str]  # T target tokens as it wrote them: the translation, then the end
    encoder: list[NDArray[np.float32]]  # (H, L, L)
    decoder: list[NDArray[np.float32]]  # (H, T, T)
    cross: list[NDArray[np.float32]]  # (H, T, L)


@torch.no_grad()
def attention_maps(translator: Translator, text: str) -> AttentionMaps:
    """Translate a text and keep every attention on the way."""
    model = translator.model.eval()
    source_ids = translator.source_tokenizer.encode(text)
    found = translator.search([text])[0]
    target_ids = found[0].tokens if found else []
    rows = [np.array(source_ids, dtype=np.uint32)], [np.array(target_ids, dtype=np.uint32)]
    batch = collate(*rows, translator.special).to(translator.device)
    with keep_attention(model) as attentions:
        model.states(batch.source, batch.target_in, batch.source_mask)

        def of(part: str, kind: str) -> list[NDArray[np.float32]]:
            found = [a.weights for name, a in attentions.items() if name.startswith(part) and name.endswith(kind)]
            return [weights[0].float().cpu().numpy() for weights in found if weights is not None]

        written = translator.target_tokenizer.tokens(target_ids)
        return AttentionMaps(
            source=[*translator.source_tokenizer.tokens(source_ids), "⟨end⟩"],
            inputs=["⟨begin⟩", *written],
            outputs=[*written, "⟨end⟩"],
            encoder=of("encoder", "self_attention"),
            decoder=of("decoder", "self_attention"),
            cross=of("decoder", "cross_attention"),
        )
