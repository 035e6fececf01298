"""Export to GGUF, the file of llama.cpp: language models that GPT-2 can express."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.decoding.sentence import Hypothesis
from heedful.interop.gpt2 import with_position_table
from heedful.interop.known_settings import Obstacle, only, unknown_settings
from heedful.interop.proof import CLOSE, WRITTEN, Answer, Comparison, compare, native_texts, text_answer
from heedful.interop.weight_map import MappedWeight, export_weights, linear
from heedful.models.gpt import GPTConfig
from heedful.models.weights import named_weights
from heedful.runtime.files import sync
from heedful.settings import JsonObject
from heedful.text.tokenizer import Tokenizer

TYPES = {"float16": "F16", "bfloat16": "BF16", "int8": "Q8_0"}  # of matrices; everything else is float32
QUANTIZE = tuple(TYPES)
BLOCK = 32  # numbers that have one scale in int8: rows must be multiples of it
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # kinds of tokens


def problems(pipeline: Any) -> list[Obstacle]:
    """Every setting of a model that llama.cpp's GPT-2 cannot express."""
    config = pipeline.model.config
    if not isinstance(config, GPTConfig):
        return [Obstacle(f"task = '{pipeline.task}' (only language-model)")]
    wanted = {"activation": "gelu-tanh"}
    if config.positions not in ("learned", "sinusoidal", "none"):  # the positions that a table can hold
        wanted["positions"] = "learned"
    found = [*only(config, norm="pre", attention_kind="full", **wanted), *unknown_settings(config)]
    if not reads_bytes(pipeline.tokenizer):
        found.append(Obstacle("a vocabulary that is not byte-level BPE", "tokenizer.kind=bpe"))
    return found


def reads_bytes(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer divides text as GPT-2's does."""
    facts: JsonObject = json.loads(tokenizer.backend.to_str())
    before = facts["pre_tokenizer"] or {}
    usual = before.get("type") == "ByteLevel" and before.get("use_regex", True) and not before["add_prefix_space"]
    return bool(usual and facts["model"]["type"] == "BPE" and facts["normalizer"] is None)


def weight_map(config: GPTConfig) -> list[MappedWeight]:
    """Every weight of the language model."""
    found = [
        MappedWeight("output_weight" if config.tie else "embedding.weight", ("token_embd.weight",)),
        MappedWeight("embedding.positions.table", ("position_embd.weight",)),
        *linear("encoder.norm", "output_norm"),
    ]
    for number in range(config.layers):
        ours, theirs = f"encoder.layers.{number}", f"blk.{number}"
        found += linear(f"{ours}.self_attention.project_in", f"{theirs}.attn_qkv")
        found += linear(f"{ours}.self_attention.project_out", f"{theirs}.attn_output")
        found += linear(f"{ours}.feed_forward.project_in", f"{theirs}.ffn_up")
        found += linear(f"{ours}.feed_forward.project_out", f"{theirs}.ffn_down")
        found += linear(f"{ours}.around_self.norm", f"{theirs}.attn_norm")
        found += linear(f"{ours}.around_feed.norm", f"{theirs}.ffn_norm")
    return found if config.tie else [*found, MappedWeight("output_weight", ("output.weight",))]


def write(pipeline: Any, out: Path, quantize: str | None = None) -> str:
    """Write the model with its vocabulary as one file; returns a description of it."""
    import gguf as library

    config: GPTConfig = pipeline.model.config
    writer = library.GGUFWriter(out, "gpt2")
    writer.add_name(f"heedful {pipeline.task}")
    writer.add_description(pipeline.card)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.d_model)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_block_count(config.layers)
    writer.add_head_count(config.heads)
    writer.add_layer_norm_eps(config.epsilon)
    add_vocabulary(writer, pipeline.tokenizer, config.vocab)
    lower = getattr(library.GGMLQuantizationType, TYPES[quantize]) if quantize else None
    writer.add_file_type(library.LlamaFileType[f"MOSTLY_{TYPES[quantize]}"] if quantize else library.LlamaFileType.ALL_F32)
    weights = with_position_table(config, {name: weight.cpu() for name, weight in named_weights(pipeline.model).items()})
    for name, tensor in export_weights(weight_map(config), weights).items():
        values = np.ascontiguousarray(tensor.float().numpy())
        matrix = values.ndim == 2 and name != "position_embd.weight"
        if lower is None or not matrix or (quantize == "int8" and values.shape[1] % BLOCK):
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, library.quants.quantize(values, lower), raw_dtype=lower)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    sync(out)
    return "for llama.cpp"


def add_vocabulary(writer: Any, tokenizer: Tokenizer, size: int) -> None:
    """Tokens, merges and the special tokens. A text begins with the end token, after which documents began in training."""
    facts: JsonObject = json.loads(tokenizer.backend.to_str())
    added = {token["id"]: CONTROL if token["special"] else USER_DEFINED for token in facts["added_tokens"]}
    names = [tokenizer.backend.id_to_token(number) for number in range(size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([name if name is not None else f"[unused {number}]" for number, name in enumerate(names)])
    writer.add_token_types([added.get(number, NORMAL) if name is not None else UNUSED for number, name in enumerate(names)])
    merges = facts["model"]["merges"]
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in merges])
    writer.add_bos_token_id(tokenizer.eos)
    writer.add_eos_token_id(tokenizer.eos)
    writer.add_unk_token_id(tokenizer.unk)
    writer.add_pad_token_id(tokenizer.pad)
    writer.add_add_bos_token(True)


def check(pipeline: Any, file: Path, texts: Sequence[str], what: str, quantize: str | None = None) -> Comparison:
    """Load the file with llama.cpp and compare its greedy continuations with ours; texts are read by its own tokenizer."""
    import llama_cpp

    llama_cpp.llama_log_set(silence(), None)
    config, half = pipeline.model.config, max(1, pipeline.model.config.context // 2)
    model = llama_cpp.Llama(
        str(file), n_ctx=config.context, n_batch=config.context, logits_all=True, verbose=False, n_threads=torch.get_num_threads()
    )
    texts = [text for text in texts if pipeline.tokenizer.encode(text)]
    ours, theirs = native_texts(pipeline, texts), []
    for text, our in zip(texts, ours, strict=True):
        first, *row = model.tokenize(text.encode(), add_bos=True, special=False)
        if [first, *row] != [pipeline.tokenizer.eos, *pipeline.tokenizer.encode(text)]:
            theirs.append(Answer(f"other tokens of {text!r}", our.scores + np.inf))
            continue
        theirs.append(continued(model, [first, *row[:half]], min(WRITTEN, half), pipeline, our))
    return compare(ours, theirs, f"llama.cpp ({version('llama-cpp-python')})", what, quantize is None)


@cache
def silence() -> Any:
    """A receiver of llama.cpp's messages, which warn of the context it rounds up; kept, because C will call it."""
    import llama_cpp

    return llama_cpp.llama_log_callback(lambda level, text, data: None)


def continued(model: Any, tokens: Sequence[int], longest: int, pipeline: Any, our: Answer) -> Answer:
    """The greedy continuation of a prompt, without the tokens that our search never writes.

    llama.cpp computes GELU by a table in half precision. Where that makes another token best by a hair, ours is taken, and the
    result counts as a tie.
    """
    model.reset()
    limits, written, total, tied = pipeline.limits, list[int](), 0.0, False
    given, expected = list(tokens), [*our.output, pipeline.limits.eos]
    for _ in range(longest):
        model.eval(given)
        logits = torch.from_numpy(model.scores[model.n_tokens - 1].copy())
        logits[sorted({limits.pad, limits.bos} - {limits.eos})] = -torch.inf
        token = int(logits.argmax())
        if expected and token != expected[0] and logits[token] - logits[expected[0]] <= CLOSE:
            token, tied = expected[0], True
        expected = expected[1:] if expected[:1] == [token] else []
        total += float(logits.log_softmax(-1)[token])
        if token == limits.eos:
            break
        written.append(token)
        given = [token]
    answer = text_answer(Hypothesis(written, total, total))
    if tied and written == our.output and abs(answer.scores - our.scores).max() <= CLOSE:
        return Answer("a tie", our.scores)
    return answer
