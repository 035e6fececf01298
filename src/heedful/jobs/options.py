"""The options of every verb, defined once for the command line, Python and HTTP: type, range, default and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias, TypeVar

from annotated_types import Interval

from heedful.errors import UsageError, did_you_mean
from heedful.settings import check_fields, hints, setting

Beam = Annotated[int, Interval(ge=1, le=10**7)]  # memory usually sets a lower limit
Alpha = Annotated[float, Interval(ge=0, le=10)]
Temperature = Annotated[float, Interval(ge=0.001, le=1000)]
TopK = Annotated[int, Interval(ge=0, le=10**9)]
TopP = Annotated[float, Interval(ge=1e-6, le=1)]
NoRepeat = Annotated[int, Interval(ge=0, le=1000)]
Repetition = Annotated[float, Interval(ge=0.01, le=100)]
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]
Top = Annotated[int, Interval(ge=1, le=10**7)]

OptionValue: TypeAlias = str | int | float | bool | None  # types of a verb's keyword arguments
Backend = Literal["auto", "native", "ctranslate2"]
ABOUT_BACKEND = "What decodes: native, ctranslate2 (heedful[fast]), or auto for the faster one that supports the model."


@dataclass(frozen=True)
class Options:
    """Options of one request. A verb without options uses this class itself."""

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(cls, **given: OptionValue) -> Self:
        """From keyword arguments; an unknown name is an error that suggests the nearest option."""
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

    no_repeat_ngram: NoRepeat | None = setting(
        None, "Never repeat an n-gram of this many tokens; 0 for no limit [default: the model's]."
    )
    repetition_penalty: Repetition | None = setting(
        None, "Above 1: tokens already written become less probable [default: the model's, usually 1]."
    )


@dataclass(frozen=True)
class TranslateOptions(SummarizeOptions):
    """How a translation is searched for, or sampled."""

    n_best: Beam = setting(1, "How many translations of each text, best first.")
    sample: bool = setting(False, "Sample instead of searching.")
    temperature: Temperature = setting(1.0, "With sampling: below 1 is more cautious, above 1 more varied.")
    top_k: TopK = setting(0, "With sampling: only the k most probable tokens; 0 for all.")
    top_p: TopP = setting(1.0, "With sampling: only the most probable tokens whose probabilities add up to p.")
    seed: Seed = setting(1, "With sampling: a different seed gives a different text.")


@dataclass(frozen=True)
class GenerateOptions(Options):
    """How a text is continued."""

    length: Annotated[int, Interval(ge=1, le=1_000_000)] = setting(200, "Tokens to write at most.")
    count: Annotated[int, Interval(ge=1, le=100_000)] = setting(1, "How many different texts to write for each prompt.")
    beam: Annotated[int, Interval(ge=0, le=10**7)] = setting(
        0, "Search with a beam of this width instead of sampling; 1 is greedy."
    )
    temperature: Temperature = setting(1.0, "Below 1 is more cautious, above 1 more varied.")
    top_k: TopK = setting(0, "Only the k most probable tokens; 0 for all.")
    top_p: TopP = setting(1.0, "Only the most probable tokens whose probabilities add up to p.")
    seed: Seed = setting(1, "A different seed gives a different text.")
    no_repeat_ngram: NoRepeat = setting(
        0, "Never repeat an n-gram of this many tokens, including those of the prompt; 0 for no limit."
    )
    repetition_penalty: Repetition = setting(1.0, "Above 1: tokens already in the text or the prompt become less probable.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beam and self.count > 1:
            raise UsageError("a search always finds the same text; several texts (count) need sampling, without beam")


@dataclass(frozen=True)
class FillOptions(Options):
    """How many guesses are shown."""

    top: Top = setting(5, "How many guesses for each [MASK].")


@dataclass(frozen=True)
class ClassifyOptions(Options):
    """How many classes are shown."""

    top: Top = setting(1, "How many classes to show, most probable first.")


@dataclass(frozen=True)
class ExplainOptions(SearchOptions):
    """What to explain, and how the model decodes."""

    target: str | None = setting(None, "Explain this output instead of the model's own.")
    length: Annotated[int, Interval(ge=0, le=1_000_000)] = setting(20, "For a language model: maximum number of tokens to write.")
    top: Top = setting(5, "How many candidates to show for each position.")
