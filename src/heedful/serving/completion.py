"""A prompt being continued, as OpenAI's completions describe it."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.decoding.sentence import Sampling, Sentence
from heedful.errors import InputError, UsageError
from heedful.pipelines.writer import Writer
from heedful.settings import JsonObject


class Completion:
    """A prompt being continued, as OpenAI's completions describe it: stop texts, log-probabilities, echo, pieces."""

    def __init__(
        self,
        pipeline: Writer,
        prompt: str | Sequence[int],
        max_tokens: int = 16,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: str = "",
        stop: Sequence[str] = (),
        logprobs: int | None = None,
        echo: bool = False,
        stream: bool = False,
    ) -> None:
        tokenizer = pipeline.tokenizer
        self.pipeline, self.tokenizer = pipeline, tokenizer
        self.ids = tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        if any(not 0 <= token < pipeline.model.config.vocab for token in self.ids):
            raise UsageError(f"a token of the prompt is not below the model's vocabulary of {pipeline.model.config.vocab:,}")
        self.prompt = prompt if isinstance(prompt, str) else tokenizer.decode(self.ids)
        self.max_tokens, self.temperature, self.top_p, self.seed = max_tokens, temperature, top_p, seed
        self.top_k = top_k
        self.stop, self.logprobs, self.echo, self.stream = [text for text in stop if text], logprobs, echo, stream
        self.sentence: Sentence | None = None
        self.sent = 0  # characters that were sent as pieces
        self.sent_tokens = 0
        self.stopped = False
        if echo and logprobs is not None and len(self.ids) >= pipeline.model.config.context:
            raise InputError(f"log-probabilities of a prompt are limited to {pipeline.model.config.context - 1:,} tokens", 0)

    def sentences(self) -> list[Sentence]:
        """What is to be decoded; nothing when no token is asked for."""
        if not self.max_tokens:
            return []
        read: list[int] = [self.tokenizer.eos, *self.ids]
        source, first = read[:-1], read[-1]
        sampling = Sampling(self.temperature, self.top_k, self.top_p, self.seed) if self.temperature > 0 else None
        self.sentence = Sentence(source, first, self.max_tokens, sampling=sampling, alternatives=self.logprobs or 0)
        return [self.sentence]

    @property
    def tokens(self) -> list[int]:
        """Written so far."""
        return self.sentence.tokens if self.sentence else []

    def text(self) -> str:
        """Written so far, up to a stop text."""
        written: str = self.tokenizer.continuation(self.tokens)
        places = [written.find(stop) for stop in self.stop]
        found = [place for place in places if place >= 0]
        self.stopped = bool(found)
        return written[: min(found)] if found else written

    def advance(self) -> JsonObject | None:
        """After a step: look for a stop text; returns what is new, if it is wanted at once."""
        if not self.stop and not self.stream:
            return None
        text = self.text()
        if not self.stream or self.stopped or (self.sentence and self.sentence.finished):
            return None  # the rest comes with the answer
        # A character may need further bytes, and a stop text may have begun.
        held = len(text) - len(text.rstrip("\ufffd"))
        for stop in self.stop:
            held = max([held, *(size for size in range(1, len(stop)) if text.endswith(stop[:size]))])
        return self.piece(text[: len(text) - held])

    def piece(self, text: str, last: bool = False) -> JsonObject | None:
        """What of a text has not been sent."""
        lead = self.prompt if self.echo else ""
        whole = lead + text
        if len(whole) <= self.sent and not last:
            return None
        new, self.sent = whole[self.sent :], max(self.sent, len(whole))
        found: JsonObject = {"text": new, "logprobs": None, "finish_reason": None}
        if self.logprobs is not None:
            found["logprobs"] = self.log_probabilities(self.sent_tokens)
            self.sent_tokens = len(self.tokens)
        return found

    def answer(self) -> JsonObject:
        """The whole, or when pieces were sent the last of them."""
        text = self.text()
        ended = self.stopped or (self.sentence is not None and len(self.sentence.log_probabilities) > len(self.tokens))
        found = self.piece(text, last=True) or {}
        return {
            **found,
            "finish_reason": "stop" if ended else "length",
            "prompt_tokens": len(self.ids),
            "completion_tokens": len(self.tokens),
        }

    def log_probabilities(self, start: int = 0) -> JsonObject:
        """Of the tokens from `start` on, in OpenAI's shape; those of an echoed prompt come first."""
        names: list[str] = []
        values: list[float | None] = []
        ranked: list[dict[str, float] | None] = []
        lead = 0
        if self.echo and start == 0:
            names, values, ranked = self.of_prompt()
        elif self.echo:
            lead = len(self.prompt)
        if self.sentence:
            names += [self.tokenizer.continuation([token]) for token in self.tokens[start:]]
            values += self.sentence.log_probabilities[start : len(self.tokens)]
            for step in self.sentence.ranked[start : len(self.tokens)]:
                ranked.append({self.tokenizer.continuation([token]): value for token, value in step})
        offsets, at = [], lead + len(self.tokenizer.continuation(self.tokens[:start]))
        for name in names:
            offsets.append(at)
            at += len(name)
        kept = len(names)
        if self.stopped:  # tokens of the stop text are not shown either
            end = (len(self.prompt) if self.echo else 0) + len(self.text())
            kept = sum(offset < end for offset in offsets)
        tops = ranked[:kept] if self.logprobs else None
        return {"tokens": names[:kept], "token_logprobs": values[:kept], "top_logprobs": tops, "text_offset": offsets[:kept]}

    def of_prompt(self) -> tuple[list[str], list[float | None], list[dict[str, float] | None]]:
        """The tokens of the prompt, the log-probability of each but the first, and the most probable ones."""
        import torch

        model = self.pipeline.model
        read = torch.tensor([[self.tokenizer.eos, *self.ids]], device=self.pipeline.device)
        with self.pipeline.working():
            scores = model.project(model.states(read))[0, :-1].float().log_softmax(-1)  # (tokens, V)
        names = [self.tokenizer.continuation([token]) for token in self.ids]
        values: list[float | None] = [float(row[token]) for row, token in zip(scores, self.ids, strict=True)]
        best = scores.topk(min(max(1, self.logprobs or 1), scores.size(-1)))
        ranked: list[dict[str, float] | None] = [
            {self.tokenizer.continuation([token]): value for token, value in zip(tokens, found, strict=True)}
            for tokens, found in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        if self.ids:  # as OpenAI's: nothing precedes the first token
            values[0], ranked[0] = None, None
        return names, values, ranked
