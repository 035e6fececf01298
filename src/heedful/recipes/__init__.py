"""Recipes: a whole job in one TOML file, the settings with their checks, and the shipped recipes."""

from heedful.recipes.recipe import Recipe, load_recipe, model_settings, resolve, shipped_recipes

__all__ = ["Recipe", "load_recipe", "model_settings", "resolve", "shipped_recipes"]
