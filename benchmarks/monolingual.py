"""What plain text adds to a few pairs: back-translation (greedy, drawn, by beam, tagged or not) and denoising, at equal steps.

    OMP_NUM_THREADS=1 python benchmarks/monolingual.py /path/to/multi30k/tok work --save benchmarks/results/monolingual.txt

The pairs are a random subset of Multi30k's English and German; the plain text is the German side of other pairs. Every way
has the same number of steps in all: those of a reverse model, and those that its translations take as processor time, are
subtracted. Pairs are repeated so that they are half of what is trained on. Chosen on validation text, test 2016 beside it.
Finished ways are not trained again, so an interrupted command continues.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from measuring import Transcript

Pairs = list[tuple[str, str]]
SETTINGS = ["tokenizer.size=4000", "training.workers=1", "training.warmup=150", "training.r_drop=0", "training.device=cpu"]
TAGS = {"back": "<back>", "denoise": "<denoise>"}
DECODING = {
    "greedy": ["--beam", "1"],
    "drawn": ["--sample", "--seed", "1"],
    "drawn of 10": ["--sample", "--seed", "1", "--top-k", "10"],
    "beam": ["--beam", "4"],
}


def lines(path: Path) -> list[str]:
    """The lines of a file, or of it with .gz after its name."""
    zipped = path.with_name(f"{path.name}.gz")
    content = gzip.decompress(zipped.read_bytes()) if zipped.exists() else path.read_bytes()
    return content.decode().split("\n")[:-1]


def write(path: Path, texts: Iterable[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def noised(text: str, rng: random.Random) -> str:
    """Words left out (10 %) or hidden (10 %), and the rest shuffled by up to three places."""
    words = [word for word in text.split() if rng.random() > 0.1]
    words = ["_" if rng.random() < 0.1 else word for word in words]
    order = sorted(range(len(words)), key=lambda place: place + rng.uniform(0, 4))
    return " ".join(words[place] for place in order) or "_"


class Bench:
    """A folder with the corpus and one run for each way."""

    def __init__(self, data: Path, folder: Path, pairs: int, plain: int, settings: list[str]) -> None:
        self.folder, self.settings = folder, settings
        folder.mkdir(parents=True, exist_ok=True)
        every = list(zip(lines(data / "train.en"), lines(data / "train.de"), strict=True))
        random.Random(1).shuffle(every)
        self.pairs, self.plain = every[:pairs], [target for _, target in every[pairs : pairs + plain]]
        self.plain_source = [source for source, _ in every[pairs : pairs + plain]]
        held = {(name, side): lines(data / f"{name}.{side}") for name in ("val", "test_2016_flickr") for side in ("en", "de")}
        for (name, side), texts in held.items():
            write(folder / f"{name}.{side}", texts)
        english, german = held["val", "en"], held["val", "de"]  # half of each direction
        write(folder / "val.both", [f"2de {text}" for text in english[:500]] + [f"2en {text}" for text in german[500:]])
        write(folder / "val.tagged", german[:500] + english[500:])

    def command(self, *arguments: str | Path) -> float:
        """Run `heedful`; returns the processor seconds it took."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "heedful", *map(str, arguments)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def once(self, name: str, make: Callable[[], float]) -> float:
        """The processor seconds of something that is made once."""
        path = self.folder / f"{name}.seconds"
        if not path.exists():
            path.write_text(str(make()))
        return float(path.read_text())

    def both(self, name: str, runs: dict[str, Path]) -> None:
        """BLEU of both directions, by `heedful evaluate`, in the shape of a run's results."""
        path = self.folder / name / "results.json"
        if path.exists():
            return
        found: dict[str, list[float]] = {"validation": [], "test": []}
        for direction, run in runs.items():
            ends = direction.split("-")
            for split, file in (("validation", "val"), ("test", "test_2016_flickr")):
                source, target = (self.folder / f"{file}.{side}" for side in ends)
                if len(set(runs.values())) == 1:
                    texts = source.read_text(encoding="utf-8").split("\n")[:-1]
                    source = write(self.folder / f"{source.name}.tagged", [f"2{ends[1]} {text}" for text in texts])
                command = [
                    sys.executable,
                    "-m",
                    "heedful",
                    "evaluate",
                    str(run),
                    "--source",
                    str(source),
                    "--reference",
                    str(target),
                ]
                said = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
                found[split].append(json.loads(said)["bleu"])
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"best": {split: {"bleu": sum(each) / 2, "each": each} for split, each in found.items()}}))

    def train(self, name: str, pairs: Pairs, steps: int, sides: tuple[str, str] = ("en", "de")) -> float:
        """A run on these pairs."""
        source, target = (
            write(self.folder / f"{name}.{side}", texts) for side, texts in zip(sides, zip(*pairs, strict=True), strict=True)
        )
        held_out = [
            f"data.{split}_{side}={self.folder / f'{file}.{language}'}"
            for split, file in (("valid", "val"), ("test", "test_2016_flickr"))
            for side, language in zip(("source", "target"), sides, strict=True)
            if (self.folder / f"{file}.{language}").exists()
        ]
        every = [f"training.{key}={max(1, steps // 4)}" for key in ("validate_every", "checkpoint_every")]
        settings = [
            f"data.source={source}",
            f"data.target={target}",
            f"training.steps={steps}",
            *held_out,
            *every,
            *SETTINGS,
            *self.settings,
        ]
        return self.once(name, lambda: self.command("train", "multi30k", *settings, "--run", self.folder / name))

    def with_pairs(self, made: Pairs) -> Pairs:
        """Synthetic pairs, and the real ones as often as makes half of all."""
        return made + self.pairs * max(1, round(len(made) / len(self.pairs)))

    def translations(self, how: str, helper: str = "reverse") -> tuple[Pairs, float]:
        """The plain text with its translations, and the processor seconds they took."""
        plain = self.plain if helper == "reverse" else self.plain_source
        output = self.folder / f"plain.{helper}.{how.replace(' ', '-')}"
        given = write(self.folder / f"plain.{helper}", plain)

        def make() -> float:
            with output.open("w", encoding="utf-8") as file:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                command = [sys.executable, "-m", "heedful", "translate", str(self.folder / helper), "--input", str(given)]
                subprocess.run([*command, *DECODING[how]], check=True, stdout=file)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime

        seconds = self.once(output.name, make)
        made = zip(output.read_text(encoding="utf-8").split("\n")[:-1], plain, strict=True)
        return [(source, target) for source, target in made if source.strip()], seconds

    def scores(self, name: str) -> tuple[float, float]:
        """BLEU of validation and test."""
        found = json.loads((self.folder / name / "results.json").read_text())["best"]
        return found["validation"]["bleu"], found["test"]["bleu"]


def main() -> None:
    """Train every way and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--plain", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--reverse-steps", type=int, default=400)
    parser.add_argument("--ways", nargs="+", default=["pairs", "greedy", "greedy tagged", "drawn tagged", "beam", "denoise"])
    parser.add_argument("--settings", nargs="*", default=[], help="of every run, such as model.layers=2")
    parser.add_argument("--save", type=Path)
    a = parser.parse_args()
    bench = Bench(a.data, a.folder, a.pairs, a.plain, a.settings)
    rows = []
    for way in a.ways:
        name, steps, seconds = way.replace(" ", "-"), a.steps, 0.0
        how = way.removesuffix(" tagged")
        if way == "pairs":
            bench.train(name, bench.pairs, steps)
        elif way == "one model":
            tagged = [(f"2de {source}", target) for source, target in bench.pairs]
            tagged += [(f"2en {target}", source) for source, target in bench.pairs]
            bench.train("one", tagged, steps, ("both", "tagged"))
            bench.both(name, dict.fromkeys(("en-de", "de-en"), bench.folder / "one"))
        elif way == "two models":
            bench.train("two-de", bench.pairs, steps // 2)
            bench.train("two-en", [(target, source) for source, target in bench.pairs], steps // 2, ("de", "en"))
            bench.both(name, {"en-de": bench.folder / "two-de", "de-en": bench.folder / "two-en"})
        elif way == "denoise":
            rng = random.Random(1)
            bench.train(name, bench.with_pairs([(f"{TAGS[way]} {noised(text, rng)}", text) for text in bench.plain]), steps)
        elif way == "self-training":
            took = bench.train("forward", bench.pairs, a.reverse_steps)
            made, seconds = bench.translations("greedy", "forward")
            steps = a.steps - a.reverse_steps - round(seconds / (took / a.reverse_steps))
            bench.train(name, bench.with_pairs([(source, target) for target, source in made]), steps)
        else:
            took = bench.train("reverse", [(target, source) for source, target in bench.pairs], a.reverse_steps, ("de", "en"))
            made, seconds = bench.translations(how)
            steps = a.steps - a.reverse_steps - round(seconds / (took / a.reverse_steps))
            prefix = f"{TAGS['back']} " if way.endswith("tagged") else ""
            bench.train(name, bench.with_pairs([(prefix + source, target) for source, target in made]), steps)
        valid, test = bench.scores(name)
        rows.append([way, f"{steps:,}", f"{seconds:.0f}", f"{valid:.1f}", f"{test:.1f}"])
        print(rows[-1], flush=True)
    transcript = Transcript(a.save, measures=False)
    transcript.say(f"$ python benchmarks/monolingual.py {' '.join(sys.argv[1:])}")
    steps = f"{a.steps:,} steps in all, a reverse model's {a.reverse_steps:,} included"
    transcript.say(f"{a.pairs:,} pairs, {a.plain:,} lines of plain German; {steps}")
    transcript.table(["way", "steps", "s to translate", "BLEU validation", "BLEU test 2016"], rows)


if __name__ == "__main__":
    main()
