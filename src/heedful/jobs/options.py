"""The options of every verb, defined once for the command line, Python and HTTP: type, range, default and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias, TypeVar

from annotated_types import Interval

from heedful.errors import UsageError, did_you_mean
from heedful.settings import check_fields, hints, setting

Beam = Annotated[int, Interval(ge=1, le=10**7)]  # how wide one may really be depends on the memory
Alpha = Annotated[float, Interval(ge=0, le=10)]
Temperature = Annotated[float, Interval(ge=0.001, le=1000)]
TopK = Annotated[int, Interval(ge=0, le=10**9)]
TopP = Annotated[float, Interval(ge=1e-6, le=1)]
NoRepeat = Annotated[int, Interval(ge=0, le=1000)]
Repetition = Annotated[float, Interval(ge=0.01, le=100)]
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]
Top = Annotated[int, Interval(ge=1, le=10**7)]

OptionValue: TypeAlias = str | int | float | bool | None  # what a keyword argument of a verb may be
Backend = Literal["auto", "native", "ctranslate2"]
ABOUT_BACKEND = "What decodes: native, ctranslate2 (heedful[fast]), or auto: the faster one of those that can."


@dataclass(frozen=True)
class Options:
    """Options of one request. A verb without any has just this."""

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(cls, **given: OptionValue) -> Self:
        """From keyword arguments; a name that is none of the options is an error in words."""
        for name in given:
            if name not in hints(cls):
                raise UsageError(f"there is no option '{name}'{did_you_mean(name, hints(cls))}")
        return cls(**given)


OptionsType = TypeVar("OptionsType", bound=Options)


@dataclass(frozen=True)
class SearchOptions(Options):
    """How an output is searched for."""

    beam: Beam | None = setting(None, "Beam width; 1 is greedy [default: the model's].")
    length_penalty: Alpha | None = setting(None, "The α of beam search: larger favours longer outputs [default: the model's].")


@dataclass(frozen=True)
class SummarizeOptions(SearchOptions):
    """How a summary is searched for."""

    no_repeat_ngram: NoRepeat | None = setting(None, "Write no n-gram of this length twice; 0 allows it [default: the model's].")
    repetition_penalty: Repetition | None = setting(
        None, "Above 1: tokens already written become less probable [default: the model's, usually 1]."
    )


@dataclass(frozen=True)
class TranslateOptions(SummarizeOptions):
    """How a translation is searched for, or drawn."""

    n_best: Beam = setting(1, "How many translations of each text, best first.")
    sample: bool = setting(False, "Sample instead of searching.")
    temperature: Temperature = setting(1.0, "Of sampling: below 1 more cautious, above 1 more varied.")
    top_k: TopK = setting(0, "Of sampling: only the k most probable tokens; 0 is all.")
    top_p: TopP = setting(1.0, "Of sampling: only the most probable tokens that make up p.")
    seed: Seed = setting(1, "Of sampling: another seed, another text.")


@dataclass(frozen=True)
class GenerateOptions(Options):
    """How a text is continued."""

    length: Annotated[int, Interval(ge=1, le=1_000_000)] = setting(200, "Tokens to write at most.")
    count: Annotated[int, Interval(ge=1, le=100_000)] = setting(1, "How many different texts for each prompt.")
    beam: Annotated[int, Interval(ge=0, le=10**7)] = setting(
        0, "Search with a beam of this width instead of sampling; 1 is greedy."
    )
    temperature: Temperature = setting(1.0, "Below 1 more cautious, above 1 more varied.")
    top_k: TopK = setting(0, "Only the k most probable tokens; 0 is all.")
    top_p: TopP = setting(1.0, "Only the most probable tokens that make up p.")
    seed: Seed = setting(1, "Another seed, another text.")
    no_repeat_ngram: NoRepeat = setting(0, "Write no n-gram of this many tokens twice, the prompt included; 0 allows it.")
    repetition_penalty: Repetition = setting(1.0, "Above 1: tokens already written, or of the prompt, become less probable.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beam and self.count > 1:
            raise UsageError("a search always finds the same text; several texts (count) need sampling, without beam")


@dataclass(frozen=True)
class FillOptions(Options):
    """What is shown of the guesses."""

    top: Top = setting(5, "How many guesses for each [MASK].")


@dataclass(frozen=True)
class ClassifyOptions(Options):
    """What is shown of the classes."""

    top: Top = setting(1, "How many classes to show, most probable first.")


@dataclass(frozen=True)
class ExplainOptions(SearchOptions):
    """What is explained of a model's work, and how the model works."""

    target: str | None = setting(None, "Explain this output instead of the model's own.")
    length: Annotated[int, Interval(ge=0, le=1_000_000)] = setting(20, "Of a language model: tokens to write at most.")
    top: Top = setting(5, "How many candidates for each position.")
