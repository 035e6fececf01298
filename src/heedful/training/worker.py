"""The program of a worker process: `python -m heedful.training.worker RUN RANK WORLD PORT JOB SETTING…`."""

from __future__ import annotations

import sys
from pathlib import Path

from heedful.errors import HeedfulError
from heedful.runtime.processes import as_worker, leave
from heedful.training.run import work


def main() -> int:
    """Join the leading process, train, exit."""
    run, job, settings = Path(sys.argv[1]), sys.argv[5], sys.argv[6:]
    rank, world, port = map(int, sys.argv[2:5])
    try:
        with as_worker(rank, world, port) as processes:
            work(run, processes, job, settings)
    except HeedfulError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    leave(main())
