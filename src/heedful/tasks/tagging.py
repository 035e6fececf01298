"""Tagging as a job for the trainer: sentences with a tag for every word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.conll import read_conll
from heedful.data.date_tags import write_date_tags
from heedful.data.prepare import Facts
from heedful.data.prepare_examples import Maker, Reader, write_in_groups
from heedful.data.tagged_words import TaggedSentence, pieces_of
from heedful.data.token_store import Rows
from heedful.jobs.data_settings import ExampleSettings
from heedful.models.bert import Bert
from heedful.pipelines.tagger import Tagger
from heedful.tasks.encoder import EncoderBatch, LabelledTask
from heedful.text import Tokenizer

NO_LABEL = -100  # ignored by cross_entropy: tokens that are not the first of a word


class TaggingTask(LabelledTask):
    """Learns the tag of a word from its first token. In the store a target is the label's number + 1, or 0 for no label."""

    read: ClassVar[Reader[TaggedSentence]] = staticmethod(read_conll)
    generate: ClassVar[Mapping[str, Maker]] = {"dates": lambda folder, data, seed: write_date_tags(folder, seed)}
    unit = "words"

    @classmethod
    def texts(cls, example: TaggedSentence) -> list[str]:
        return [" ".join(example[0])]

    @classmethod
    def write(cls, examples: list[TaggedSentence], tokenizer: Tokenizer, data: ExampleSettings, folder: Path) -> Facts:
        found = {tag for _, tags in examples for tag in tags}
        labels = sorted(found, key=lambda tag: (tag != "O", tag))  # O first: the label of words that the model does not see
        known = {label: number for number, label in enumerate(labels)}

        def rows() -> Iterator[Rows]:
            for words, tags in examples:
                for start, ids, first in pieces_of(words, tokenizer, data.max_length - 2):
                    target = [0] * len(ids)
                    for word, place in enumerate(first, start):
                        if place is not None:
                            target[place] = known[tags[word]] + 1
                    yield ids, target

        write_in_groups(folder, rows())
        return {"labels": labels}

    def labels(self, targets: list[NDArray[np.uint32]], length: int) -> Tensor:
        found = np.full((len(targets), length), NO_LABEL, dtype=np.int64)
        for row, target in enumerate(targets):
            found[row, 1 : 1 + len(target)] = np.where(target > 0, target.astype(np.int64) - 1, NO_LABEL)
        return torch.from_numpy(found)

    def pipeline(self, model: Bert, quick: bool = False) -> Tagger:
        data = self.recipe.data
        return Tagger(model, self.tokenizer, self.manifest["labels"], data.max_length, data.split)

    def loss(self, model: Bert, batch: EncoderBatch) -> tuple[Tensor, Tensor, int]:
        logits = model(batch.tokens, batch.segments, batch.mask)
        assert isinstance(logits, Tensor)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.labels.flatten(), reduction="sum", ignore_index=NO_LABEL
        )
        return loss, loss, int((batch.labels != NO_LABEL).sum())
