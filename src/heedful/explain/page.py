"""An explanation as one HTML file that needs no network, drawn by the same code as the explorer page."""

from __future__ import annotations

import html

from heedful.explain.attention_json import attention_json
from heedful.explain.explanation import Explanation
from heedful.explain.explanation_json import explanation_json
from heedful.explain.templates import environment
from heedful.page.inline import inlined_modules, inlined_styles

NOTEBOOK_HEIGHT = 720  # pixels


def explanation_page(explanation: Explanation) -> str:
    """The whole page."""
    template = environment().get_template("explanation.template.html")
    drawn = attention_json(explanation, longest=None)
    return template.render(
        explanation=explanation,
        data={**explanation_json(explanation, with_attention=False), **(drawn or {})},
        drawn=drawn is not None,
        zip=zip,
        styles=inlined_styles("style/colours.css", "style/attention.css", "style/drawings.css"),
        modules=inlined_modules("draw/attention.js", "draw/beam.js", "draw/norms.js", "i18n/i18n.js"),
    )


def in_notebook(page: str) -> str:
    """A page inside a notebook: a frame of its own, so that its styles and scripts stay apart."""
    source = html.escape(page, quote=True)
    style = f"width: 100%; height: {NOTEBOOK_HEIGHT}px; border: 0"
    return f'<iframe srcdoc="{source}" style="{style}" title="heedful explanation"></iframe>'
