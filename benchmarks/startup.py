"""How long does one wait for `noniid --help`?

Each command runs in a process of its own, in turns.

How to read it: seconds from start to exit, the best repetition and the middle one. Python alone is the floor;
`import torch` is what a command costs that cannot do without it.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import harness

NONIID = Path(sys.executable).with_name("noniid")
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import noniid'": [sys.executable, "-c", "import noniid"],
    "python -c 'import torch'": [sys.executable, "-c", "import torch"],
    "noniid --help": [str(NONIID), "--help"],
}


def works(command: list[str]) -> bool:
    """Whether the command runs at all; also brings its files into the system's cache."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def measure(repetitions: int) -> harness.Table:
    working = {name: command for name, command in COMMANDS.items() if works(command)}
    once = {
        name: partial(subprocess.run, command, capture_output=True, check=True) for name, command in working.items()
    }
    seconds = harness.interleave(once, repetitions)
    rows = [(name, *(harness.best_and_median(seconds[name]) if name in seconds else (None, None))) for name in COMMANDS]
    broken = [name for name in COMMANDS if name not in working]
    notes = [f"Best of {repetitions}, in turns, after one that is not timed."]
    notes += [f"{name}: does not run here." for name in broken]
    return harness.Table("Start-up time", ("command", "seconds", "median"), rows, tuple(notes))


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--repetitions", type=int, default=None, help="runs of each (default 10, quick 3)")
    arguments = flags.parse_args()
    setting = harness.environment()
    table = measure(arguments.repetitions or (3 if arguments.quick else 10))
    harness.report("startup", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
