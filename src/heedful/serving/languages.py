"""The languages of the translation models behind one address: pairs, ways through a common language, and detection."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from heedful.data.languages import language_name
from heedful.serving.pool import Model, Pool
from heedful.settings import JsonObject

UNKNOWN = "und"  # ISO 639-2: undetermined


class Languages:
    """Which language can be translated into which, by which models."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.identifier: Any = None

    @property
    def pairs(self) -> dict[tuple[str, str], Model]:
        """(from, into) → the model; the first one named when several have the same languages."""
        found: dict[tuple[str, str], Model] = {}
        for model in self.pool.models.values():
            if "translate" in model.facts["verbs"]:
                pair = model.facts["source_language"] or UNKNOWN, model.facts["target_language"] or UNKNOWN
                found.setdefault(pair, model)
        return found

    @property
    def codes(self) -> list[str]:
        """Every language there is."""
        return list(dict.fromkeys(code for pair in self.pairs for code in pair))

    def way(self, source: str, target: str) -> list[Model] | None:
        """The fewest models that lead from one language to another; none when they are the same, None when there is no way."""
        if source == target and (source, target) not in self.pairs:
            return []
        ways: deque[tuple[str, list[Model]]] = deque([(source, [])])
        seen: set[str] = set()
        while ways:
            here, models = ways.popleft()
            for (start, end), model in self.pairs.items():
                if start == here and end not in seen:
                    if end == target:
                        return [*models, model]
                    seen.add(end)
                    ways.append((end, [*models, model]))
        return None

    def targets(self, source: str) -> list[str]:
        """The languages that a language can be translated into: as LibreTranslate lists them, itself among them."""
        return sorted(code for code in self.codes if self.way(source, code) is not None)

    def listed(self) -> list[JsonObject]:
        """In LibreTranslate's shape."""
        return [{"code": code, "name": self.name(code), "targets": self.targets(code)} for code in self.codes]

    def name(self, code: str) -> str:
        """The name that people read."""
        return "Unknown" if code == UNKNOWN else language_name(code)

    def find(self, code: str) -> str | None:
        """The served code that a caller means: itself, or a variant of the same language (`pt-BR` for `pt`)."""
        known = {known.lower(): known for known in self.codes}
        wanted = code.lower().replace("_", "-")
        if wanted in known:
            return known[wanted]
        short = wanted.partition("-")[0]
        return next((found for name, found in known.items() if name.partition("-")[0] == short), None)

    async def prepare(self) -> None:
        """Load what detects languages; it takes half a second, in which others are answered."""
        if not self.identifier:
            self.identifier = await asyncio.to_thread(identifier)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """The languages that a text may be in with their probabilities, likeliest first: those served, if they are known."""
        sources = [source for source, _ in self.pairs if source != UNKNOWN]
        self.identifier = self.identifier or identifier()
        labels = set(self.identifier.labels)
        wanted = {source.partition("-")[0] for source in sources} & labels
        self.identifier.set_languages(None)
        everything = [(code, float(p)) for code, p in self.identifier.rank(text[:5000])]
        if not wanted:
            return everything
        # Among all languages first, so that a text in none of those served is recognised by its low probability.
        return [(self.find(code) or code, p) for code, p in everything if code in wanted]


def identifier() -> Any:
    """What tells the language of a text."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
