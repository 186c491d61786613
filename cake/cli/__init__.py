"""The `cake` command: thin, one file per verb group, nothing imported before it is needed."""

from __future__ import annotations

import sys


def main() -> None:
    """Console entry point; exits with the verb's code (see `cake.core.errors.Exit`)."""
    from cake.cli.app import run

    sys.exit(run(sys.argv[1:]))
