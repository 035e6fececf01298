"""Models in one HTML file, which needs no server and no network: the page, its modules, and the weights as base64."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence

from heedful.errors import HeedfulError
from heedful.page.inline import inlined_modules, inlined_styles, page_file
from heedful.page.model_file import compressed, header_of

STYLE_SHEETS = re.compile(r'(?:<link rel="stylesheet" href="/page/[^"]+">\s*)+')
STYLE_SHEET = re.compile(r'href="/page/([^"]+)"')
START = '<script type="module" src="/page/main.js"></script>'
LAZY = ("views/explorer.js", "engine/index.js")  # modules that the page imports on demand
CARD = (
    "name",
    "job",
    "kind",
    "verbs",
    "about",
    "parameters",
    "bits",
    "labels",
    "samples",
)  # the part that is known without the weights
LARGEST = 380_000_000  # bytes of all models; browsers cannot hold a longer string


def standalone_page(models: Sequence[bytes]) -> str:
    """The file with these models inside, as `pack_model` made them."""
    packed = [compressed(model) for model in models]
    size = sum(map(len, packed))
    if size > LARGEST:
        raise HeedfulError(
            f"the models take {size / 1e6:,.0f} MB, and browsers open no file of more than about {LARGEST / 1e6:,.0f}; "
            "use --int8, fewer or smaller models, or `heedful serve`"
        )
    cards = [
        {**card_of(model), "bytes": len(data), "element": f"model-{number}"}
        for number, (model, data) in enumerate(zip(models, packed, strict=True))
    ]
    page = page_file("index.html")
    sheets = STYLE_SHEETS.search(page)
    if sheets is None or START not in page:
        raise HeedfulError("index.html of the page has no style sheets or no start; the installation is damaged")
    style = f"<style>{inlined_styles(*STYLE_SHEET.findall(sheets[0]))}</style>\n"
    weights = "\n".join(
        f'<script type="application/octet-stream" id="model-{number}">{base64.b64encode(data).decode()}</script>'
        for number, data in enumerate(packed)
    )
    manifest = json.dumps({"models": cards}, ensure_ascii=False).replace("<", "\\u003c")
    script = f"""<script type="application/json" id="heedful-models">{manifest}</script>
{weights}
{inlined_modules("main.js", *LAZY)}
<script type="module">import "heedful/main.js";</script>"""
    return page.replace(sheets[0], style).replace(START, script)


def card_of(model: bytes) -> dict[str, object]:
    """What the page knows of a model before its weights are read."""
    header = header_of(model)
    return {key: header[key] for key in CARD}
