"""Import and export of the tokenizers of Hugging Face directories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from heedful.errors import HeedfulError
from heedful.interop.foreign_config import ForeignConfig
from heedful.runtime.files import read_json, write_text
from heedful.settings import Json
from heedful.text import Tokenizer
from heedful.text.sentencepiece import read_sentencepiece, unigram_backend
from heedful.text.tokenizer import ALIASES

END = "<|endoftext|>"
# Default token of each role where a directory does not specify it: our role → (their role, token).
USUAL = {
    "bert": {"pad": ("pad", "[PAD]"), "unk": ("unk", "[UNK]"), "bos": ("cls", "[CLS]"), "eos": ("sep", "[SEP]")},
    "big_bird": {"pad": ("pad", "<pad>"), "unk": ("unk", "<unk>"), "bos": ("cls", "[CLS]"), "eos": ("sep", "[SEP]")},
    "longformer": {"pad": ("pad", "<pad>"), "unk": ("unk", "<unk>"), "bos": ("cls", "<s>"), "eos": ("sep", "</s>")},
    "gpt2": {"pad": ("pad", END), "unk": ("unk", END), "bos": ("bos", END), "eos": ("eos", END)},
    "marian": {"pad": ("pad", "<pad>"), "unk": ("unk", "<unk>"), "bos": ("bos", "<pad>"), "eos": ("eos", "</s>")},
}
TARGET = "target_tokenizer"  # sub-folder of the target tokenizer in a directory that we exported


def read_foreign_tokenizers(
    folder: Path, model_type: str, foreign: ForeignConfig, sizes: list[int]
) -> tuple[dict[str, Tokenizer], str]:
    """The tokenizers of a directory by our names, and a sentence on how they differ from theirs, or ""."""
    note = ""
    if (folder / "tokenizer.json").is_file():
        backends = {"tokenizer": read_backend(folder / "tokenizer.json")}
        if (folder / TARGET / "tokenizer.json").is_file():
            backends["target_tokenizer"] = read_backend(folder / TARGET / "tokenizer.json")
    elif model_type == "marian":
        backends, note = read_marian(folder)
    else:
        if model_type == "big_bird":
            raise HeedfulError(f"{folder} has no tokenizer.json; AutoTokenizer.from_pretrained(…).save_pretrained(…) writes one")
        backends = {"tokenizer": read_bert(folder) if model_type == "bert" else read_byte_level(folder, model_type)}
    given = read_object(folder / "tokenizer_config.json", optional=True)
    for backend in backends.values():
        use_bert_options(backend, given)
    names = special_names(folder, model_type)
    if model_type == "marian":
        names |= names_of_ids(foreign, backends.get("target_tokenizer", backends["tokenizer"]))
    found = {}
    for (name, backend), size in zip(backends.items(), sizes, strict=False):
        found[name] = with_roles(backend, names, f"the {name} of {folder}")
        if found[name].size > size:
            raise HeedfulError(f"the {name} of {folder} has {found[name].size:,} tokens, but the model's vocabulary has {size:,}")
    return found, note


def read_object(path: Path, optional: bool = False) -> dict[str, Json]:
    """Read a JSON object; an `optional` file that does not exist is empty."""
    if optional and not path.exists():
        return {}
    found = read_json(path)
    if not isinstance(found, dict):
        raise HeedfulError(f"{path} is not a JSON object")
    return found


def read_ids(path: Path) -> dict[str, int]:
    """Read a vocab.json: token → id."""
    content = read_object(path)
    ids = {token: number for token, number in content.items() if type(number) is int}
    if len(ids) != len(content):
        raise HeedfulError(f"{path} does not number its {len(content):,} tokens 0, 1, 2, …")
    return ids


def read_backend(path: Path) -> Backend:
    """Read a tokenizer.json."""
    try:
        return Backend.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exception
        raise HeedfulError(f"{path} is not a tokenizer.json: {error}") from error


def refuse_added_tokens(folder: Path) -> None:
    """Raise an error for old directories with tokens in a separate added_tokens.json, which we do not read."""
    if read_object(folder / "added_tokens.json", optional=True):
        raise HeedfulError(
            f"{folder} has added_tokens.json but no tokenizer.json; AutoTokenizer.from_pretrained('{folder}').save_pretrained(…) "
            "of transformers writes one"
        )


def read_bert(folder: Path) -> Backend:
    """Read a vocab.txt."""
    if not (folder / "vocab.txt").is_file():
        raise HeedfulError(f"{folder} has neither a tokenizer.json nor a vocab.txt")
    refuse_added_tokens(folder)
    names = special_names(folder, "bert")
    backend = Tokenizer.load(folder / "vocab.txt", names).backend
    known = backend.get_vocab(with_added_tokens=False)  # without the tokens that `load` adds if they are missing
    for role, name in names.items():
        if name not in known:
            raise HeedfulError(f"{folder / 'vocab.txt'} has no token {name}, which should be its {role} token")
    return backend


def use_bert_options(backend: Backend, given: Mapping[str, Json]) -> None:
    """Apply the normaliser options of tokenizer_config.json, which override tokenizer.json as in transformers."""
    if isinstance(backend.normalizer, normalizers.BertNormalizer):
        options = {
            "lowercase": "do_lower_case",
            "strip_accents": "strip_accents",
            "handle_chinese_chars": "tokenize_chinese_chars",
        }
        for ours, theirs in options.items():
            if isinstance(given.get(theirs), bool):
                setattr(backend.normalizer, ours, given[theirs])


def read_byte_level(folder: Path, model_type: str) -> Backend:
    """Read a byte-level BPE from vocab.json and merges.txt."""
    if not (folder / "vocab.json").is_file() or not (folder / "merges.txt").is_file():
        raise HeedfulError(f"{folder} has neither a tokenizer.json nor a vocab.json with a merges.txt")
    refuse_added_tokens(folder)
    given = read_object(folder / "tokenizer_config.json", optional=True)
    try:
        lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
        merges = [
            (left, right) for left, right in (line.split(" ") for line in lines if line and not line.startswith("#version"))
        ]
        backend = Backend(models.BPE(read_ids(folder / "vocab.json"), merges))
    except HeedfulError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise HeedfulError(f"vocab.json and merges.txt in {folder} are not a valid vocabulary: {error}") from error
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=given.get("add_prefix_space") is True)
    backend.decoder = decoders.ByteLevel()
    specials = {name for name in special_names(folder, model_type).values() if backend.token_to_id(name) is not None}
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in sorted(specials)])
    return backend


def read_marian(folder: Path) -> tuple[dict[str, Backend], str]:
    """Read two SentencePiece models and the ids of their pieces; also a sentence on pieces without an id, or ""."""
    needed = ("source.spm", "target.spm", "vocab.json")
    absent = [name for name in needed if not (folder / name).is_file()]
    if absent:
        raise HeedfulError(f"{folder} has neither a tokenizer.json nor {', '.join(absent)}")
    refuse_added_tokens(folder)
    separate = folder / "target_vocab.json"
    names = special_names(folder, "marian")
    backends, notes = {}, []
    for ours, side in (("tokenizer", "source"), ("target_tokenizer", "target")):
        path = separate if side == "target" and separate.is_file() else folder / "vocab.json"
        numbers = read_ids(path)
        if {*numbers.values()} != {*range(len(numbers))}:
            raise HeedfulError(f"{path} does not number its {len(numbers):,} tokens 0, 1, 2, …")
        specials = sorted({name for name in names.values() if name in numbers})
        if names["unk"] not in numbers:
            raise HeedfulError(f"{path} has no {names['unk']}")
        pieces = read_sentencepiece(folder / f"{side}.spm")
        lost = sum(piece not in numbers for piece in pieces.scores)
        if lost:
            notes.append(
                f"{lost:,} pieces of {side}.spm have no id in {path.name}: they are split into smaller pieces, whereas "
                "transformers treats them as unknown"
            )
        backends[ours] = unigram_backend(pieces, numbers, names["unk"], specials)
    if backends["tokenizer"].to_str() == backends["target_tokenizer"].to_str():
        del backends["target_tokenizer"]
    return backends, "; ".join(notes)


def special_names(folder: Path, model_type: str) -> dict[str, str]:
    """Role → token, as the directory specifies it."""
    given = {
        **read_object(folder / "special_tokens_map.json", optional=True),
        **read_object(folder / "tokenizer_config.json", optional=True),
    }
    names = {}
    for role, (theirs, usual) in USUAL[model_type].items():
        value = given.get(f"{theirs}_token")
        value = value.get("content") if isinstance(value, dict) else value
        names[role] = value if isinstance(value, str) else usual
    return names


def names_of_ids(foreign: ForeignConfig, backend: Backend) -> dict[str, str]:
    """The begin, end and padding tokens whose ids a Marian model's config.json gives."""
    names = {}
    for role, key in (("bos", "decoder_start_token_id"), ("eos", "eos_token_id"), ("pad", "pad_token_id")):
        number = foreign.integer(key, least=0)
        name = backend.id_to_token(number)
        if name is None:
            raise HeedfulError(f"{foreign.origin} has {key} = {number}, but no token has this id")
        names[role] = name
    return names


def with_roles(backend: Backend, names: Mapping[str, str], origin: str) -> Tokenizer:
    """Our tokenizer, with the roles set that it would not detect on its own."""
    roles = {}
    for role, name in names.items():
        if backend.token_to_id(name) is None:
            raise HeedfulError(f"{origin} has no token {name}, which should be its {role} token")
        usual = next((known for known in ALIASES[role] if backend.token_to_id(known) is not None), None)
        if name != usual:
            roles[role] = name
    return Tokenizer(backend, roles)


def shifted(tokenizer: Tokenizer, by: int) -> Tokenizer:
    """The same tokenizer with every id larger by some number."""
    if not by:
        return tokenizer
    content = json.loads(tokenizer.backend.to_str())
    model, added = content["model"], content["added_tokens"]
    for token in added:
        token["id"] += by
    if isinstance(model["vocab"], dict):
        model["vocab"] = {name: number + by for name, number in model["vocab"].items()}
        model["vocab"] |= {token["content"]: token["id"] for token in added}
    else:  # a unigram model numbers its pieces by their places
        least = min(score for _, score in model["vocab"])
        model["vocab"] = [*([f" <{number}>", least] for number in range(by)), *model["vocab"]]
        model["unk_id"] += by
    roles = {role: str(tokenizer.backend.id_to_token(getattr(tokenizer, role))) for role in ("pad", "unk", "bos", "eos")}
    return Tokenizer(Backend.from_str(json.dumps(content)), roles)


def write_tokenizer(folder: Path, tokenizer: Tokenizer, kind: str, max_length: int) -> None:
    """Write tokenizer.json and tokenizer_config.json for transformers, including the special tokens around a text."""
    backend = Backend.from_str(tokenizer.backend.to_str())
    name = {role: str(backend.id_to_token(getattr(tokenizer, role))) for role in ("pad", "unk", "bos", "eos")}
    begin, end = (name["bos"], tokenizer.bos), (name["eos"], tokenizer.eos)
    config: dict[str, Json] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
    }
    config |= {f"{role}_token": token for role, token in name.items()}
    if kind == "bert":
        single, pair = f"{begin[0]} $A {end[0]}", f"{begin[0]} $A {end[0]} $B:1 {end[0]}:1"
        backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[begin, end])
        inputs = ["input_ids", "token_type_ids", "attention_mask"]
        config |= {"cls_token": begin[0], "sep_token": end[0], "model_input_names": inputs}
        if tokenizer.mask is not None:
            config["mask_token"] = str(backend.id_to_token(tokenizer.mask))
    elif kind == "seq2seq":
        backend.post_processor = processors.TemplateProcessing(single=f"$A {end[0]}", special_tokens=[end])
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "tokenizer.json", backend.to_str())
    write_text(folder / "tokenizer_config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
