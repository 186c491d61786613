"""Errors meant for the person at the keyboard: one sentence that says what is wrong and what to do about it."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every `cake` verb."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    ENVIRONMENT = 3
    INTERRUPTED = 130


class CakeError(Exception):
    """A failure with a cause that the user can mend. The command line prints its text alone, never a traceback.

    `exit_code` says whose move it is: `FINDINGS` for a fault in the program or log that was handed in, `USAGE` for a
    wrong call (a path, an option, a name), `ENVIRONMENT` for something that is missing or broken on this machine.
    """

    def __init__(self, message: str, exit_code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
