"""The Transformer: invariants of its output, its settings, and that it learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.decoding.search import greedy_search
from heedful.decoding.sentence import Limits
from heedful.errors import UsageError
from heedful.models.seq2seq import Reads, Seq2Seq, Seq2SeqConfig, make_model
from heedful.nn.decoder import DecoderLayer, LayerMix
from heedful.nn.loss import label_smoothed_loss
from heedful.nn.masks import padding_mask

READS = get_args(Reads)

VOCAB = 17
PAD, BOS, EOS = 0, 1, 2
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "positions": "learned", "max_positions": 4},
    {"positions": "linear-bias", "reads": "layerwise"},
    {"positions": "relative", "max_distance": 2, "activation": "gelu"},
    {"positions": "rotary", "reads": "mix", "decoder_layers": 3},
    {"positions": "none", "d_k": 3, "d_v": 5},
    {"attention_kind": "window", "window": 2},
    {"attention_kind": "window", "window": 1, "positions": "relative", "max_distance": 2},
    {"attention_kind": "longformer", "window": 1, "positions": "rotary"},
    {"attention_kind": "bigbird", "window": 1, "attention_block": 1, "random_blocks": 1, "positions": "linear-bias"},
    {"attention_kind": "linformer", "projected_length": 3, "max_positions": 12, "decoder_attention_kind": "reformer"},
]
variants = st.integers(0, len(VARIANTS) - 1)


@cache
def small(variant: int) -> Seq2Seq:
    """A small random model in eval mode."""
    torch.manual_seed(variant)
    sizes: dict[str, Any] = {"layers": 2, "d_ff": 32, "heads": 4}
    return make_model(VOCAB, VOCAB, 16, tie="all", **sizes, **VARIANTS[variant]).eval()


def with_padding(rows: list[list[int]], length: int, filler: int) -> tuple[Tensor, Tensor]:
    """Rows padded to a length with some token, and their mask."""
    tokens = torch.tensor([row + [filler] * (length - len(row)) for row in rows])
    return tokens, padding_mask(torch.tensor([len(row) for row in rows]), length)


sentence = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9)
pairs = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4)


# What it is


def test_make_model_builds_the_base_model_of_the_paper() -> None:
    model = make_model(input_vocab=10, output_vocab=10)
    src, src_mask = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[1, 1, 1, 1, 1]])
    tgt, tgt_mask = torch.tensor([[6, 7, 8, 0, 0]]), torch.tensor([[1, 1, 1, 0, 0]])
    assert model(src, tgt, src_mask, tgt_mask).argmax(dim=-1).shape == torch.Size([1, 5])
    config = model.config
    assert (config.layers, config.depth, config.d_model, config.d_ff, config.heads) == (6, 6, 512, 2048, 8)


def test_the_output_is_a_log_probability_of_every_target_token() -> None:
    model = make_model(7, 11, 8, layers=1, d_ff=8, heads=2)
    out = model(torch.randint(0, 7, (2, 3)), torch.randint(0, 11, (2, 5)))
    assert out.shape == (2, 5, 11)
    assert torch.allclose(out.exp().sum(-1), torch.ones(2, 5), atol=1e-5)


# What never changes an output


@settings(max_examples=30, deadline=None)
@given(variants, sentence, st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=9), st.data())
@torch.no_grad()
def test_a_future_token_never_changes_an_earlier_output(
    variant: int, source: list[int], target: list[int], data: st.DataObject
) -> None:
    model = small(variant)
    at = data.draw(st.integers(1, len(target) - 1))
    changed = [*target[:at], (target[at] + data.draw(st.integers(1, VOCAB - 1))) % VOCAB, *target[at + 1 :]]
    before = model(torch.tensor([source]), torch.tensor([target]))
    after = model(torch.tensor([source]), torch.tensor([changed]))
    assert torch.allclose(before[:, :at], after[:, :at], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, at], after[:, at], atol=1e-6, rtol=0)


@settings(max_examples=30, deadline=None)
@given(variants, pairs, st.integers(0, 3), st.integers(0, 3), st.integers(0, VOCAB - 1))  # no longer than `max_positions`
@torch.no_grad()
def test_padding_never_changes_the_output(
    variant: int, rows: list[tuple[list[int], list[int]]], more_source: int, more_target: int, filler: int
) -> None:
    model = small(variant)
    longest, widest = max(len(s) for s, _ in rows), max(len(t) for _, t in rows)
    source, source_mask = with_padding([s for s, _ in rows], longest + more_source, filler)
    target, target_mask = with_padding([t for _, t in rows], widest + more_target, filler)
    out = model(source, target, source_mask, target_mask)
    unmasked = model(source, target, source_mask)  # on the right, the causal mask hides the padding of a target
    for i, (s, t) in enumerate(rows):
        alone = model(torch.tensor([s]), torch.tensor([t]))[0]  # no padding, no mask, and no neighbours
        assert torch.allclose(out[i, : len(t)], alone, atol=1e-5, rtol=0)
        assert torch.allclose(unmasked[i, : len(t)], alone, atol=1e-5, rtol=0)
    assert bool(out.isfinite().all())


@settings(max_examples=20, deadline=None)
@given(variants, pairs, st.randoms(use_true_random=False), st.integers(1, 4))
@torch.no_grad()
def test_batch_order_and_batch_size_never_change_an_output(
    variant: int, rows: list[tuple[list[int], list[int]]], random: Any, size: int
) -> None:
    model = small(variant)
    source, source_mask = with_padding([s for s, _ in rows], max(len(s) for s, _ in rows), PAD)
    target, target_mask = with_padding([t for _, t in rows], max(len(t) for _, t in rows), PAD)
    out = model(source, target, source_mask, target_mask)
    order = list(range(len(rows)))
    random.shuffle(order)
    for start in range(0, len(order), size):
        some = order[start : start + size]
        again = model(source[some], target[some], source_mask[some], target_mask[some])
        assert torch.allclose(again, out[some], atol=1e-5, rtol=0)


@dataclass
class Pairs:
    """A batch to train on."""

    source: Tensor
    source_mask: Tensor
    target_in: Tensor
    target_out: Tensor
    target_mask: Tensor

    @classmethod
    def of(cls, sources: list[list[int]], targets: list[list[int]]) -> Pairs:
        """Padded, the target shifted right: BOS in front, EOS dropped."""
        source, source_mask = with_padding(sources, max(len(s) for s in sources), PAD)
        length = max(len(t) for t in targets) + 1
        target_in, target_mask = with_padding([[BOS, *t] for t in targets], length, PAD)
        target_out, _ = with_padding([[*t, EOS] for t in targets], length, PAD)
        return cls(source, source_mask, target_in, target_out, target_mask)


def test_training_states_are_those_of_the_real_positions() -> None:
    model, batch = small(0), Pairs.of([[3, 4, 5], [6]], [[7, 8], [9, 10, 11, 12]])
    states, weight, bias, answers = model.training_states(batch)
    out = model(batch.source, batch.target_in, batch.source_mask, batch.target_mask)
    assert answers.tolist() == [7, 8, EOS, 9, 10, 11, 12, EOS]
    found = torch.nn.functional.linear(states, weight, bias).log_softmax(-1)
    assert torch.allclose(found, out[batch.target_mask], atol=1e-5)


# Settings


def count(model: Seq2Seq) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_ties_share_exactly_the_matrices_they_name() -> None:
    sizes: dict[str, Any] = {"layers": 1, "d_ff": 8, "heads": 1}
    tied, target, none = (make_model(VOCAB, VOCAB, 8, tie=tie, **sizes) for tie in ("all", "target", "none"))

    def matrices(model: Seq2Seq) -> list[int]:
        parts = (model.source_embedding.weight, model.target_embedding.weight, model.output_weight)
        return [part.data_ptr() for part in parts]

    source, written, output = matrices(tied)
    assert source == written == output
    source, written, output = matrices(target)
    assert source != written == output
    assert len(set(matrices(none))) == 3
    assert count(target) - count(tied) == count(none) - count(target) == VOCAB * 8
    with torch.no_grad():
        tied.source_embedding.weight[5, 2] = 42.0
    assert tied.output_weight[5, 2].item() == 42.0
    assert sum(tied.parameters_by_part().values()) == count(tied)


def test_target_ties_allow_two_vocabularies() -> None:
    model = make_model(5, 9, 8, layers=1, d_ff=8, heads=1, tie="target")
    assert model.source_embedding.weight.shape == (5, 8)
    assert model.target_embedding.weight is model.output_weight


def test_each_way_to_read_the_encoder_gives_another_output() -> None:
    outputs = []
    for reads in READS:
        torch.manual_seed(0)
        model = make_model(VOCAB, VOCAB, 16, layers=3, d_ff=16, heads=2, reads=reads).eval()
        outputs.append(model(torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 7, 8]])))
    for i in range(3):
        for j in range(i):
            assert (outputs[i] - outputs[j]).abs().max().item() > 1e-3


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gradients_reach_every_parameter_however_the_encoder_is_read(reads: str, norm: Any) -> None:
    torch.manual_seed(0)
    model = make_model(VOCAB, VOCAB, 16, layers=3, d_ff=16, heads=2, reads=reads, norm=norm)
    out = model(torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 7, 8]]))
    out[..., 5].sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert silent == []


def test_layerwise_reading_gives_each_decoder_layer_its_own_encoder_layer() -> None:
    torch.manual_seed(0)
    source = torch.tensor([[3, 4, 5, 6]])
    layerwise = make_model(VOCAB, VOCAB, 16, layers=3, d_ff=16, heads=2, reads="layerwise").eval()
    before = layerwise.encode(source)
    with torch.no_grad():
        for parameter in layerwise.encoder.layers[1].parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    after = layerwise.encode(source)
    assert [torch.equal(one, other) for one, other in zip(before, after, strict=True)] == [True, False, False]


def test_a_mix_can_learn_to_read_any_single_layer() -> None:
    torch.manual_seed(0)
    source = torch.tensor([[3, 4, 5, 6]])
    model = make_model(VOCAB, VOCAB, 16, layers=3, decoder_layers=2, d_ff=16, heads=2, reads="mix").eval()
    layers = model.encoder.all_layers(model.source_embedding(source))
    mix = model.mixes[0]
    assert isinstance(mix, LayerMix)
    with torch.no_grad():
        mix.scores[1] = 50.0
    first, second = model.encode(source)
    assert torch.allclose(first, layers[1], atol=1e-5)
    assert torch.allclose(second, torch.stack(layers).mean(0), atol=1e-5)


def test_key_and_value_widths_are_independent_of_d_model_and_heads() -> None:
    model = make_model(VOCAB, VOCAB, 10, layers=1, d_ff=8, heads=3, d_k=4, d_v=7)
    layer = model.decoder.layers[0]
    assert isinstance(layer, DecoderLayer)
    assert layer.cross_attention.project_in.weight.shape == (3 * (4 + 4 + 7), 10)
    assert layer.cross_attention.project_out.weight.shape == (10, 3 * 7)
    assert model(torch.tensor([[3, 4]]), torch.tensor([[1, 5, 6]])).shape == (1, 3, VOCAB)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"d_model": 130, "heads": 4}, "d_model 130 is not divisible by heads 4"),
        ({"d_model": 130, "heads": 4, "d_k": 32}, "d_model 130 is not divisible by heads 4"),
        ({"layers": 0}, "layers must be at least 1, not 0"),
        ({"d_k": 0}, "d_k must be at least 1, not 0"),
        ({"decoder_layers": -1}, "decoder_layers must be at least 1, not -1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"attention_dropout": -0.1}, "attention_dropout must be at least 0 and below 1, not -0.1"),
        ({"norm": "middle"}, "norm must be one of post, pre, not 'middle'"),
        ({"activation": "swish"}, "activation must be one of relu, gelu, gelu-tanh, silu, not 'swish'"),
        ({"positions": "sinus"}, "positions must be one of sinusoidal, learned, linear-bias, relative, rotary, none"),
        ({"reads": "first"}, "reads must be one of last, layerwise, mix, not 'first'"),
        ({"tie": "source"}, "tie must be one of all, target, none, not 'source'"),
        ({"positions": "rotary", "d_k": 5, "d_v": 5}, "d_k 5 must be even"),
        ({"target_vocab": 9}, "tie=all needs one joint vocabulary, but the source has 8 tokens and the target 9"),
        ({"reads": "layerwise", "decoder_layers": 2}, "as many decoder layers (2) as layers (6)"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Seq2SeqConfig(**{"source_vocab": 8, "target_vocab": 8, **wrong})
    assert message in str(caught.value)


def test_every_matrix_starts_xavier_uniform_and_every_bias_zero() -> None:
    torch.manual_seed(0)
    model = make_model(300, 300, 64, layers=2, d_ff=128, heads=4, d_k=8, d_v=24)
    seen = 0
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            is_joint = name.endswith("attention.project_in.weight")  # W_Q, W_K and W_V, each a matrix of its own
            for matrix in parameter.split([4 * 8, 4 * 8, 4 * 24]) if is_joint else [parameter]:
                bound = math.sqrt(6 / sum(matrix.shape))
                assert 0.97 * bound < matrix.abs().max().item() <= bound, name
                assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05), name
                seen += 1
        elif name.endswith("norm.weight"):
            assert torch.equal(parameter, torch.ones_like(parameter))
        else:
            assert not bool(parameter.any()), name
    assert seen == 3 + 2 * (4 + 2) + 2 * (4 + 4 + 2)


# That it learns


def fit(model: Seq2Seq, batches: list[Pairs], rate: float) -> None:
    """Adam over the batches, the rate rising to its peak and falling to zero."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    model.train()
    for step, batch in enumerate(batches, 1):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / 50, 2 * (len(batches) + 1 - step) / len(batches))
        loss, _ = label_smoothed_loss(*model.training_states(batch))
        optimizer.zero_grad()
        (loss / batch.target_mask.sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


def written(model: Seq2Seq, batch: Pairs) -> list[list[int]]:
    found = greedy_search(model, batch.source, batch.source_mask, Limits(BOS, EOS, PAD, max_extra=5))
    return [hypothesis.tokens for hypothesis in found]


def random_sentences(how_many: int, shortest: int, longest: int, generator: torch.Generator) -> list[list[int]]:
    lengths = torch.randint(shortest, longest + 1, (how_many,), generator=generator).tolist()
    return [torch.randint(3, VOCAB, (length,), generator=generator).tolist() for length in lengths]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_ten_random_pairs_are_learned_without_an_error(norm: Any) -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    sources, targets = random_sentences(10, 2, 7, generator), random_sentences(10, 2, 7, generator)
    model = make_model(VOCAB, VOCAB, 32, layers=2, d_ff=64, heads=4, norm=norm, dropout=0.0)
    batch = Pairs.of(sources, targets)
    fit(model, [batch] * 200, 0.003)
    assert written(model, batch) == targets
    _, nll = label_smoothed_loss(*model.training_states(batch))
    assert nll.item() / int(batch.target_mask.sum()) < 0.05


def test_copying_is_learned_and_holds_for_sentences_never_seen() -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    training = [random_sentences(64, 4, 10, generator) for _ in range(500)]
    seen = {tuple(sentence) for batch in training for sentence in batch}
    held_out = [sentence for sentence in random_sentences(500, 4, 10, generator) if tuple(sentence) not in seen]
    assert len(held_out) > 480
    model = make_model(VOCAB, VOCAB, 48, layers=2, d_ff=96, heads=4, norm="pre", dropout=0.0, tie="all")
    fit(model, [Pairs.of(sentences, sentences) for sentences in training], 0.003)
    copies = written(model, Pairs.of(held_out, held_out))
    right = sum(copy == sentence for copy, sentence in zip(copies, held_out, strict=True))
    assert right / len(held_out) >= 0.99


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_embeddings_that_start_normal_are_as_large_as_the_positions_added_to_them(tie: Any) -> None:
    torch.manual_seed(0)
    model = make_model(500, 500, 64, tie=tie, layers=1, heads=4, d_ff=64, dropout=0.0, embedding_start="normal")
    for embedding in (model.source_embedding, model.target_embedding):
        assert float((embedding.weight.detach() * embedding.scale).std()) == pytest.approx(1.0, abs=0.03)
    assert float(model.output_weight.detach().std()) == pytest.approx(64**-0.5, rel=0.03)
    usual = make_model(500, 500, 64, tie=tie, layers=1, heads=4, d_ff=64)
    assert float(usual.output_weight.detach().abs().max()) <= (6 / 564) ** 0.5  # Xavier uniform
