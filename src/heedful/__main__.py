"""`python -m heedful`, which is what torchrun starts."""

from heedful.cli.main import main

if __name__ == "__main__":
    main()
