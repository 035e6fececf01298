"""The summary of a document, written by an encoder–decoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, overload

from heedful.data.documents import read_summaries
from heedful.data.drops import Drops
from heedful.data.parallel import Pair
from heedful.decoding.sentence import Sentence
from heedful.evaluation.rouge import summary_scores
from heedful.evaluation.score_names import Scores
from heedful.jobs.options import Alpha, Beam, NoRepeat, Options, OptionValue, Repetition, SummarizeOptions, TranslateOptions
from heedful.jobs.results import Result, Summary, on_one_line
from heedful.models.seq2seq import Seq2Seq
from heedful.pipelines.pipeline import Texts, as_list, options_of
from heedful.pipelines.translator import Translator
from heedful.settings import Count, CountOrNone, Json
from heedful.text import Tokenizer


class Summarizer(Translator):
    """Writes summaries; a document is truncated to `max_length` tokens."""

    task: ClassVar[str] = "summarization"

    def __init__(
        self,
        model: Seq2Seq,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        beam: Beam = 4,
        length_penalty: Alpha = 0.6,
        max_extra: CountOrNone = 50,
        max_length: Count = 512,
        max_tokens: CountOrNone = 0,
        no_repeat_ngram: NoRepeat = 0,
        repetition_penalty: Repetition = 1.0,
    ) -> None:
        super().__init__(
            model,
            source_tokenizer,
            target_tokenizer,
            beam,
            length_penalty,
            max_extra,
            max_tokens=max_tokens,
            no_repeat_ngram=no_repeat_ngram,
            repetition_penalty=repetition_penalty,
        )
        self.max_length = max_length

    @property
    def settings(self) -> dict[str, Json]:
        kept = {name: value for name, value in super().settings.items() if not name.endswith("_language")}
        return {**kept, "max_length": self.max_length}

    @property
    def longest_source(self) -> int:
        return self.max_length

    @overload
    def summarize(self, documents: str, **options: OptionValue) -> str: ...

    @overload
    def summarize(self, documents: Texts, **options: OptionValue) -> list[str]: ...

    def summarize(self, documents: str | Texts, **options: OptionValue) -> str | list[str]:
        """The summary of a document, or of each of several; keywords are those of `SummarizeOptions`."""
        several, alone = as_list(documents)
        found = [on_one_line(text) for text in self.translate(several, **vars(SummarizeOptions.of(**options)))]
        return found[0] if alone else found

    def sentences(self, inputs: Sequence[str], options: Options | None = None) -> list[list[Sentence]]:
        return super().sentences(inputs, TranslateOptions(**vars(options_of(SummarizeOptions, options))))

    def results(self, given: str, sentences: Sequence[Sentence]) -> list[Result]:
        best = [self.target_tokenizer.decode(sentence.hypotheses[0].tokens) for sentence in sentences]
        return [Summary(given, on_one_line(best[0] if best else ""))]

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids[: self.max_length] for ids in super().encode_sources(texts)]

    def read_examples(self, path: Path, drops: Drops) -> list[Pair]:
        return list(read_summaries(path, drops))

    def text_scores(self, written: Sequence[str], right: Sequence[str]) -> Scores:
        return summary_scores(written, right)
