"""What is known of a model's weights without making them."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from heedful.models import build_model
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.recurrent import RecurrentConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.models.vit import ViTConfig
from heedful.models.weights import named_weights, weight_shapes

kinds = ["sinusoidal", "learned", "linear-bias", "relative", "rotary"]
configs = [Seq2SeqConfig(9, 9, layers=1, d_model=8, d_ff=8, heads=2, positions=kind, init="normal-0.02") for kind in kinds]
configs += [GPTConfig(9, 1, 8, 8, 2, context=8, attention_kind=kind) for kind in ("full", "window", "bigbird", "reformer")]
configs += [BertConfig(9, layers=1, d_model=8, d_ff=8, heads=2, max_positions=8, attention_kind="linformer", pooling="attention",
                       head="sequence", classes=2)]
configs += [RecurrentConfig(9, 9, layers=1, d_model=8), ViTConfig(2, image_size=4, patch=2, layers=1, d_model=8, d_ff=8, heads=2)]
shapes = [weight_shapes(config) for config in configs]
print("torch._dynamo" in sys.modules, "sympy" in sys.modules)
for config, found in zip(configs, shapes, strict=True):
    assert found == {name: tuple(weight.shape) for name, weight in named_weights(build_model(config)).items()}, config
"""


def test_shapes_are_those_of_the_model_and_take_no_second_to_find() -> None:
    """PyTorch imports its compiler, which takes a second, for some operations on tensors without data."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False False\n"
