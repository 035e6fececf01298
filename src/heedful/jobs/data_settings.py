"""The data section of a recipe: one class of settings for each data format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from heedful.settings import Count, CountOrNone, Share, setting

Length = Annotated[int, Interval(ge=1, le=1_000_000)]  # tokens


@dataclass(frozen=True)
class PairSettings:
    """Where the pairs come from. A TSV or JSONL of pairs is a `source` without a `target`."""

    source: str = setting(
        "", "the text to translate; or alone: a `.tsv` (source, tab, target) or a `.jsonl` (`source`, `target`)"
    )
    target: str = setting("", "its translation, line by line")
    valid_source: str = setting("", "validation pairs, source side; without them some training pairs are held out")
    valid_target: str = setting("", "of validation pairs")
    test_source: str = setting("", "test pairs, source side; scored once, at the end")
    test_target: str = setting("", "of test pairs")
    source_language: str = setting(
        "", "code of the language translated from, such as `en`; guessed from a file ending (`train.en`)"
    )
    target_language: str = setting("", "code of the language translated into; guessed likewise")
    reverse: bool = setting(False, "swap the direction: translate from `target` to `source`, for all files and languages")
    both: bool = setting(False, "also train the other direction, in the run's directory `reverse`; `--both` sets it")
    monolingual_target: str = setting(
        "", "plain text in the language translated into; a reverse model, trained first, turns it into pairs (back-translation)"
    )
    monolingual_source: str = setting(
        "", "plain text in the language translated from; a first model turns it into pairs (self-training)"
    )
    generate: str = setting("", "a built-in corpus instead of files: `dates`")
    pairs: Annotated[int, Interval(ge=1, le=100_000_000)] = setting(200_000, "training pairs to generate")
    hold_out: Count = setting(1000, "pairs held out for validation when no validation files are given (at most a tenth)")
    max_length: Annotated[int, Interval(ge=1, le=4096)] = setting(
        256, "tokens of either side; a longer training pair is dropped and counted"
    )


@dataclass(frozen=True)
class TextSettings:
    """Plain text files, several separated by commas."""

    train: str = setting("", "plain text files, separated by commas")
    valid: str = setting("", "of validation; without it the end of the training text is held out")
    test: str = setting("", "scored once, at the end")
    generate: str = setting("", "a built-in text instead of files: `topics`")
    hold_out: Share = setting(0.1, "share of the text held out for validation when no validation file is given")


@dataclass(frozen=True)
class ExampleSettings:
    """Files of examples, in the format that belongs to the job."""

    train: str = setting("", "a file in the format of the job")
    valid: str = setting("", "of validation; without it some examples are held out")
    test: str = setting("", "scored once, at the end")
    generate: str = setting("", "a built-in corpus instead of files")
    hold_out: Count = setting(1000, "examples held out for validation when no validation file is given (at most a tenth)")
    max_length: Length = setting(128, "tokens of one example, special tokens included; what is longer is cut")


@dataclass(frozen=True)
class ClassificationSettings(ExampleSettings):
    """CSV, TSV or JSONL of texts and labels."""

    examples: CountOrNone = setting(0, "training examples to generate; 0 for the corpus's usual number")


@dataclass(frozen=True)
class DocumentSettings(ExampleSettings):
    """Text with one sentence per line and a blank line between documents."""

    masked: Share = setting(0.15, "share of the tokens that the model must predict")


@dataclass(frozen=True)
class TagSettings(ExampleSettings):
    """CoNLL columns: one word and its tag per line, a blank line between sentences."""

    split: Literal["spaces", "words"] = setting(
        "spaces", "how `heedful tag` finds the words of a text: `spaces`, or `words` (letters, digits and signs apart)"
    )


@dataclass(frozen=True)
class QuestionSettings(ExampleSettings):
    """SQuAD v1.1 JSON."""

    max_length: Length = setting(256, "tokens of question and passage together; a longer passage is read in windows")
    stride: CountOrNone = setting(96, "overlap of the windows of a long passage, in tokens")
    max_answer: Count = setting(30, "longest answer, in tokens")


@dataclass(frozen=True)
class SummarySettings(ExampleSettings):
    """JSONL of document and summary."""

    max_length: Length = setting(512, "tokens of a document; the rest is cut off")


@dataclass(frozen=True)
class ImageSettings:
    """A folder of images with a sub-folder for each class."""

    train: str = setting("", "a folder with a sub-folder of images for each class")
    valid: str = setting("", "of validation; without it some images are held out")
    test: str = setting("", "scored once, at the end")
    generate: str = setting("", "a built-in set of images instead of files: `digits`")
    hold_out: Count = setting(1000, "images held out for validation when no validation folder is given (at most a tenth)")
    size: Annotated[int, Interval(ge=1, le=4096)] = setting(32, "height and width that images are resized to")
    channels: Literal[1, 3] = setting(3, "3 is colour, 1 is grey")
    flip: bool = setting(False, "mirror half of the images during training")
    crop: Annotated[int, Interval(ge=0, le=4096)] = setting(0, "shift images by up to this many pixels during training")
    mixup: Annotated[float, Interval(ge=0, le=1000)] = setting(
        0.0, "blend pairs of images: the α of the Beta distribution; 0 never does"
    )
