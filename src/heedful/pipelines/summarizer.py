"""The summary of a document, written by an encoder–decoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, overload

from heedful.data.documents import read_summaries
from heedful.data.drops import Drops
from heedful.evaluation.rouge import summary_scores
from heedful.jobs.options import Alpha, Beam, SummarizeOptions
from heedful.jobs.results import Summary, on_one_line
from heedful.models.seq2seq import Seq2Seq
from heedful.pipelines.pipeline import as_list, options_of
from heedful.pipelines.translator import Translator
from heedful.settings import Count, CountOrNone
from heedful.text import Tokenizer


class Summarizer(Translator):
    """Writes the summary of a document; what of it the model cannot read is cut off at `max_length` tokens."""

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
    ) -> None:
        super().__init__(model, source_tokenizer, target_tokenizer, beam, length_penalty, max_extra)
        self.max_length = max_length

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "max_length": self.max_length}

    @property
    def longest_source(self) -> int:
        return self.max_length

    @overload
    def summarize(self, documents: str, **options: Any) -> str: ...

    @overload
    def summarize(self, documents: Sequence[str], **options: Any) -> list[str]: ...

    def summarize(self, documents: str | Sequence[str], **options: Any) -> str | list[str]:
        """The summary of a document, or of each of several; keywords are those of `SummarizeOptions`."""
        several, alone = as_list(documents)
        found = [result.summary for result in self.run(several, SummarizeOptions.of(**options))]
        return found[0] if alone else found

    def run(self, inputs: Sequence[str], options: Any = None) -> list[Summary]:
        written = self.translate(list(inputs), **vars(options_of(SummarizeOptions, options)))
        return [Summary(document, on_one_line(text)) for document, text in zip(inputs, written, strict=True)]

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids[: self.max_length] for ids in super().encode_sources(texts)]

    def read_examples(self, path: Path, drops: Drops) -> list[tuple[str, str]]:
        return list(read_summaries(path, drops))

    def text_scores(self, written: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
        return summary_scores(written, right)
