"""Interventions change the same thing in the browser as a hand's change to the PyTorch model does."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from node_engine import ask_engines
from random_models import Case, fill_at_random, network_file, random_case
from test_engine_logits import LOGITS, check_equal
from torch import Tensor, nn

from heedful.models import build_model
from heedful.models.gpt import GPTConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.positions import LinearBias
from heedful.nn.residual import Residual

TRANSFORMERS = ("seq2seq", "gpt", "bert", "vit")
Change = Callable[[Any], None]


def transformers(seed: int, count: int = 6) -> list[Case]:
    torch.manual_seed(seed)
    rng = random.Random(seed)
    return [random_case(rng, kind) for kind in TRANSFORMERS for _ in range(count)]


def stack_of(case: Case, rng: random.Random) -> tuple[str, Any]:
    """The name of a stack in interventions, and its module."""
    if case.kind == "seq2seq":
        name = rng.choice(["encoder", "decoder"])
        return name, getattr(case.model, name)
    return "decoder" if case.kind == "gpt" else "encoder", case.model.encoder


def check(tmp_path: Path, tried: list[tuple[Case, dict[str, Any], Tensor]]) -> None:
    """The engine with an intervention gives the logits that were computed by hand."""
    asked = [(network_file(case.model), [[LOGITS, {"given": case.given, "interventions": act}]]) for case, act, _ in tried]
    for (case, act, wanted), (answer,) in zip(tried, ask_engines(tmp_path, asked), strict=True):
        check_equal(answer, wanted, (act, case.model.config))


def changed(case: Case, change: Change) -> Tensor:
    """The logits of a changed copy."""
    other = Case(copy.deepcopy(case.model), case.given)
    with torch.no_grad():
        change(other.model)
    return other.logits()


def test_a_head_that_is_off_adds_nothing(tmp_path: Path) -> None:
    rng = random.Random(1)
    tried = []
    for case in transformers(1):
        name, stack = stack_of(case, rng)
        layer = rng.randrange(len(stack.layers))
        crossing = name == "decoder" and case.kind == "seq2seq" and rng.random() < 0.5
        which = "cross_attention" if crossing else "self_attention"
        head = rng.randrange(case.model.config.heads)
        place = f"{'decoder' if name == 'decoder' and case.kind == 'seq2seq' else 'encoder'}.layers.{layer}.{which}"

        def silence(model: nn.Module, place: str = place, head: int = head) -> None:
            attention = model.get_submodule(place)
            assert isinstance(attention, MultiHeadAttention)
            attention.project_out.weight[:, head * attention.d_v : (head + 1) * attention.d_v] = 0.0

        act = {"heads": [{"attention": "cross" if crossing else name, "layer": layer + 1, "head": head + 1}]}
        tried.append((case, act, changed(case, silence)))
    check(tmp_path, tried)


def test_a_layer_that_is_off_passes_on_what_it_gets(tmp_path: Path) -> None:
    rng = random.Random(2)
    tried = []
    for case in transformers(2):
        if getattr(case.model.config, "reads", "last") != "last":
            continue  # other decoders read every layer, so that removing one changes what they read
        name, stack = stack_of(case, rng)
        layer = rng.randrange(len(stack.layers))

        def remove(model: Any, name: str = name, layer: int = layer, kind: str = case.kind) -> None:
            found = model.decoder if kind == "seq2seq" and name == "decoder" else model.encoder
            found.layers[layer].forward = lambda x, *others, **more: x

        tried.append((case, {"layers": [{"stack": name, "layer": layer + 1}]}, changed(case, remove)))
    check(tmp_path, tried)


def test_another_divisor_sharpens_or_flattens(tmp_path: Path) -> None:
    rng = random.Random(3)
    tried = []
    for case in transformers(3):
        if getattr(case.model.config, "positions", "") == "linear-bias":
            continue  # its bias is not divided
        divisor = rng.choice([0.5, 1.0, 3.0])

        def scale(model: nn.Module, divisor: float = divisor) -> None:
            for module in model.modules():
                if isinstance(module, MultiHeadAttention):
                    queries = slice(0, module.heads * module.d_k)
                    module.project_in.weight[queries] *= math.sqrt(module.d_k) / divisor
                    module.project_in.bias[queries] *= math.sqrt(module.d_k) / divisor

        tried.append((case, {"divisor": divisor}, changed(case, scale)))
    check(tmp_path, tried)


def test_without_positions_every_kind_of_them_is_gone(tmp_path: Path) -> None:
    tried = []
    for case in transformers(4):

        def forget(model: Any) -> None:
            for module in model.modules():
                if isinstance(module, MultiHeadAttention):
                    module.positions = None
                if hasattr(module, "positions") and isinstance(module.positions, nn.Parameter):
                    module.positions.zero_()
            for name in ("source_embedding", "target_embedding", "embedding"):
                if hasattr(model, name) and not isinstance(getattr(model, name).positions, nn.Parameter):
                    getattr(model, name).positions = None

        tried.append((case, {"positions": False}, changed(case, forget)))
    check(tmp_path, tried)


def test_without_residual_connections_only_the_sublayers_go_on(tmp_path: Path) -> None:
    tried = []
    for case in transformers(5):

        def cut(model: nn.Module) -> None:
            for module in model.modules():
                if isinstance(module, Residual):
                    module.after = lambda x, y, own=module: y if own.pre else own.norm(y)  # type: ignore[method-assign,misc]

        tried.append((case, {"residual": False}, changed(case, cut)))
    check(tmp_path, tried)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "linear-bias", "relative", "rotary", "none"])
def test_without_the_causal_mask_the_decoder_sees_the_future(positions: Any, tmp_path: Path) -> None:
    torch.manual_seed(6)
    model = build_model(GPTConfig(11, 2, 8, 16, 2, context=12, positions=positions, max_distance=3)).eval()
    fill_at_random(model)
    ids = [1, 5, 2, 9, 7, 7, 3]
    with torch.no_grad():
        wanted = model.project(model.encoder(model.embed(torch.tensor([ids])), causal=False))[0]
    case = Case(model, {"input": ids})
    assert not torch.allclose(wanted, case.logits())
    check(tmp_path, [(case, {"causal": False}, wanted)])


def test_a_decoder_without_its_mask_reads_all_of_a_given_target(tmp_path: Path) -> None:
    torch.manual_seed(7)
    model = build_model(Seq2SeqConfig(9, 9, layers=2, d_model=8, d_ff=12, heads=2)).eval()
    fill_at_random(model)
    case = Case(model, {"source": [1, 2, 3, 4], "target": [2, 5, 6, 7, 8]})

    def see(model: Any) -> None:
        for layer in model.decoder.layers:
            plain = layer.self_attention.forward
            layer.self_attention.forward = lambda *given, plain=plain, **more: plain(*given, **{**more, "causal": False})

    check(tmp_path, [(case, {"causal": False}, changed(case, see))])


def test_words_may_change_places_and_be_replaced(tmp_path: Path) -> None:
    tried = []
    rng = random.Random(8)
    for case in [one for one in transformers(8) if one.kind in ("gpt", "bert")]:
        ids = case.given["input"]
        order = rng.sample(range(len(ids)), len(ids))
        place = rng.randrange(len(ids))
        act = {"permute": {"input": order}, "replace": [{"sequence": "input", "position": place, "id": 3}]}
        now = [3 if number == place else ids[number] for number in order]
        segments = {"segments": [case.given["segments"][number] for number in order]} if "segments" in case.given else {}
        tried.append((Case(case.model, {"input": now, **segments}), act, case))
    body = """
      const { given: ids, interventions } = given[0];
      const run = model.begin({ interventions });
      const input = run.act.sequence("input", ids.input, 1000);
      const segments = ids.segments && run.act.order("input", ids.segments);
      const found = await model.network.forward(run, { input, segments });
      const writes = model.network.project && (model.kind !== "bert" || model.network.words);
      return found.logits ?? (writes ? await model.network.project(run, found.states) : found.states);
    """
    asked = [(network_file(c.model), [[body, {"given": c.given, "interventions": act}]]) for _, act, c in tried]
    for (changed_case, act, _), (answer,) in zip(tried, ask_engines(tmp_path, asked), strict=True):
        check_equal(answer, changed_case.logits(), act)


def test_without_positions_shuffled_words_change_nothing_but_their_order(tmp_path: Path) -> None:
    torch.manual_seed(9)
    model = build_model(GPTConfig(11, 2, 8, 16, 2, context=12)).eval()
    fill_at_random(model)
    ids, order = [1, 5, 2, 9, 7], [3, 0, 4, 1, 2]
    act = {"positions": False, "causal": False}
    asked = [[LOGITS, {"given": {"input": given}, "interventions": act}] for given in (ids, [ids[i] for i in order])]
    first, second = ask_engines(tmp_path, [(network_file(model), asked)])[0]
    rows = torch.tensor(first["data"]).view(5, -1)
    check_equal(second, rows[order], act)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ({"heat": []}, 'there is no intervention "heat"'),
        ({"divisor": 0}, "must be a number above 0"),
        ({"permute": {"input": [0, 0, 1]}}, "must name each of its 3 positions once"),
        ({"replace": [{"sequence": "input", "position": 9, "id": 1}]}, "position 9 cannot be replaced"),
        ({"replace": [{"sequence": "input", "position": 0, "id": 99}]}, "99 is not a token"),
    ],
)
def test_an_impossible_intervention_is_refused_in_words(act: dict[str, Any], said: str, tmp_path: Path) -> None:
    body = "return model.begin({ interventions: given[0] }).act.sequence('input', [1, 2, 3], 11)"
    model = build_model(GPTConfig(11, 1, 4, 4, 1, context=4))
    ((answer,),) = ask_engines(tmp_path, [(network_file(model), [[body, act]])])
    assert isinstance(answer, str)
    assert answer.startswith("InputError: ")
    assert said in answer


def test_the_slopes_of_linear_positions_stay(tmp_path: Path) -> None:
    """The divisor is that of the products; a linear bias is added undivided."""
    torch.manual_seed(10)
    model = build_model(GPTConfig(11, 1, 8, 16, 2, context=12, positions="linear-bias")).eval()
    fill_at_random(model)
    case = Case(model, {"input": [1, 5, 2, 9, 7]})

    def scale(model: Any) -> None:
        attention = model.encoder.layers[0].self_attention
        assert isinstance(attention.positions, LinearBias)
        attention.project_in.weight[:8] *= 2.0
        attention.project_in.bias[:8] *= 2.0

    check(tmp_path, [(case, {"divisor": 1.0}, changed(case, scale))])
