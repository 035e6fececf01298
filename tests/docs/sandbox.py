"""A folder with the small files that the documents' commands name, and a way to run those commands in it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

from conftest import Run, sentences, squad, write_examples, write_pairs

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ELSEWHERE = (
    "make ",
    "pip ",
    "python3 -m venv",
    ". ",
    "torchrun ",
    "argos",
    "llama-",
)  # commands that are not heedful's, or need more machines
TRAINING = (
    "training.steps=4", "training.warmup=2", "training.batch_tokens=300", "training.batch_examples=0", "training.workers=1",
    "training.validate_every=2", "training.checkpoint_every=2", "training.log_every=2", "training.validate_pairs=20",
)  # fmt: skip
SHAPE = ("model.layers=1", "model.d_model=16", "tokenizer.size=300")
TRANSFORMER = ("model.d_ff=16", "model.heads=2")
LENGTH = ("data.max_length=64", "model.max_positions=64", "data.examples=40")
SMALL = {"dates": ("data.pairs=300",), "long-recall": LENGTH, "listops": LENGTH}  # corpora that are made on the spot
# What the examples of a job are called in the documents.
FILES = {
    "summarization": ("articles.jsonl", "test-articles.jsonl"),
    "language-model": ("book.txt", "other.txt", "test.txt", "report.txt"),
    "bert-pretraining": ("documents.txt", "test-documents.txt"),
    "classification": ("reviews.tsv", "test-reviews.tsv"),
    "tagging": ("train.conll", "val.conll", "test.conll"),
    "question-answering": ("squad.json", "dev.json"),
    "image-classification": ("photos", "test-photos"),
}


def write_files(folder: Path) -> None:
    """Every file that a command in the documents reads."""
    source, target = write_pairs(folder, 200)
    for name in ("train", "val", "test"):
        shutil.copy(source, folder / f"{name}.en")
        shutil.copy(target, folder / f"{name}.de")
    (folder / "more.en").write_text("2 2 2 2\n3 4 5\n")
    (folder / "more.de").write_text("two two two two\nfive four three\n")
    pairs = zip(source.read_text().splitlines(), target.read_text().splitlines(), strict=True)
    (folder / "pairs.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    for task, names in FILES.items():
        for seed, name in enumerate(names):
            write_examples(task, folder, 40, seed).rename(folder / name)
    (folder / "sentences.txt").write_text("".join(f"{line}\n" for line in sentences(5)))
    shutil.copy(next((folder / "photos").rglob("*.png")), folder / "photo.png")
    articles: Any = squad(2)["data"]
    paragraphs = articles[0]["paragraphs"]
    (folder / "passage.txt").write_text(paragraphs[1]["context"])
    rows = [{"question": one["qas"][0]["question"], "passage": one["context"]} for one in paragraphs]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_sentence_encoder(folder / "all-MiniLM-L6-v2")


def write_sentence_encoder(folder: Path) -> None:
    """A small sentence encoder as Hugging Face has them, in place of the one that a reader downloads."""
    from heedful.interop.huggingface import export_huggingface
    from heedful.models.bert import Bert, BertConfig
    from heedful.pipelines.embedder import Embedder
    from heedful.text import Tokenizer

    tokenizer = Tokenizer.train("wordpiece", sentences(100), 300, masked=True)
    model = Bert(BertConfig(tokenizer.size, layers=1, d_model=16, d_ff=16, heads=2, max_positions=128))
    own = folder.with_name("sentence-encoder")
    Embedder(model, tokenizer, 128).save(own, "# A sentence encoder\n")
    export_huggingface(own, folder)


def blocks_of(text: str) -> list[tuple[str, str]]:
    """The shell and Python blocks of a document, in order."""
    return [(found[1], found[2]) for found in BLOCK.finditer(text)]


def commands_of(block: str) -> list[str]:
    """The commands of a shell block, comments left out."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s{2,})#.*", "", line).strip() for line in lines) if line]


def run_command(command: str, run: Run) -> None:
    """Run one command of a document in the current folder; models are small and trained for a few steps."""
    if command.startswith(ELSEWHERE):
        return
    if "runs/dates" in command and not Path("runs/dates").exists():
        run_command("heedful train dates", run)  # as `make demo` does
    before, _, after = command.rpartition("cat ")[2].partition(" | ") if command.startswith("cat ") else ("", "", command)
    words = shlex.split(after)
    assert Path(words[0]).name == "heedful", f"the tests cannot run: {command}"
    output = Path(words[words.index(">") + 1]) if ">" in words else None
    words = words[1 : words.index(">")] if ">" in words else words[1:]
    if "--time" in words:  # it would plan steps, of which a few are enough here
        del words[words.index("--time") : words.index("--time") + 2]
    if words[0] == "train":
        words += (*TRAINING, *SMALL.get(words[1], ()))
        if not any(word.startswith("model.pretrained=") for word in words):
            words += SHAPE + (() if "model.kind=recurrent" in words else TRANSFORMER)
    out, _ = run(*words, stdin=Path(before).read_text() if before else "")
    if output:
        output.write_text(out)
        if words[0] == "translate" and "--n-best" not in words:
            inputs = Path(before or words[words.index("--input") + 1]).read_text()
            assert out.count("\n") == inputs.count("\n"), command
