"""Export to CTranslate2: translators, language models, and BERTs as bare encoders."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from heedful.decoding.sentence import Hypothesis
from heedful.interop.ctranslate2_engine import CTranslate2Engine, vocabularies
from heedful.interop.ctranslate2_spec import build_spec, inexpressible, vocabulary
from heedful.interop.known_settings import Obstacle
from heedful.interop.proof import WRITTEN, Answer, Comparison, compare, native_texts, sentences_of, text_answer, token_rows
from heedful.models import kind_of
from heedful.models.weights import named_weights
from heedful.runtime.files import sync, write_text

QUANTIZE = ("int8", "int16", "float16", "bfloat16")
NEVER = -10_000.0  # a logit that half precision can represent
MOST_POSITIONS = 16_384  # positions written for a model without a length limit
HEADS = ("classifier", "pooling", "masked_language", "next_sentence")  # of a BERT; CTranslate2 has encoders only


def problems(pipeline: Any) -> list[Obstacle]:
    """Every setting of a model that CTranslate2 cannot express."""
    return inexpressible(pipeline.model.config)


def positions(pipeline: Any) -> int:
    """How many positions the converted model has."""
    config = pipeline.model.config
    if kind_of(config) == "seq2seq":
        return int(min(pipeline.longest_source + 1 + pipeline.max_extra, MOST_POSITIONS))
    return int(getattr(config, "context", 0) or config.max_positions)


def write(pipeline: Any, folder: Path, quantize: str | None = None) -> str:
    """Write a model that CTranslate2 loads, its tokenizers and a card; returns a description of it."""
    write_model(pipeline, folder, quantize)
    for name, tokenizer in pipeline.tokenizers.items():
        write_text(folder / f"{name}.json", tokenizer.backend.to_str())
    weights = named_weights(pipeline.model)
    head = {name: weight.contiguous() for name, weight in weights.items() if name.split(".")[0] in HEADS}
    if head:
        save_file(head, folder / "head.safetensors")
    use = {"seq2seq": "Translator", "gpt": "Generator", "bert": "Encoder"}[kind_of(pipeline.model.config)]
    more = ", whose last layer is in head.safetensors" if head else ""
    write_text(folder / "README.md", f"{pipeline.card.rstrip()}\n\nWritten by heedful for ctranslate2.{use}{more}.\n")
    return f"for ctranslate2.{use}" + (" (the encoder alone; its head is in head.safetensors)" if head else "")


def write_model(pipeline: Any, folder: Path, quantize: str | None = None) -> None:
    """Write the weights, the vocabularies and the search settings."""
    config, weights = pipeline.model.config, named_weights(pipeline.model)
    spec = build_spec(config, {name: weight.cpu() for name, weight in weights.items()}, positions(pipeline))
    if kind_of(config) == "seq2seq":
        source, target = vocabularies(pipeline)
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
        last, names = pipeline.target_tokenizer, target
        spec.config.decoder_start_token = names[last.bos]
    else:
        last = pipeline.tokenizer
        names = vocabulary([last.backend.id_to_token(number) for number in range(config.vocab)], config.vocab)
        spec.register_vocabulary(names)
    if hasattr(spec, "decoder"):
        forbid(spec.decoder.projection, sorted({last.pad, last.bos} - {last.eos}))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = names[last.bos], names[last.eos], names[last.unk]
    spec.validate()
    spec.optimize(quantization=quantize)
    spec.save(str(folder))
    for path in folder.iterdir():
        sync(path)


def forbid(projection: Any, tokens: Sequence[int]) -> None:
    """Prevent tokens from being generated, as in our search: padding and the begin token."""
    if isinstance(projection.bias, str):  # it has none
        projection.bias = np.zeros(len(projection.weight), dtype=np.float32)
    projection.bias[list(tokens)] = NEVER


def check(pipeline: Any, folder: Path, texts: Sequence[str], what: str, quantize: str | None = None) -> Comparison:
    """Load the exported model with CTranslate2 and compare its outputs with ours."""
    import ctranslate2

    ctranslate2.set_log_level(logging.ERROR)  # it warns of what `computing` says
    software, exact = f"ctranslate2 {version('ctranslate2')}", quantize is None
    kind = kind_of(pipeline.model.config)
    if kind == "seq2seq":
        return check_translator(pipeline, folder, texts, software, what, exact)
    if kind == "gpt":
        return check_generator(pipeline, folder, texts, software, what, exact)
    return check_encoder(pipeline, folder, token_rows(pipeline, texts), software, what, exact)


def computing(model: Any, exact: bool) -> str:
    """The precision CTranslate2 actually computes in here: a processor without the requested one uses another."""
    return "" if exact else f", which computes in {model.compute_type} here,"


def check_translator(pipeline: Any, folder: Path, texts: Sequence[str], software: str, what: str, exact: bool) -> Comparison:
    """Greedy outputs and their log-probabilities."""
    engine = CTranslate2Engine(folder, pipeline, positions(pipeline))
    software += computing(engine.translator, exact)
    sentences = sentences_of(pipeline, texts)
    engine.decode(sentences)
    theirs = [text_answer(sentence.hypotheses[0]) for sentence in sentences]
    return compare(native_texts(pipeline, texts), theirs, software, what, exact)


def check_generator(pipeline: Any, folder: Path, texts: Sequence[str], software: str, what: str, exact: bool) -> Comparison:
    """Greedy continuations and their log-probabilities."""
    import ctranslate2

    generator = ctranslate2.Generator(str(folder), intra_threads=torch.get_num_threads())
    software += computing(generator, exact)
    tokenizer, config, limits = pipeline.tokenizer, pipeline.model.config, pipeline.limits
    names = vocabulary([tokenizer.backend.id_to_token(number) for number in range(config.vocab)], config.vocab)
    theirs = []
    for row in token_rows(pipeline, texts):
        (result,) = generator.generate_batch(
            [[names[token] for token in (tokenizer.eos, *row)]],
            max_length=min(WRITTEN, max(1, config.context // 2)),
            beam_size=1,
            include_prompt_in_result=False,
            return_end_token=True,
            return_scores=True,
        )
        tokens, total = result.sequences_ids[0], result.scores[0] * len(result.sequences_ids[0])
        theirs.append(text_answer(Hypothesis([token for token in tokens if token != limits.eos], total, total)))
    return compare(native_texts(pipeline, texts), theirs, software, what, exact)


def check_encoder(
    pipeline: Any, folder: Path, rows: Sequence[Sequence[int]], software: str, what: str, exact: bool
) -> Comparison:
    """States of every token; the second half of a row is in segment 1, where the model knows segments."""
    import ctranslate2

    encoder = ctranslate2.Encoder(str(folder), intra_threads=torch.get_num_threads())
    software += computing(encoder, exact)
    tokenizer, model = pipeline.tokenizer, pipeline.model
    ours, theirs = [], []
    for row in rows:
        framed = [tokenizer.bos, *row, tokenizer.eos]
        segments = [int(place > len(framed) // 2 and model.config.segments > 1) for place in range(len(framed))]
        with pipeline.working():
            states = model.states(torch.tensor([framed]), torch.tensor([segments]))[0]
        ours.append(Answer(None, states.float().numpy()))
        found = encoder.forward_batch([framed], token_type_ids=[segments])
        theirs.append(Answer(None, np.array(found.last_hidden_state)[0]))
    return compare(ours, theirs, software, what, exact)
