"""A tokenizer for the browser's engine; an error names any part that the engine does not have."""

from __future__ import annotations

import json
import re

from heedful.errors import HeedfulError
from heedful.settings import JsonObject
from heedful.text import Tokenizer

MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")
UNICODE = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer")
NORMALIZERS = (*UNICODE, "Precompiled", "Replace", "Prepend", "Strip")
SPLITS = ("Split", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits")
PRE_TOKENIZERS = ("ByteLevel", "BertPreTokenizer", "Metaspace", *SPLITS)
DECODERS = ("ByteLevel", "WordPiece", "Fuse", "Metaspace", "Replace", "ByteFallback", "Strip")
# What JavaScript reads in another way, or not at all: flags, atomic groups, anchors, POSIX classes, possessive quantifiers.
FOREIGN = re.compile(r"\(\?[imsx>#P-]|\\[ZhHRXKG]|\[:|&&|(?<!\\)[*+?]\+|\{\d+,?\d*\}\+")


def browser_tokenizer(tokenizer: Tokenizer, origin: str) -> JsonObject:
    """`json`, the content of tokenizer.json, and the ids of the special tokens. `origin` says whose it is, for the error."""
    content: JsonObject = json.loads(tokenizer.backend.to_str())
    unknown = list(unknown_parts(content))
    if unknown:
        raise HeedfulError(f"{origin} cannot be run by the page, whose engine has no {', '.join(unknown)}")
    kept = {key: content[key] for key in ("added_tokens", "normalizer", "pre_tokenizer", "decoder", "model")}
    if isinstance(merges := kept["model"].get("merges"), list):  # as text they take less space; no token contains a space
        joined = [one if isinstance(one, str) else " ".join(one) for one in merges]
        if all(one.count(" ") == 1 for one in joined):
            kept["model"] = {**kept["model"], "merges": joined}
    special = {role: getattr(tokenizer, role) for role in ("pad", "unk", "bos", "eos", "mask")}
    return {"json": kept, "special": special, "spaced": tokenizer.spaced, "size": tokenizer.size}


def unknown_parts(content: JsonObject) -> list[str]:
    """The parts of a tokenizer.json that the engine does not have."""
    found = []
    model = content["model"]
    kind = model.get("type", "")
    if kind not in MODELS:
        found.append(f"tokenizer model {kind}")
    if kind == "BPE" and model.get("dropout"):
        found.append("dropout of BPE")
    for key, known in (("normalizer", NORMALIZERS), ("pre_tokenizer", PRE_TOKENIZERS), ("decoder", DECODERS)):
        for part in flat(content[key]):
            if part["type"] not in known:
                found.append(f"{key.replace('_', '-')} {part['type']}")
            pattern = part.get("pattern", {}).get("Regex", "") if isinstance(part.get("pattern"), dict) else ""
            if FOREIGN.search(pattern):
                found.append(f"way to run the regular expression {pattern[:60]}")
    return found


def flat(part: JsonObject | None) -> list[JsonObject]:
    """A part and those it is a sequence of."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    inner = next(value for value in part.values() if isinstance(value, list))
    return [one for each in inner for one in flat(each)]
