"""A translator in the browser's engine against PyTorch: size of the file, identical outputs, BLEU in 16 and 8 bits, and time.

    python benchmarks/page_parity.py runs/en-de --data ../shared/data/multi30k/raw --output results.txt

The engine runs in Node; with --browser, Chromium opens the file from disk with the network off and translates a 12-word sentence.
The first 200 lines of the test set are compared greedily, token by token, with PyTorch: with the weights as they were trained,
and rounded as those in the file. BLEU is PyTorch's, with the model's own beam on all lines, for each rounding of the weights.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from heedful.data.lines import read_lines
from heedful.evaluation.bleu import translation_scores
from heedful.page.model_file import FEWEST_ROWS, pack_model, rounded_rows
from heedful.page.standalone import standalone_page
from heedful.pipelines import load_pipeline
from measuring import Transcript

COMPARED = 200
WORDS = "A man in a blue shirt is riding a bicycle down the"  # with the last word twelve
SENTENCE = f"{WORDS} street."
CALLS = Path(__file__).resolve().parents[1] / "tests" / "page" / "engine_calls.mjs"
TRANSLATE_ALL = """
  const found = [];
  for (const text of given[0]) {
    const { translations: [best] } = await model.translate(text, given[1]);
    found.push(best ? { text: best.text, ids: best.tokens.map(({ id }) => id) } : { text: "", ids: [] });
  }
  return found;
"""
IN_BROWSER = """async (text) => {
  const { app } = await globalThis.heedfulPage;
  const model = await app.host.open(app.host.models[0].name);
  const times = [];
  for (let run = 0; run < 6; run++) {
    const start = performance.now();
    await model.translate(text);
    times.push(performance.now() - start);
  }
  return times;
}"""


def rounded(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """A weight as the engine reads it from the file."""
    if bits == 8 and weight.dim() == 2 and len(weight) >= FEWEST_ROWS:
        scales, values = rounded_rows(weight.detach().numpy())
        return torch.from_numpy(scales[:, None] * values)
    return weight.half().float()


def in_node(packed: bytes, lines: list[str], options: dict[str, Any]) -> list[dict[str, Any]]:
    """The translations of the engine."""
    import heedful.page

    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "model.bin", Path(folder) / "answers.json"
        file.write_bytes(packed)
        engine = Path(heedful.page.__file__).parent / "engine"
        jobs = [{"file": str(file), "calls": [[TRANSLATE_ALL, lines, options]]}]
        asked = json.dumps({"engine": str(engine), "jobs": jobs, "out": str(out)})
        subprocess.run(["node", str(CALLS)], input=asked, text=True, check=True)
        answer = json.loads(out.read_text(encoding="utf-8"))[0][0]
        if "error" in answer:
            raise RuntimeError(answer["error"])
        found: list[dict[str, Any]] = answer["found"]
        return found


def in_browser(page: str, sentence: str) -> tuple[list[float], float]:
    """Milliseconds of each translation of the sentence, and of opening the model."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        window = browser.new_context(offline=True).new_page()
        window.goto(file.as_uri())
        window.wait_for_function("globalThis.heedfulPage")
        opened = window.evaluate("""async () => {
          const { app } = await globalThis.heedfulPage;
          const start = performance.now();
          await app.host.open(app.host.models[0].name);
          return performance.now() - start;
        }""")
        times = window.evaluate(IN_BROWSER, sentence)
        browser.close()
        return times, opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--sentence", default=SENTENCE, help="what Chromium translates")
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--only-browser", action="store_true")
    asked = parser.parse_args()
    say = Transcript(asked.output, measures=asked.browser or asked.only_browser).say
    pipeline: Any = load_pipeline(asked.model)
    files = {bits: pack_model(pipeline, "en-de", bits) for bits in (16, 8)}
    for bits, packed in files.items():
        say(f"{bits} bits: a file of {len(standalone_page([packed]).encode()) / 1e6:.2f} MB")
    if not asked.only_browser:
        source, reference = (
            list(read_lines(asked.data / f"test_2016_flickr.{language}.gz"))[: asked.lines] for language in ("en", "de")
        )
        written = {bits: in_node(packed, source[:COMPARED], {"beam": 1}) for bits, packed in files.items()}
        trained = {name: weight.clone() for name, weight in pipeline.model.named_parameters()}
        for kept in (None, 16, 8):
            with torch.no_grad():
                for name, weight in pipeline.model.named_parameters():
                    weight.copy_(trained[name] if kept is None else rounded(trained[name], kept))
            greedy = pipeline.search(source[:COMPARED], beam=1)
            what = "as trained" if kept is None else f"in {kept} bits"
            for of, found in written.items():
                if kept in (None, of):
                    same = sum(one["ids"] == other[0].tokens for one, other in zip(found, greedy, strict=True))
                    say(f"{of} bits: {same} of {COMPARED} greedy outputs equal those of PyTorch with weights {what}")
            score = translation_scores(pipeline.translate(source), reference)["bleu"]
            say(f"weights {what}: BLEU {score:.2f} on {len(source):,} lines with beam {pipeline.beam}")
    if asked.browser or asked.only_browser:
        for bits, packed in files.items():
            times, opened = in_browser(standalone_page([packed]), asked.sentence)
            first, *later = times
            say(
                f"{bits} bits in Chromium: model opened in {opened:.0f} ms; “{asked.sentence}” translated in {first:.0f} ms "
                f"the first time, then in {min(later):.0f} to {max(later):.0f} ms, with beam {pipeline.beam}"
            )


if __name__ == "__main__":
    main()
