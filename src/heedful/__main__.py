"""`python -m heedful`, which is what torchrun starts."""

from heedful.cli import main

if __name__ == "__main__":
    main()
