"""Marian models against transformers: the same outputs, and the same tensors when exported again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop_models import TEXTS, batch, same_tensors, shake, write_marian_vocabulary
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.interop import marian
from heedful.interop.foreign_config import ForeignConfig
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.interop.known_settings import sentence
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.models.weights import load_weights, named_weights
from heedful.pipelines import load_pipeline
from heedful.recipes import load_recipe
from heedful.runtime.screen import Silence
from heedful.training.run import train

VARIANTS: list[dict[str, Any]] = [
    {"activation_function": "swish", "scale_embedding": True},
    {"d_model": 15, "activation_function": "gelu", "scale_embedding": False},
    {"activation_function": "relu", "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 23},
    {"activation_function": "gelu_new", "tie_word_embeddings": False},
    {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, "decoder_vocab_size": 29, "d_model": 21},
]


def build(seed: int = 0, **settings: Any) -> Any:
    """A small random Marian model."""
    sizes = {
        "vocab_size": 19,
        "d_model": 12,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 8,
        "decoder_ffn_dim": 8,
        "max_position_embeddings": 40,
        "pad_token_id": 18,
        "eos_token_id": 0,
        "decoder_start_token_id": 18,
        "forced_eos_token_id": None,
    }
    torch.manual_seed(seed)
    return shake(transformers.MarianMTModel(transformers.MarianConfig(**{**sizes, **settings})), seed)


def stored(model: Any, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config.json and the tensors that transformers writes."""
    from safetensors.torch import load_file

    model.save_pretrained(folder)
    return json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")


@torch.no_grad()
def logits(model: Any, ours: Seq2Seq, seed: int) -> tuple[Tensor, Tensor]:
    """The logits of both for one padded batch, at the target positions that are not padding."""
    source, source_mask = batch(ours.config.source_vocab, [9, 1, 5], seed)
    target, target_mask = batch(ours.config.target_vocab, [3, 7, 6], seed + 1)
    theirs = model(
        input_ids=source,
        attention_mask=source_mask.long(),
        decoder_input_ids=target,
        decoder_attention_mask=target_mask.long(),
    ).logits
    return theirs[target_mask], ours.project(ours.states(source, target, source_mask, target_mask))[target_mask]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_marian_model_gives_the_outputs_of_transformers_and_exports_unchanged(
    variant: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    model = build(seed, **variant)
    values, tensors = stored(model, tmp_path / "theirs")
    config, weights = marian.to_heedful(ForeignConfig(values, "config.json"), tensors, "model.safetensors")
    ours = Seq2Seq(config).eval()
    load_weights(ours, weights, "import")
    theirs, own = logits(model, ours, seed)
    assert torch.allclose(theirs, own, atol=1e-4)
    assert theirs.std() > 0.1  # not all equal, so that the comparison is meaningful

    back, tensors = marian.to_huggingface(config, named_weights(ours))
    again = transformers.MarianMTModel(transformers.MarianConfig(**{**values, **back})).eval()
    missing = again.load_state_dict(tensors, strict=False)
    assert not missing.unexpected_keys
    again.tie_weights()
    assert torch.allclose(logits(again, ours, seed)[0], theirs, atol=1e-4)
    kept = {name: tensor for name, tensor in model.state_dict().items() if name != "model.shared.weight"}
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in kept.items())


def test_reordering_features_changes_no_output() -> None:
    torch.manual_seed(0)
    plain = Seq2Seq(Seq2SeqConfig(11, 11, layers=2, d_model=12, d_ff=8, heads=3, positions="none")).eval()
    other = Seq2Seq(plain.config).eval()
    load_weights(other, marian.reorder_features(named_weights(plain), torch.randperm(12)), "reordered")
    source, target = torch.randint(0, 11, (2, 6)), torch.randint(0, 11, (2, 5))
    with torch.no_grad():
        assert torch.allclose(plain(source, target), other(source, target), atol=1e-5)
        assert not torch.equal(plain.output_weight, other.output_weight)


def test_a_shared_matrix_may_be_stored_under_every_name(tmp_path: Path) -> None:
    values, tensors = stored(build(), tmp_path)
    shared = tensors["model.shared.weight"]
    copies = {"lm_head.weight": shared.clone(), "model.encoder.embed_tokens.weight": shared.clone()}
    read = marian.to_heedful(ForeignConfig(values, "config.json"), {**tensors, **copies}, "file")[1]
    alone = {("lm_head.weight" if name == "model.shared.weight" else name): tensor for name, tensor in tensors.items()}
    assert torch.equal(read["output_weight"], marian.to_heedful(ForeignConfig(values, "c"), alone, "file")[1]["output_weight"])
    copies["lm_head.weight"] += 1
    with pytest.raises(HeedfulError, match=r"lm_head.weight differs from model.shared.weight, but heedful ties the two"):
        marian.to_heedful(ForeignConfig(values, "config.json"), {**tensors, **copies}, "file")


def test_stored_positions_are_left_out_when_they_are_sinusoidal_and_refused_when_not(tmp_path: Path) -> None:
    model = build(d_model=15)
    values, tensors = stored(model, tmp_path)
    name = "model.encoder.embed_positions.weight"
    tensors[name] = model.state_dict()[name].clone()
    marian.to_heedful(ForeignConfig(values, "config.json"), tensors, "file")
    tensors[name][3, 2] += 0.1
    with pytest.raises(HeedfulError, match=f"{name} in file is not a table of sinusoidal positions"):
        marian.to_heedful(ForeignConfig(values, "config.json"), tensors, "file")


def test_half_precision_is_read_exactly(tmp_path: Path) -> None:
    values, tensors = stored(build(), tmp_path)
    half = {name: tensor.half() for name, tensor in tensors.items()}
    weights = marian.to_heedful(ForeignConfig(values, "config.json"), half, "file")[1]
    assert weights["output_weight"].dtype == torch.float32
    order = marian.theirs_in_our_order(12)
    assert torch.equal(weights["output_weight"], half["model.shared.weight"].float()[:, order])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"activation_function": "tanh"}, "activation_function = 'tanh', which heedful does not have"),
        ({"decoder_ffn_dim": 16}, "encoder_ffn_dim = 8 but decoder_ffn_dim = 16; heedful uses the same value for both"),
        ({"decoder_attention_heads": 2}, "encoder_attention_heads = 3 but decoder_attention_heads = 2"),
        ({"normalize_before": True}, "normalize_before = True (only False)"),
        ({"is_decoder": True, "add_cross_attention": True}, "is_decoder = True (only False), add_cross_attention = True"),
        ({"d_model": "wide"}, "d_model = 'wide', which is not a whole number"),
        ({"d_model": None}, "has no value for d_model"),
        ({"encoder_layers": 0}, "encoder_layers = 0, which must be at least 1"),
        ({"scale_embedding": 1}, "scale_embedding = 1, which is not true or false"),
        ({"architectures": ["MarianForCausalLM"]}, "heedful reads only MarianMTModel"),
    ],
)
def test_settings_without_a_counterpart_are_named(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    values, tensors = stored(build(), tmp_path)
    with pytest.raises(HeedfulError) as error:
        marian.to_heedful(ForeignConfig({**values, **change}, "x/config.json"), tensors, "file")
    assert says in str(error.value)
    assert str(error.value).startswith("x/config.json")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"norm": "pre"}, "norm = 'pre' (only 'post')"),
        ({"positions": "rotary", "reads": "mix"}, "positions = 'rotary' (only 'sinusoidal'), reads = 'mix' (only 'last')"),
        ({"d_k": 2, "d_v": 6}, "d_k = 2 (only d_model / heads = 4), d_v = 6 (only d_model / heads = 4); train with model.d_k=4"),
    ],
)
def test_our_models_that_marian_cannot_express_are_not_exported(settings: dict[str, Any], says: str) -> None:
    config = Seq2SeqConfig(5, 5, layers=1, d_model=8, d_ff=4, heads=2, **settings)
    assert says in sentence("transformers", marian.obstacles(config))


def with_vocabulary(folder: Path) -> Any:
    """A small model, and its vocabulary in a new folder."""
    folder.mkdir()
    size = write_marian_vocabulary(folder)
    ids = {"vocab_size": size, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    return build(3, scale_embedding=True, activation_function="swish", max_position_embeddings=200, **ids)


def test_an_imported_model_goes_on_learning_with_a_wider_vocabulary(tmp_path: Path) -> None:
    with_vocabulary(tmp_path / "theirs").save_pretrained(tmp_path / "theirs")
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "train.ko").write_text("".join(f"개가 {TEXTS[0]} {number % 7}\n" for number in range(40)), encoding="utf-8")
    (tmp_path / "train.de").write_text("".join(f"der Hund ist müde {number % 7}\n" for number in range(40)), encoding="utf-8")
    files = [f"data.source={tmp_path / 'train.ko'}", f"data.target={tmp_path / 'train.de'}"]
    quick = [
        "training.steps=2",
        "training.workers=1",
        "training.batch_tokens=200",
        "training.validate_every=2",
        "decoding.max_extra=9",
    ]
    start = [f"model.pretrained={tmp_path / 'ours'}", "tokenizer.extend=24"]
    train(load_recipe("translation", [*files, *quick, *start]), tmp_path / "run", Silence())
    before, after = load_pipeline(tmp_path / "ours"), load_pipeline(tmp_path / "run")
    size = before.model.config.target_vocab
    assert size < after.model.config.source_vocab == after.model.config.target_vocab <= size + 24
    assert after.source_tokenizer is not after.target_tokenizer
    old, new = (len(one.source_tokenizer.encode(TEXTS[0])) for one in (before, after))
    assert new < old, "it is in the new text, in many pieces"
    assert before.source_tokenizer.unk in before.source_tokenizer.encode("개가")
    assert after.source_tokenizer.unk not in after.source_tokenizer.encode("개가")
    assert after.target_tokenizer.decode(after.target_tokenizer.encode("der Hund ist müde")) == "der Hund ist müde"


def test_a_directory_translates_like_transformers_and_exports_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    model = with_vocabulary(folder)
    size = model.config.vocab_size
    model.generation_config.bad_words_ids = [[size - 1]]
    model.generation_config.num_beams = 2
    model.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, "source_lang": "en", "target_lang": "de"}), encoding="utf-8")

    said = import_huggingface(folder, tmp_path / "ours")
    assert "read a MarianMTModel of" in said
    assert "is a translation model" in said
    translator = load_pipeline(tmp_path / "ours")
    assert translator.beam == 2
    assert (translator.source_language, translator.target_language) == ("en", "de")
    assert translator.target_tokenizer.bos == translator.target_tokenizer.pad == size - 1

    export_huggingface(tmp_path / "ours", tmp_path / "back")
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back").eval()
    assert same_tensors(model, again)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in TEXTS[:3]:
        inputs = tokenizer(text, return_tensors="pt")
        assert inputs.input_ids[0].tolist() == [*translator.source_tokenizer.encode(text), translator.source_tokenizer.eos]
        greedy = translator.search([text], beam=1)[0][0].tokens
        longest = inputs.input_ids.size(1) + translator.max_extra  # ours stops there
        for whose in (model, again):
            found = whose.generate(**inputs, num_beams=1, do_sample=False, max_length=longest + 1)[0, 1:].tolist()
            assert [token for token in found if token != 0] == greedy

    import_huggingface(tmp_path / "back", tmp_path / "twice")
    twice = load_pipeline(tmp_path / "twice")
    assert twice.translate(TEXTS[:3]) == translator.translate(TEXTS[:3])
