"""`python -m noniid` is `noniid`."""

from noniid.cli import main

if __name__ == "__main__":
    main(prog_name="noniid")
