"""GPT-2 models against transformers, with their vocabularies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop_models import TEXTS, batch, same_tensors, shake
from tokenizers import ByteLevelBPETokenizer

from heedful.errors import HeedfulError
from heedful.interop import gpt2
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.interop.known_settings import sentence
from heedful.models.gpt import GPTConfig
from heedful.pipelines import load_pipeline

VARIANTS: list[dict[str, Any]] = [
    {},
    {"n_inner": 20, "activation_function": "relu", "n_layer": 3},
    {"tie_word_embeddings": False, "activation_function": "silu", "layer_norm_epsilon": 1e-3},
    {"activation_function": "gelu", "n_head": 1, "reorder_and_upcast_attn": True},
]


def write_vocabulary(folder: Path) -> int:
    """Write a byte-level vocab.json and merges.txt like GPT-2's; returns the number of tokens."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXTS, vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.save_model(str(folder))
    return int(tokenizer.get_vocab_size())


def build(folder: Path, seed: int = 0, bare: bool = False, **settings: Any) -> Any:
    """A small random GPT-2 in a directory."""
    folder.mkdir()
    size = write_vocabulary(folder)
    sizes = {"vocab_size": size + 3, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 64}
    config = transformers.GPT2Config(**{**sizes, "bos_token_id": 0, "eos_token_id": 0, **settings})
    torch.manual_seed(seed)
    model = shake((transformers.GPT2Model if bare else transformers.GPT2LMHeadModel)(config), seed)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_a_gpt2_gives_the_outputs_of_transformers_and_exports_unchanged(
    variant: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    model = build(tmp_path / "theirs", seed, **variant)
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    ours = load_pipeline(tmp_path / "ours").model
    tokens, mask = batch(ours.config.vocab, [9, 2, 6], seed)
    theirs = model(input_ids=tokens, attention_mask=mask.long()).logits
    assert torch.allclose(theirs[mask], ours.project(ours.states(tokens, mask))[mask], atol=1e-4)

    export_huggingface(tmp_path / "ours", tmp_path / "back")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    assert same_tensors(model, again)
    assert torch.equal(again(input_ids=tokens, attention_mask=mask.long()).logits, theirs)


def test_a_bare_model_without_a_prefix_and_with_stored_masks_is_read_as_a_language_model(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = build(tmp_path / "theirs", bare=True)
    path = tmp_path / "theirs" / "model.safetensors"
    masks = {f"h.{layer}.attn.bias": torch.ones(1, 1, 64, 64).tril() for layer in range(2)}
    masks["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    save_file({**load_file(path), **masks}, path, metadata={"format": "pt"})
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    ours = load_pipeline(tmp_path / "ours").model
    tokens, _ = batch(ours.config.vocab, [8], 0)
    with torch.no_grad():
        assert torch.allclose(model(tokens).last_hidden_state, ours.states(tokens), atol=1e-4)


def test_the_tokenizer_equals_that_of_transformers_and_exports_unchanged(tmp_path: Path) -> None:
    build(tmp_path / "theirs")
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path / "theirs")
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    writer = load_pipeline(tmp_path / "ours")
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    back = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in [*TEXTS, "  two  spaces\nand a line 😀", ""]:
        ids = theirs(text).input_ids
        assert writer.tokenizer.encode(text) == ids == back(text).input_ids
        assert writer.tokenizer.decode(ids) == text
    assert writer.tokenizer.eos == writer.tokenizer.bos == writer.tokenizer.pad == theirs.eos_token_id
    assert back.eos_token == "<|endoftext|>"


def test_greedy_generation_equals_that_of_transformers(tmp_path: Path) -> None:
    model = build(tmp_path / "theirs", 5)
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    writer = load_pipeline(tmp_path / "ours")
    prompt = writer.tokenizer.encode("The fox")
    ids = torch.tensor([[writer.tokenizer.eos, *prompt]])
    found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, pad_token_id=0)
    wanted = [token for token in found[0, ids.size(1) :].tolist() if token != 0]
    assert writer.search(["The fox"], length=20, beam=1)[0].tokens == wanted


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True (only False)"),
        ({"scale_attn_weights": False}, "scale_attn_weights = False (only True)"),
        ({"add_cross_attention": True}, "add_cross_attention = True (only False)"),
        ({"activation_function": "quick_gelu"}, "activation_function = 'quick_gelu', which heedful does not have"),
        ({"n_head": 5}, "d_model 12 is not divisible by heads 5"),
        ({"architectures": ["GPT2DoubleHeadsModel"]}, "heedful reads only GPT2LMHeadModel and GPT2Model"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"n_layer": 10**9}, "n_layer = 1000000000, but there are only 28 tensors"),
    ],
)
def test_settings_without_a_counterpart_are_named(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    build(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(HeedfulError) as error:
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert says in str(error.value)
    assert not (tmp_path / "ours").exists()


def test_our_models_that_gpt2_cannot_express_are_not_exported() -> None:
    said = sentence("transformers", gpt2.obstacles(GPTConfig(5, d_model=8, heads=2, norm="post", positions="relative")))
    assert "norm = 'post' (only 'pre')" in said
    assert "positions = 'relative' (only 'learned'); train with model.norm=pre" in said


def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    build(tmp_path / "theirs")
    merges = tmp_path / "theirs" / "merges.txt"
    merges.write_text(merges.read_text(encoding="utf-8") + "one two three\n", encoding="utf-8")
    with pytest.raises(HeedfulError, match=r"vocab.json and merges.txt in .* are not a valid vocabulary"):
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    merges.unlink()
    with pytest.raises(HeedfulError, match=r"neither a tokenizer.json nor a vocab.json with a merges.txt"):
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")
