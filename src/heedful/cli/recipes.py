"""`heedful recipes`: what can be trained by name."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful recipes`

`heedful recipes translation > mine.toml`
"""


def recipes(name: Annotated[str | None, typer.Argument(help="A recipe to show in full.")] = None) -> None:
    """List the shipped recipes and the presets of models, or show one recipe with every value it settles."""
    from heedful.models.presets import PRESETS
    from heedful.recipes import load_recipe, shipped_recipes

    if name is not None:
        typer.echo(load_recipe(name).to_toml(), nl=False)
        return
    for known in shipped_recipes():
        typer.echo(f"{known:22} {load_recipe(known).about}")
    for kind in dict.fromkeys(preset.kind for preset in PRESETS.values()):
        typer.echo(f"\nmodel.preset of the kind {kind}")
        for known, preset in PRESETS.items():
            if preset.kind == kind:
                size = f", {preset.parameters} million parameters" if preset.parameters else ""
                typer.echo(f"{known:22} {preset.about}{size}")
