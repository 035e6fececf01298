"""Import and export of whole Hugging Face model directories.

Nothing in a directory is executed: weights are read only from safetensors, never from pickles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from heedful.errors import HeedfulError, UsageError
from heedful.interop import bert, bigbird, gpt2, gpt_neox, longformer, marian, pegasus, vit
from heedful.interop.foreign_config import ForeignConfig
from heedful.interop.foreign_tokenizers import TARGET, read_foreign_tokenizers, read_object, shifted, write_tokenizer
from heedful.interop.known_settings import Obstacle, refuse
from heedful.interop.sentence_transformers import is_sentence_encoder, lower_case, read_pooling, write_pooling
from heedful.jobs.registry import JOBS
from heedful.models import build_model, kind_of
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.models.vit import ViTConfig
from heedful.models.weights import load_weights, named_weights
from heedful.pipelines.embedder import Embedder
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.load import load_pipeline
from heedful.pipelines.model_directory import check_shapes, header_shapes
from heedful.pipelines.pipeline import AnyPipeline
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer
from heedful.runtime.files import os_error_sentence, refuse_to_overwrite, whole_directory, write_json, write_text, write_whole
from heedful.settings import Json, Values
from heedful.text import Tokenizer

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

Reader = Callable[[ForeignConfig, Mapping[str, Tensor], str], "tuple[ModelConfig, dict[str, Tensor]]"]
READERS: dict[str, Reader] = {
    "marian": marian.to_heedful,
    "bert": bert.to_heedful,
    "big_bird": bigbird.to_heedful,
    "longformer": longformer.to_heedful,
    "gpt2": gpt2.to_heedful,
    "vit": vit.to_heedful,
}
USUAL_CLASS = {
    "marian": marian.ARCHITECTURE, "bert": "BertModel", "big_bird": "BigBirdModel", "longformer": "LongformerModel",
    "gpt2": gpt2.ARCHITECTURES[0], "vit": vit.ARCHITECTURE,
}  # fmt: skip
# Encoders that are a Bert of ours: their name of the kind → our task, by class.
ENCODERS = {"bert": bert.ARCHITECTURES, "big_bird": bigbird.ARCHITECTURES, "longformer": longformer.ARCHITECTURES}
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
QUANTIZE: tuple[str, ...] = ()  # precisions other than float32
UNSAFE = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


def import_huggingface(path: Path, out: Path) -> str:
    """Convert a Hugging Face directory to one of ours; returns a sentence that describes it."""
    path, out = Path(path), Path(out)
    if path.is_file():  # config.json or the weights; both need the other files of the directory
        path = path.parent
    refuse_to_overwrite(out)
    if not path.is_dir():
        raise HeedfulError(f"there is no directory {path}{how_to_download(str(path))}")
    values = read_object(path / "config.json")
    if "format" in values and "kind" in values:
        raise HeedfulError(f"{path} is a heedful model already")
    model_type = str(values.get("model_type"))
    if model_type not in READERS:
        raise HeedfulError(
            f"{path} is a model of type '{model_type[:40]}', which heedful does not read; it reads {', '.join(sorted(READERS))}"
        )
    foreign = ForeignConfig(values, str(path / "config.json"))
    foreign.require(quantization_config=None)
    architecture = foreign.architecture(USUAL_CLASS[model_type])
    tensors, origin = read_tensors(path, architecture)
    refuse_too_many_layers(foreign, len(tensors))
    try:
        config, weights = READERS[model_type](foreign, tensors, origin)
    except UsageError as error:
        raise HeedfulError(f"{foreign.origin} does not describe a model: {error}") from error
    check_shapes(config, {name: weight.shape for name, weight in weights.items()}, origin)
    model = build_model(config)
    load_weights(model, weights, origin)

    task, use = find_task(path, foreign, config)
    tokenizers: dict[str, Tokenizer] = {}
    if isinstance(config, ViTConfig):
        images = path / "preprocessor_config.json"
        vit.refuse_other_pixels(ForeignConfig(read_object(images, optional=True), str(images)), config)
        note = (
            f"an image that is not {config.image_size}×{config.image_size} is centre-cropped to a square before it is scaled, "
            "whereas transformers distorts it"
        )
    else:
        sizes = [getattr(config, name) for name in ("source_vocab", "target_vocab", "vocab") if hasattr(config, name)]
        tokenizers, note = read_foreign_tokenizers(path, model_type, foreign, sizes)
    if task == "embedding":
        lower_case(path, tokenizers["tokenizer"])
    what = f"{architecture} of {sum(weight.numel() for weight in weights.values()):,} parameters"
    card = f"# {path.resolve().name}\n\n{JOBS[task].what.capitalize()}: a {what}, read by heedful from {path}.\n"
    if note:
        card += f"\n{note}.\n"
    if task == "translation":
        said = read_object(path / "tokenizer_config.json", optional=True)
        for side in ("source", "target"):
            code = said.get(f"{side}_lang")
            use = {**use, f"{side}_language": code if isinstance(code, str) else ""}
    try:
        pipeline = JOBS[task].pipeline_class.assemble(model, tokenizers, use)
    except UsageError as error:
        raise HeedfulError(f"{path} cannot be used as {JOBS[task].what}: {error}") from error
    with whole_directory(out) as folder:
        pipeline.save(folder, card)
    return f"read a {what} from {path}; {out} is {JOBS[task].what}" + (f". Note: {note}" if note else "")


def obstacles(config: ModelConfig, task: str) -> list[Obstacle]:
    """The settings of a model that transformers cannot express."""
    if isinstance(config, Seq2SeqConfig):
        found = (pegasus if config.norm == "pre" else marian).obstacles(config)
    elif isinstance(config, GPTConfig):
        found = gpt2.obstacles(config)
    elif isinstance(config, BertConfig):
        if config.attention_kind in ("longformer", "bigbird"):
            found = (longformer if config.attention_kind == "longformer" else bigbird).obstacles(config, task)
        else:
            found = bert.obstacles(config)
    elif isinstance(config, ViTConfig):
        found = vit.obstacles(config)
    else:
        return [Obstacle(f"kind = '{kind_of(config)}' (it has no such model)", "model.kind=seq2seq")]
    return found


def export_huggingface(model_dir: Path, out: Path) -> str:
    """Convert a model directory of ours to one that transformers loads; returns a sentence that describes it."""
    out = Path(out)
    refuse_to_overwrite(out)
    pipeline = load_pipeline(model_dir)
    refuse("transformers", problems(pipeline))
    with whole_directory(out) as folder:
        return f"wrote {JOBS[pipeline.task].what} to {out} {write(pipeline, folder)}"


def problems(pipeline: AnyPipeline) -> list[Obstacle]:
    """Everything that keeps a model from being exported."""
    return obstacles(pipeline.model.config, pipeline.task)


def write(pipeline: AnyPipeline, folder: Path, quantize: str | None = None) -> str:
    """Write a directory that transformers loads; returns a description of it."""
    config, weights = pipeline.model.config, named_weights(pipeline.model)
    kind, task = kind_of(config), pipeline.task
    values: dict[str, Json]
    shift = {"tokenizer": 0, "target_tokenizer": 0}
    if kind == "seq2seq":
        values, tensors = (pegasus if config.norm == "pre" else marian).to_huggingface(config, weights)
        assert isinstance(pipeline, Translator)
        target = pipeline.target_tokenizer
        ids = {"decoder_start_token_id": target.bos, "eos_token_id": target.eos, "pad_token_id": target.pad}
        values |= {**ids, "forced_eos_token_id": target.eos, "bos_token_id": None}
        if config.norm == "pre" and pegasus.two_vocabularies(config):
            shift["tokenizer"] = config.target_vocab
    elif isinstance(pipeline, Writer):
        values, tensors = (gpt_neox if config.positions == "rotary" else gpt2).to_huggingface(config, weights)
        values |= {"bos_token_id": pipeline.tokenizer.bos, "eos_token_id": pipeline.tokenizer.eos}
    elif isinstance(pipeline, EncoderPipeline):
        pad, sep = pipeline.tokenizer.pad, pipeline.tokenizer.eos
        if config.attention_kind == "longformer":
            values, tensors = longformer.to_huggingface(config, weights, task, pad, sep)
        elif config.attention_kind == "bigbird":
            values, tensors = bigbird.to_huggingface(config, weights, task)
        else:
            values, tensors = bert.to_huggingface(config, weights, task)
        values["pad_token_id"] = pad
    else:
        values, tensors = vit.to_huggingface(config, weights)
    labels: Sequence[str] = pipeline.labels
    if labels:
        values["id2label"] = {str(number): label for number, label in enumerate(labels)}
        values["label2id"] = {label: number for number, label in enumerate(labels)}

    architecture = ForeignConfig(values, str(folder)).architecture("")
    write_json(folder / "config.json", {**values, "dtype": "float32"})
    write_whole(folder / WEIGHTS, lambda place: save_file(tensors, place, metadata={"format": "pt"}))
    longest = min(getattr(pipeline, "max_length", 512), getattr(config, "max_positions", getattr(config, "context", 512)))
    tokenizers = dict(pipeline.tokenizers)
    if shift["tokenizer"]:
        tokenizers.setdefault("target_tokenizer", target)
    for name, tokenizer in tokenizers.items():
        place = folder if name == "tokenizer" else folder / TARGET
        write_tokenizer(place, shifted(tokenizer, shift[name]), kind, longest)
    if isinstance(pipeline, Translator):
        # Neither their search nor ours may generate padding or the begin token.
        never = [[token] for token in sorted({target.pad, target.bos})]
        search: dict[str, Json] = {"num_beams": pipeline.beam, "max_length": 512, "bad_words_ids": never}
        write_json(folder / "generation_config.json", {**ids, **search})
    if isinstance(pipeline, Embedder):
        write_pooling(folder, config.d_model, pipeline.pooling, pipeline.normalize, pipeline.max_length)
    if kind == "vit":
        write_json(folder / "preprocessor_config.json", vit.image_processor(config))
    write_text(folder / "README.md", f"{pipeline.card.rstrip()}\n\nWritten by heedful as {architecture} of transformers.\n")
    return f"as a {architecture} of transformers"


def find_task(path: Path, foreign: ForeignConfig, config: ModelConfig) -> tuple[str, Values]:
    """Our task for the model, and the settings of its pipeline."""
    kind = kind_of(config)
    if is_sentence_encoder(path) and not (isinstance(config, BertConfig) and config.head == "none"):
        raise HeedfulError(f"{path} is a sentence-transformers model; heedful reads only those with a BertModel")
    if kind == "seq2seq":
        given = {**foreign.values, **read_object(path / "generation_config.json", optional=True)}
        beams = ForeignConfig(given, str(path / "generation_config.json")).integer("num_beams", 4)
        return "translation", {"beam": beams}
    if kind == "gpt":
        return "language-model", {}
    if kind == "vit":
        return "image-classification", {"labels": foreign.labels()}
    assert isinstance(config, BertConfig)
    family = str(foreign.values["model_type"])
    task = ENCODERS[family][foreign.architecture(USUAL_CLASS[family])][1]
    longest = read_object(path / "tokenizer_config.json", optional=True).get("model_max_length")
    limit = min(config.max_positions, longest if isinstance(longest, int) and longest > 2 else config.max_positions)
    use: Values = {"max_length": limit}
    if task in ("classification", "tagging"):
        use["labels"] = foreign.labels()
    if task == "tagging":
        use["split"] = "words"  # named-entity corpora separate punctuation from words
    if is_sentence_encoder(path):
        use |= read_pooling(path)
        use["max_length"] = min(use["max_length"], config.max_positions)
    return task, use


def read_tensors(path: Path, architecture: str) -> tuple[dict[str, Tensor], str]:
    """Every tensor of a directory by name, and the file they come from, which may be an index of several files."""
    if (path / WEIGHTS).is_file():
        return read_safetensors(path / WEIGHTS), str(path / WEIGHTS)
    if (path / INDEX).is_file():
        listed = read_object(path / INDEX).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(name, str) and Path(name).name == name for name in listed.values()):
            raise HeedfulError(f"{path / INDEX} does not say which file of its folder each tensor is in")
        tensors: dict[str, Tensor] = {}
        for name in sorted(set(listed.values())):
            tensors |= read_safetensors(path / name)
        return tensors, str(path / INDEX)
    unsafe = next((name for name in UNSAFE if (path / name).is_file()), None)
    if unsafe is None:
        raise HeedfulError(f"{path} has no weights: neither {WEIGHTS} nor {INDEX}")
    convert = f"import transformers as t; t.{architecture}.from_pretrained('{path}').save_pretrained('OUT')"
    raise HeedfulError(
        f"{path} has its weights only in {unsafe}, a format that can run code or needs another library; if you trust it, "
        f'`python -c "{convert}"` writes {WEIGHTS}; put that beside its config.json and tokenizer'
    )


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Name → tensor of one file."""
    try:
        with path.open("rb") as file:
            if file.read(32).startswith(b"version https://git-lfs"):
                raise HeedfulError(f"{path} is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`")
        header_shapes(path)  # rejects impossible sizes before the library allocates memory for them
        return dict(load_file(path))
    except SafetensorError as error:
        raise HeedfulError(f"{path} is not a complete safetensors file: {error}") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error


def refuse_too_many_layers(foreign: ForeignConfig, tensors: int) -> None:
    """Raise a short error for a wrong number of layers, instead of an endless list of missing tensors."""
    for name in ("num_hidden_layers", "n_layer", "encoder_layers", "decoder_layers"):
        if foreign.integer(name, 0, least=0) > tensors:
            raise HeedfulError(f"{foreign.origin} has {name} = {foreign.values[name]}, but there are only {tensors} tensors")


def how_to_download(name: str) -> str:
    """How to download a model if its name on the Hugging Face hub was given: heedful never downloads on its own."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        return ""
    folder = name.rpartition("/")[2]
    return (
        f"; if it is a model on the Hugging Face hub, download it first: `pip install huggingface_hub`, "
        f"`hf download {name} --local-dir {folder}`, then `heedful import {folder} OUT`"
    )
