"""Recipes: a whole job in one TOML file, its settings with their checks beside them, and the recipes that are shipped."""

from heedful.recipes.recipe import Recipe, load_recipe, model_settings, resolve, shipped_recipes

__all__ = ["Recipe", "load_recipe", "model_settings", "resolve", "shipped_recipes"]
