"""The explorer page: models that run in a browser, served or packed into one HTML file."""
