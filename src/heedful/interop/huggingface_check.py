"""Verifies an export to Hugging Face: transformers loads it and gives the same outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.decoding.sentence import Hypothesis, Limits
from heedful.interop.foreign_tokenizers import TARGET
from heedful.interop.proof import (
    WRITTEN,
    Answer,
    Comparison,
    compare,
    image_answers,
    native_rows,
    native_texts,
    sample_images,
    text_answer,
    token_rows,
)
from heedful.pipelines.encoder import AnyEncoder, EncoderPipeline
from heedful.pipelines.pipeline import AnyPipeline
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer
from heedful.settings import JsonObject


@torch.no_grad()
def check(pipeline: AnyPipeline, folder: Path, texts: Sequence[str], what: str, quantize: str | None = None) -> Comparison:
    """Load the exported model with transformers and compare its outputs with ours."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # no downloads
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, architecture).from_pretrained(folder).eval()
    if isinstance(pipeline, Translator):
        ours, theirs = native_texts(pipeline, texts), translations(pipeline, model, folder, texts)
    elif isinstance(pipeline, Writer):
        ours, theirs = native_texts(pipeline, texts), continuations(pipeline, model, texts)
    elif isinstance(pipeline, EncoderPipeline):
        rows = token_rows(pipeline, texts)
        ours, theirs = native_rows(pipeline, rows), bert_answers(pipeline, model, rows)
    else:
        images = sample_images(pipeline)
        logits = model(torch.from_numpy(images)).logits.numpy()
        ours, theirs = image_answers(pipeline, images), [Answer(int(row.argmax()), row) for row in logits]
    return compare(ours, theirs, f"transformers {version('transformers')}", what, exact=True)


def generated(found: Any, first: int, limits: Limits) -> Answer:
    """The tokens of a greedy search after the first ones, with their log-probability."""
    tokens = found.sequences[0, first:].tolist()
    total = sum(float(scores[0].float().log_softmax(-1)[token]) for scores, token in zip(found.scores, tokens, strict=True))
    return text_answer(Hypothesis([token for token in tokens if token != limits.eos], total, total))


def search_options(limits: Limits, longest: int) -> JsonObject:
    """Options that make their search like ours: greedy, and never padding or the begin token."""
    never = sorted({limits.pad, limits.bos} - {limits.eos})
    return {
        "num_beams": 1,
        "do_sample": False,
        "max_new_tokens": longest,
        "suppress_tokens": never,
        "bad_words_ids": None,
        "forced_eos_token_id": None,
        "max_length": None,
        "pad_token_id": limits.pad,
        "output_logits": False,
        "output_scores": True,
        "return_dict_in_generate": True,
    }


def translations(pipeline: Translator, model: Any, folder: Path, texts: Sequence[str]) -> list[Answer]:
    """Greedy translations by `generate`, from the text by their tokenizer to ids that their other tokenizer decodes."""
    import transformers

    reader = transformers.AutoTokenizer.from_pretrained(folder)
    writer = transformers.AutoTokenizer.from_pretrained(folder / TARGET) if (folder / TARGET).is_dir() else reader
    limits, found = pipeline.limits, []
    for text in texts:
        if not text.strip():
            continue
        ids = reader(text, add_special_tokens=True).input_ids[-pipeline.longest_source - 1 :]
        source = torch.tensor([ids])
        options = search_options(limits, limits.longest(len(ids)))
        answer = generated(model.generate(source, attention_mask=torch.ones_like(source), **options), 1, limits)
        if writer.decode(answer.output, skip_special_tokens=True) != pipeline.target_tokenizer.decode(answer.output):
            answer = Answer(["another text"], answer.scores)
        found.append(answer)
    return found


def continuations(pipeline: Writer, model: Any, texts: Sequence[str]) -> list[Answer]:
    """Greedy continuations by `generate`."""
    longest, found = min(WRITTEN, max(1, pipeline.model.config.context // 2)), []
    for row in token_rows(pipeline, texts):
        source = torch.tensor([[pipeline.tokenizer.eos, *row]])
        options = search_options(pipeline.limits, longest)
        options["eos_token_id"] = pipeline.tokenizer.eos
        answer = model.generate(source, attention_mask=torch.ones_like(source), **options)
        found.append(generated(answer, source.size(1), pipeline.limits))
    return found


def bert_answers(pipeline: AnyEncoder, model: Any, rows: Sequence[Sequence[int]]) -> list[Answer]:
    """The output of the head for rows of ids."""
    tokenizer, found = pipeline.tokenizer, []
    for row in rows:
        output = model(torch.tensor([[tokenizer.bos, *row, tokenizer.eos]]))
        if pipeline.model.config.head == "none":
            found.append(Answer(None, output.last_hidden_state[0].numpy()))
            continue
        if hasattr(output, "start_logits"):
            logits = torch.stack([output.start_logits, output.end_logits], dim=-1)[0].numpy()
        else:
            logits = (output.prediction_logits if hasattr(output, "prediction_logits") else output.logits)[0].numpy()
        found.append(Answer(np.argmax(logits, axis=-1).tolist(), logits))
    return found
