"""Decoding speed of heedful against CTranslate2 and Hugging Face: the same weights, the same test set, interleaved in one run.

    pip install -c constraints.txt '.[fast,huggingface]'
    python benchmarks/translate_speed.py --models tiny=runs/multi30k base=runs/base --data ../shared/data/multi30k/tok

An engine translates the test set (text in, text out, tokenisation included) in a process of its own, after a quarter of it
that does not count; CTranslate2 with several settings, of which the fastest counts. Latency is that of single sentences, one
after the other. Memory is the peak of the process. Numbers are medians over the rounds. Hugging Face's Marian has random
weights of the same shape, so it is made to write as many tokens as a source has on average, and has no BLEU. Run it on an
idle machine.

The last line is for machines: heedful's speed divided by that of CTranslate2's best float32 setting, for each model.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from heedful.evaluation.bleu import translation_scores
from heedful.interop.backend import use_backend
from heedful.interop.ctranslate2_cache import converted
from heedful.interop.ctranslate2_engine import vocabularies
from heedful.pipelines.load import load_pipeline
from heedful.pipelines.model_directory import find_directory
from heedful.pipelines.translator import Translator
from heedful.runtime.cores import cores
from measuring import Transcript, medians, watch

BEAMS = (1, 5)
ENGINES = {
    "heedful": "heedful",
    "heedful-ctranslate2": "heedful, CTranslate2 backend",
    "ctranslate2-float32": "CTranslate2 float32",
    "ctranslate2-int8": "CTranslate2 int8",
    "marian": "Hugging Face Marian, random weights",
}
SINGLES = 30  # sentences whose latency is measured
FEW = 200  # sentences that Hugging Face translates
Translate = Callable[[Sequence[str], int], Sequence[str]]  # texts and beam → translations


def lines_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def ways(engine: str, model: Path) -> tuple[dict[str, Translate], Path]:
    """The settings with which an engine translates, by name, and where its model is."""
    pipeline = load_pipeline(model)
    assert isinstance(pipeline, Translator)
    folder = find_directory(model)
    if engine == "marian":
        return {"": hugging_face(pipeline)}, folder
    if engine == "heedful":
        return {"": partial(by_pipeline, pipeline)}, folder
    if engine == "heedful-ctranslate2":
        use_backend(pipeline, model, "ctranslate2", lambda _: None)
        return {"": partial(by_pipeline, pipeline)}, converted(pipeline, folder, lambda _: None)
    place = converted(pipeline, folder, lambda _: None)
    return ctranslate2_ways(pipeline, place, engine.removeprefix("ctranslate2-")), place


def by_pipeline(pipeline: Translator, texts: Sequence[str], beam: int) -> Sequence[str]:
    return pipeline.translate(list(texts), beam=beam)


def ctranslate2_ways(pipeline: Translator, place: Path, precision: str) -> dict[str, Translate]:
    """Plain `translate_batch` with all cores as workers or as threads, and several batch sizes."""
    import ctranslate2

    source_names, target_names = vocabularies(pipeline)
    target_ids = {name: number for number, name in enumerate(target_names)}

    def translate(translator: Any, size: int, texts: Sequence[str], beam: int) -> Sequence[str]:
        encoded = pipeline.encode_sources(list(texts))
        results = translator.translate_batch(
            [[source_names[token] for token in ids] for ids in encoded],
            beam_size=beam,
            length_penalty=pipeline.length_penalty,
            max_batch_size=size,
            batch_type="tokens",
            max_decoding_length=max(map(len, encoded)) + 50,
        )
        return [pipeline.target_tokenizer.decode([target_ids[name] for name in result.hypotheses[0]]) for result in results]

    found: dict[str, Translate] = {}
    for workers, size in product(sorted({1, cores()}), (1024, 2048, 4096)):
        translator = ctranslate2.Translator(
            str(place), inter_threads=workers, intra_threads=cores() // workers, compute_type=precision
        )
        found[f"{workers} workers of {cores() // workers} threads, {size} tokens"] = partial(translate, translator, size)
    return found


def hugging_face(pipeline: Translator) -> Translate:
    """`generate` of a Marian of the same shape."""
    from transformers import MarianConfig, MarianMTModel

    c = pipeline.model.config
    shape: dict[str, Any] = {"d_model": c.d_model, "vocab_size": c.target_vocab, "pad_token_id": pipeline.special.source_pad}
    of_sides: dict[str, Any] = {
        f"{side}_{name}": value
        for side, layers in (("encoder", c.layers), ("decoder", c.depth))
        for name, value in {"layers": layers, "attention_heads": c.heads, "ffn_dim": c.d_ff}.items()
    }
    ends: dict[str, Any] = {
        "eos_token_id": pipeline.limits.eos,
        "forced_eos_token_id": None,
        "decoder_start_token_id": pipeline.limits.bos,
    }
    model = MarianMTModel(MarianConfig(**shape, **of_sides, **ends)).eval()

    def translate(texts: Sequence[str], beam: int) -> Sequence[str]:
        written = []
        sources = pipeline.encode_sources(list(texts))
        steps = round(statistics.mean(map(len, sources))) + 1
        for at in range(0, len(sources), 64):
            part = sources[at : at + 64]
            longest = max(map(len, part))
            ids = torch.tensor([row + [shape["pad_token_id"]] * (longest - len(row)) for row in part])
            mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in part])
            with torch.inference_mode():
                found = model.generate(
                    input_ids=ids, attention_mask=mask, num_beams=beam, min_new_tokens=steps, max_new_tokens=steps
                )
            written += [pipeline.target_tokenizer.decode(row) for row in found.tolist()]
        return written

    return translate


def measure(engine: str, model: Path, data: Path, beam: int, most: int) -> dict[str, Any]:
    """What one engine does in this process."""
    torch.set_num_threads(cores())
    few = min(most, FEW) if engine == "marian" else most
    sources, references = (lines_of(data / f"test_2016_flickr.{language}.gz")[:few] for language in ("en", "de"))
    possible, place = ways(engine, model)
    rates: dict[str, float] = {}
    written: Sequence[str] = []
    for name, translate in possible.items():
        translate(sources[: few // 4], beam)
        started = time.perf_counter()
        written = translate(sources, beam)
        rates[name] = few / (time.perf_counter() - started)
    best = max(rates, key=rates.__getitem__)
    seconds = []
    for text in sources[:SINGLES]:
        started = time.perf_counter()
        possible[best]([text], beam)
        seconds.append(time.perf_counter() - started)
    cuts = statistics.quantiles(seconds, n=20)
    size = sum(
        file.stat().st_size for file in place.rglob("*") if file.is_file() and not file.is_relative_to(place / ".ctranslate2")
    )
    bleu = 0.0 if engine == "marian" else translation_scores(written, references, tokenize="none")["bleu"]
    latency = {"p50": statistics.median(seconds), "p95": cuts[-1]}
    return {"rate": rates[best], **latency, "disk": size / 1e6, "bleu": bleu, "setting": best}


def main() -> None:
    """Measure every engine in turn, round by round, and print one table per model and beam."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[], help="NAME=MODEL, such as tiny=runs/multi30k")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/multi30k/tok"), help="folder with the text of Multi30k")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--beams", nargs="+", type=int, default=list(BEAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=1000, help="of the test set")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # JSON: what to measure in this process
    arguments = parser.parse_args()
    if arguments.one:
        wish = json.loads(arguments.one)
        found = measure(wish["engine"], Path(wish["model"]), arguments.data, wish["beam"], arguments.sentences)
        print(json.dumps(found))
        return
    if not arguments.models:
        parser.error("name at least one model: --models tiny=runs/multi30k")
    transcript = Transcript(arguments.output)
    ratios = []
    for name, model in (one.split("=", 1) for one in arguments.models):
        rows: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for number in range(1, arguments.rounds + 1):
            for beam, engine in product(arguments.beams, arguments.engines):
                wish = json.dumps({"engine": engine, "model": model, "beam": beam})
                same = ["--data", str(arguments.data), "--sentences", str(arguments.sentences)]
                watched = watch([sys.executable, __file__, "--one", wish, *same])
                found = {**json.loads(watched.output.splitlines()[-1]), "megabytes": watched.megabytes}
                rows.setdefault((beam, engine), []).append(found)
                setting = f" ({found['setting']})" if found["setting"] else ""
                transcript.say(f"{name}, round {number}, beam {beam}, {engine}: {found['rate']:,.0f} sentences/s{setting}")
        for beam in arguments.beams:
            table = {
                engine: medians([{key: row[key] for key in row if key != "setting"} for row in rows[beam, engine]])
                for engine in arguments.engines
            }
            transcript.say(f"\n{name}, beam {beam}, {arguments.sentences:,} sentences")
            transcript.table(
                ("engine", "sentences/s", "latency p50, ms", "p95, ms", "peak memory, MB", "on disk, MB", "BLEU"),
                [
                    (ENGINES[engine], f"{row['rate']:,.0f}", f"{1e3 * row['p50']:.1f}", f"{1e3 * row['p95']:.1f}",
                     f"{row['megabytes']:,.0f}", f"{row['disk']:.1f}", f"{row['bleu']:.2f}" if row["bleu"] else "")
                    for engine, row in table.items()
                ],
            )  # fmt: skip
            if {"heedful", "ctranslate2-float32"} <= table.keys():
                ratios.append(f"{name}:beam{beam}={table['heedful']['rate'] / table['ctranslate2-float32']['rate']:.2f}")
    transcript.say(f"ratio {' '.join(ratios)}")


if __name__ == "__main__":
    main()
