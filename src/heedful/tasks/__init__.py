"""Jobs: what a trainer needs to know of one, and nothing a model needs to know."""
