"""The browser's engine computes what PyTorch computes: logits of random models of every kind, whole and step by step."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from node_engine import ask_engines
from random_models import Case, network_file, random_case

KINDS = ("seq2seq", "recurrent", "gpt", "bert", "vit")
CASES = 12  # of each kind
LOGITS = """
  const { given: ids, interventions } = given[0];
  const run = model.begin({ interventions });
  if (ids.image) ids.image = new Float32Array(ids.image);
  const found = await model.network.forward(run, ids);
  const writes = model.network.project && (model.kind !== "bert" || model.network.words);
  return found.logits ?? (writes ? await model.network.project(run, found.states) : found.states);
"""
STEPS = """
  const { source, target, input, interventions } = given[0];
  const run = model.begin({ interventions });
  const state = await model.network.start(run, source ?? []);
  const rows = [];
  for (const token of target ?? input) rows.push(...(await model.network.step(run, [token], [state])).data);
  return { data: rows, shape: [(target ?? input).length, rows.length / (target ?? input).length] };
"""


def cases(kind: str, seed: int, count: int = CASES) -> list[Case]:
    torch.manual_seed(seed)
    rng = random.Random(seed)
    return [random_case(rng, kind) for _ in range(count)]


def check_equal(answer: Any, wanted: torch.Tensor, what: object) -> None:
    assert isinstance(answer, dict), answer
    found = torch.tensor([float(value) for value in answer["data"]]).view(answer["shape"])
    assert found.shape == wanted.shape, what
    assert torch.allclose(found, wanted, atol=1e-4, rtol=1e-4), (what, float((found - wanted).abs().max()))


@pytest.mark.parametrize("kind", KINDS)
def test_logits_equal_those_of_pytorch(kind: str, tmp_path: Path) -> None:
    tried = cases(kind, 1)
    answers = ask_engines(tmp_path, [(network_file(case.model), [[LOGITS, {"given": case.given}]]) for case in tried])
    for case, (answer,) in zip(tried, answers, strict=True):
        check_equal(answer, case.logits(), case.model.config)


@pytest.mark.parametrize("kind", ["seq2seq", "recurrent", "gpt"])
def test_step_by_step_equals_all_at_once(kind: str, tmp_path: Path) -> None:
    tried = cases(kind, 2)
    answers = ask_engines(tmp_path, [(network_file(case.model), [[STEPS, case.given]]) for case in tried])
    for case, (answer,) in zip(tried, answers, strict=True):
        check_equal(answer, case.logits(), case.model.config)


def test_a_language_model_goes_on_when_its_context_is_full(tmp_path: Path) -> None:
    tried = cases("gpt", 3)
    rng = random.Random(3)
    calls, wanted = [], []
    for case in tried:
        ids = [rng.randrange(case.model.config.vocab) for _ in range(40)]
        prompt = ids[: rng.randint(0, 20)]
        rest = ids[len(prompt) :]
        calls.append((network_file(case.model), [[STEPS, {"source": prompt, "input": rest}]]))
        with torch.inference_mode():
            state = case.model.start(torch.tensor([prompt], dtype=torch.long).view(1, -1))
            wanted.append(torch.cat([case.model.step(torch.tensor([[token]]), state) for token in rest]))
    for case, (answer,), right in zip(tried, ask_engines(tmp_path, calls), wanted, strict=True):
        check_equal(answer, right, case.model.config)


def test_8_bit_weights_are_those_rounded_row_by_row(tmp_path: Path) -> None:
    tried = [case for kind in KINDS for case in cases(kind, 4, 4)]
    files = [network_file(case.model, 8) for case in tried]
    for case in tried:
        with torch.no_grad():
            for weight in case.model.parameters():
                if weight.dim() == 2 and len(weight) >= 8:
                    scale = weight.abs().amax(1, keepdim=True) / 127
                    weight.copy_((weight / scale.clamp(min=1e-30)).round() * scale)
    answers = ask_engines(tmp_path, [(file, [[LOGITS, {"given": c.given}]]) for file, c in zip(files, tried, strict=True)])
    for case, (answer,) in zip(tried, answers, strict=True):
        check_equal(answer, case.logits(), case.model.config)
