"""Export to Argos Translate, and so to LibreTranslate: a package of a CTranslate2 model and a SentencePiece tokenizer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from heedful.data.languages import language_name
from heedful.errors import HeedfulError
from heedful.interop import ctranslate2
from heedful.interop.known_settings import Obstacle
from heedful.interop.proof import Answer, Comparison, compare, sentences_of
from heedful.interop.sentence_ends import write_sentence_ends
from heedful.runtime.files import write_text
from heedful.text.sentencepiece import is_unigram, write_sentencepiece

QUANTIZE = ctranslate2.QUANTIZE
LONGEST = 256  # the longest output it allows, in tokens
POWER = 0.2  # exponent of the length by which it divides a score
# Installs a package as a person would and translates with it, greedily; in a process of its own, whose settings and packages
# are in a directory that is thrown away.
PROGRAM = """
import json, sys
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
(installed,) = package.get_installed_packages()
found = translate.get_translation_from_codes(installed.from_code, installed.to_code)
sentencizer = found.underlying.sentencizer
def answer(text):
    best = found.hypotheses(text, num_hypotheses=1)[0]
    return [sentencizer.split_sentences(text), best.value, best.score]
json.dump([answer(text) for text in json.load(sys.stdin)], sys.stdout)
"""


def problems(pipeline: Any) -> list[Obstacle]:
    """Every setting of a model that an Argos package cannot express."""
    if pipeline.task != "translation":
        return [Obstacle(f"task = '{pipeline.task}' (only translation)")]
    wrong = ctranslate2.problems(pipeline)
    if not all(is_unigram(tokenizer.backend) for tokenizer in pipeline.tokenizers.values()):
        wrong.append(Obstacle("a vocabulary that is not of SentencePiece", "tokenizer.kind=sentencepiece"))
    for side in ("source", "target"):
        if not getattr(pipeline, f"{side}_language"):
            wrong.append(Obstacle(f"an unknown {side} language", f"data.{side}_language=CODE"))
    return wrong


def write(pipeline: Any, out: Path, quantize: str | None = None) -> str:
    """Write a package, a zip archive of one directory; returns a description of it."""
    codes = pipeline.source_language, pipeline.target_language
    pair = "_".join(codes)
    facts = {
        "type": "translate",
        "package_version": "1.0",
        "argos_version": "1.9",
        **{f"{side}_code": code for side, code in zip(("from", "to"), codes, strict=True)},
        **{f"{side}_name": language_name(code) for side, code in zip(("from", "to"), codes, strict=True)},
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / f"translate-{pair}-1_0"
        for part in ("model", "minisbd"):
            (folder / part).mkdir(parents=True)
        ctranslate2.write_model(pipeline, folder / "model", quantize)
        write_sentence_ends(folder / "minisbd" / "ends.onnx")
        (folder / "sentencepiece.model").write_bytes(sentencepiece_of(pipeline).serialized_model_proto())
        write_text(folder / "metadata.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        write_text(folder / "README.md", f"{pipeline.card.rstrip()}\n\nWritten by heedful for Argos Translate.\n")
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(temporary))
    return f"for Argos Translate ({facts['from_name']} to {facts['to_name']})"


def check(pipeline: Any, package: Path, texts: Sequence[str], what: str, quantize: str | None = None) -> Comparison:
    """Let Argos Translate install the package and translate with it, or imitate that if it is not installed."""
    texts = [" ".join(text.split()) for text in texts if pipeline.source_tokenizer.encode(text)]
    with tempfile.TemporaryDirectory() as folder:
        if find_spec("argostranslate"):
            software = f"argostranslate {version('argostranslate')}"
            found = by_argos(package, texts, Path(folder), "default" if quantize else "float32")
        else:
            software = "ctranslate2 and sentencepiece, called as Argos Translate does,"
            found = [([text], *answer) for text, answer in zip(texts, by_its_parts(package, texts, Path(folder)), strict=True)]
    ours, theirs = [], []
    pieces = sentencepiece_of(pipeline)
    for parts, text, score in found:
        sentences = sentences_of(pipeline, parts)
        for sentence in sentences:
            sentence.longest = LONGEST
        pipeline.decode(sentences)
        tokens = [token for sentence in sentences for token in sentence.tokens]
        written = pipeline.target_tokenizer.decode(tokens)
        if "\ufffd" in written:  # bytes that are not characters, which the two tokenizers show differently
            names = [pipeline.target_tokenizer.backend.id_to_token(token) for token in tokens]
            written = shown(pieces.decode_pieces(names))
        per_token = [sum(one.log_probabilities) / max(1, len(one.log_probabilities)) ** POWER for one in sentences]
        ours.append(Answer(shown(written), np.array([sum(per_token)], dtype=np.float32)))
        theirs.append(Answer(text, np.array([score], dtype=np.float32)))
    return compare(ours, theirs, software, what, quantize is None)


def sentencepiece_of(pipeline: Any) -> Any:
    """The tokenizer of the source in the SentencePiece library."""
    from sentencepiece import SentencePieceProcessor

    tokenizer = pipeline.source_tokenizer
    unknown = tokenizer.backend.id_to_token(tokenizer.unk)
    return SentencePieceProcessor(model_proto=write_sentencepiece(tokenizer.backend, unknown))


def shown(text: str) -> str:
    """A text as Argos Translate shows it: with spaces for underscores."""
    return text.replace("▁", " ").replace("_", " ").removeprefix(" ")


def by_argos(package: Path, texts: Sequence[str], folder: Path, precision: str) -> list[tuple[list[str], str, float]]:
    """Of each text: the sentences that Argos Translate finds in it, its translation and the score."""
    places = {name: str(folder) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "ARGOS_PACKAGES_DIR")}
    places["ARGOS_PACKAGES_DIR"] = str(folder / "packages")
    options = {"ARGOS_BEAM_SIZE": "1", "ARGOS_COMPUTE_TYPE": precision, "ARGOS_DEVICE_TYPE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(package)],
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        env={**os.environ, **places, **options},
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise HeedfulError(f"Argos Translate cannot use the package, so it was not kept: {reason}")
    return [(parts, text, score) for parts, text, score in json.loads(done.stdout)]


def by_its_parts(package: Path, texts: Sequence[str], folder: Path) -> list[tuple[str, float]]:
    """The translation of each text and its score, by the libraries that Argos Translate calls; texts are not split."""
    import ctranslate2 as library
    from sentencepiece import SentencePieceProcessor

    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    (inside,) = folder.iterdir()
    processor = SentencePieceProcessor(model_file=str(inside / "sentencepiece.model"))
    translator = library.Translator(str(inside / "model"))
    rows = [processor.encode(text, out_type=str) for text in texts]
    found = translator.translate_batch(rows, beam_size=1, length_penalty=POWER, replace_unknowns=True, return_scores=True)
    return [(shown(processor.decode_pieces(result.hypotheses[0])), result.scores[0]) for result in found]
