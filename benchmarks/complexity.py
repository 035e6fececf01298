"""The paper's Table 1 as measured here: `heedful complexity` for all layers, with the state of the machine.

    python benchmarks/complexity.py --output complexity.txt --png complexity.png

Time and memory are those of a forward and a backward pass of one layer; exponents are fitted by least squares over all lengths,
or all widths. Steps and paths depend on no machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from heedful.complexity.layers import LAYERS, LayerShape, small_attention
from heedful.complexity.picture import drawn
from heedful.complexity.survey import LayerReport, SurveySettings, survey
from heedful.complexity.table import as_json, skipped_lines, tables
from heedful.nn.attention.kinds import AttentionSettings
from measuring import Transcript


def main() -> None:
    """Measure, print the tables, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), metavar="NAME", help="only these layers")
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--width", type=int, default=64, help="of the measurements over lengths")
    parser.add_argument("--widths", nargs="+", type=int, default=[128, 256, 512, 1024])
    parser.add_argument("--length", type=int, default=1024, help="of the measurements over widths")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--path-lengths", nargs="+", type=int, default=[16, 32, 64, 128, 256])
    parser.add_argument("--path-window", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--seconds", type=float, default=60.0, help="leave out what would take longer")
    parser.add_argument("--png", type=Path, help="write the curves to this file")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    a = parser.parse_args()
    shape = LayerShape(a.width, a.heads, attention=AttentionSettings(window=a.window))
    traced = LayerShape(2 * a.heads, a.heads, attention=small_attention(a.path_window))
    plan = SurveySettings(a.layers, a.lengths, a.widths, shape, a.length, a.path_lengths, traced, a.rounds, a.seconds)
    transcript = Transcript(a.output)
    found: list[LayerReport] = []
    survey(plan, lambda: None, found)
    for title, (head, rows) in tables(plan, found).items():
        transcript.say(f"\n{title}")
        transcript.table(head, rows)
    for line in skipped_lines(found):
        transcript.say(line)
    if a.png:
        a.png.write_bytes(drawn(plan, found, "png"))
    transcript.say(json.dumps({"benchmark": "complexity", **transcript.circumstances, **as_json(plan, found)}))


if __name__ == "__main__":
    main()
