"""`heedful recipes`: the shipped recipes and the presets of models."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful recipes`

`heedful recipes translation > mine.toml`
"""


def recipes(name: Annotated[str | None, typer.Argument(help="A recipe to show in full.")] = None) -> None:
    """List the shipped recipes and the presets of models, or show one recipe with all of its values."""
    from heedful.interop.huggingface import obstacles
    from heedful.models.presets import PRESETS
    from heedful.recipes import load_recipe, shipped_recipes
    from heedful.recipes.recipe import smallest_config

    if name is not None:
        typer.echo(load_recipe(name).to_toml(), nl=False)
        return
    found = {known: load_recipe(known) for known in shipped_recipes()}
    show_list("recipes", {known: recipe.about for known, recipe in found.items()})
    reasons = {known: obstacles(smallest_config(recipe), recipe.task) for known, recipe in found.items()}
    instead = {known: " ".join(one.train_with for one in why) for known, why in reasons.items() if why}
    show_list("to export the model for transformers, train these recipes with", instead)
    for kind in dict.fromkeys(preset.kind for preset in PRESETS.values()):
        sizes = {known: preset for known, preset in PRESETS.items() if preset.kind == kind}
        millions = {k: f", {p.parameters} million parameters" if p.parameters else "" for k, p in sizes.items()}
        show_list(f"model.preset of the kind {kind}", {known: f"{p.about}{millions[known]}" for known, p in sizes.items()})


def show_list(title: str, rows: dict[str, str]) -> None:
    """Names and what they mean, in two columns; in a terminal the second one is wrapped between words."""
    width = max(len(name) for name in rows)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    typer.echo(title)
    for name, about in rows.items():
        room = columns - width - 4
        lines = textwrap.wrap(about, room, break_long_words=False, break_on_hyphens=False) if room > 20 else [about]
        typer.echo(f"  {name:{width}}  " + f"\n{' ' * (width + 4)}".join(lines))
    typer.echo()
