"""The jobs a recipe can name: what data each takes, which models do it, and how it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PairSettings:
    """Where the pairs come from. A TSV or JSONL of pairs is a `source` without a `target`."""

    source: str = ""
    target: str = ""
    valid_source: str = ""
    valid_target: str = ""
    test_source: str = ""
    test_target: str = ""
    generate: str = ""  # a corpus made on the spot instead of files: dates
    pairs: int = 200_000  # how many training pairs to generate
    hold_out: int = 1000  # pairs held out for validation when no validation files are given (at most a tenth)
    max_length: int = 256  # tokens; a longer training pair is dropped and counted


@dataclass(frozen=True)
class TextSettings:
    """Plain text files, several separated by commas."""

    train: str = ""
    valid: str = ""
    test: str = ""
    generate: str = ""  # text made on the spot instead of files: topics
    hold_out: float = 0.1  # share of the text, its end, held out for validation when no validation file is given


@dataclass(frozen=True)
class ExampleSettings:
    """Files of examples, in the format that belongs to the job."""

    train: str = ""
    valid: str = ""
    test: str = ""
    generate: str = ""  # examples made on the spot instead of files
    hold_out: int = 1000  # examples held out for validation when no validation file is given (at most a tenth)
    max_length: int = 128  # tokens of one example; what is longer is cut


@dataclass(frozen=True)
class DocumentSettings(ExampleSettings):
    """Text with a sentence a line and a blank line between documents."""

    masked: float = 0.15  # share of the tokens that are to be guessed


@dataclass(frozen=True)
class TagSettings(ExampleSettings):
    """CoNLL columns: a word and its tag a line, a blank line between sentences."""

    split: str = "spaces"  # how `heedful tag` finds the words of a text: spaces, or words (letters, digits, signs apart)


@dataclass(frozen=True)
class QuestionSettings(ExampleSettings):
    """SQuAD v1.1 JSON."""

    max_length: int = 256  # tokens of question and passage together; a longer passage is read in windows
    stride: int = 96  # tokens by which windows of a long passage overlap
    max_answer: int = 30  # longest answer, in tokens


@dataclass(frozen=True)
class SummarySettings(ExampleSettings):
    """JSONL of document and summary."""

    max_length: int = 512  # tokens of a document; the rest is cut off


@dataclass(frozen=True)
class ImageSettings:
    """A folder of images with a sub-folder for each class."""

    train: str = ""
    valid: str = ""
    test: str = ""
    generate: str = ""  # images that come with a package instead: digits
    hold_out: int = 1000  # images held out for validation when no validation folder is given (at most a tenth)
    size: int = 32  # height and width that images are brought to
    channels: int = 3  # 3 is colour, 1 is grey
    flip: bool = False  # mirror half of the images while training
    crop: int = 0  # shift images by up to this many pixels while training
    mixup: float = 0.0  # blend pairs of images; the α of the Beta distribution, 0 never


@dataclass(frozen=True)
class Job:
    """What a recipe's `task` stands for."""

    kinds: tuple[str, ...]  # of model; the first is the default
    preset: str  # of that default
    data: Any  # settings of its data section
    metrics: tuple[str, ...]  # what may choose the best checkpoint; the first is the default
    generate: str  # the default corpus, made on the spot
    fixed: tuple[str, ...]  # settings of the model that the job and its data decide
    head: str = "none"  # of a BERT


PAIRS = ("source_vocab", "target_vocab")
BERT = ("vocab", "head", "classes")
JOBS: dict[str, Job] = {
    "translation": Job(("seq2seq", "recurrent"), "base", PairSettings, ("bleu", "chrf", "exact", "loss"), "dates", PAIRS),
    "summarization": Job(
        ("seq2seq", "recurrent"), "tiny", SummarySettings, ("rougeL", "rouge1", "rouge2", "loss"), "topics", PAIRS
    ),
    "language-model": Job(("gpt",), "gpt-mini", TextSettings, ("loss",), "topics", ("vocab",)),
    "bert-pretraining": Job(("bert",), "bert-tiny", DocumentSettings, ("loss", "masked_accuracy"), "topics", BERT, "pretraining"),
    "classification": Job(
        ("bert",), "bert-tiny", ExampleSettings, ("accuracy", "macro_f1", "loss"), "languages", BERT, "sequence"
    ),
    "tagging": Job(("bert",), "bert-tiny", TagSettings, ("f1", "accuracy", "loss"), "dates", BERT, "token"),
    "question-answering": Job(("bert",), "bert-tiny", QuestionSettings, ("f1", "exact"), "facts", BERT, "token"),
    "image-classification": Job(
        ("vit",), "vit-digits", ImageSettings, ("accuracy", "top5", "loss"), "digits", ("classes", "image_size", "channels")
    ),
}
