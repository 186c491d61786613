"""The root command: the table of verbs, loaded when called, and the one place where errors become exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final

import click

from cake.core.errors import CakeError, Exit

#: What a crash of Cake itself exits with: none of the codes that say something about the user's input (EX_SOFTWARE).
BUG: Final = 70

#: Heading -> verb -> (module, one-line help). `cake --help` prints this table without importing a verb.
VERBS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Write a kernel": {
        "check": ("check", "Find faults in a schedule before any compiler or GPU runs."),
        "explain": ("explain", "Print a rule, primitive, target or calibration from its own file."),
        "facts": ("facts", "Print what exploration knows, in the words that rules are written in."),
        "sim": ("sim", "Run a schedule in the CPU simulator."),
        "lower": ("lower", "Print the CUDA C++ that a schedule becomes."),
        "compile": ("lower", "Compile a schedule to a cubin with NVRTC (no GPU needed)."),
        "run": ("run", "Take a kernel through all seven categories, GPU included."),
    },
    "Grow the compiler": {
        "corpus": ("corpus", "List kernels, derive broken variants, report on logs."),
        "distill": ("distill", "Turn a failure log into proposal branches."),
        "proposals": ("proposals", "Review, gate, merge or reject the distiller's proposals."),
        "packs": ("packs", "List, check, lock and trust rule packs of other teams."),
    },
    "Look after it": {
        "doctor": ("doctor", "Say what is installed, what is missing and what that disables."),
    },
}


class Verb(click.Command):
    """A command whose help ends with worked examples: `examples` maps a command line to what it does."""

    def __init__(self, *args: Any, examples: dict[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples or {}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, a comment above each."""
        write_examples(self.examples, formatter)


class Group(click.Group):
    """A group of `Verb`s, with examples of its own; lists each with the whole first sentence of its help."""

    command_class = Verb

    def __init__(self, *args: Any, examples: dict[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples or {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each on as many lines as it needs."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(200)) for name in self.list_commands(ctx)]
            )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, a comment above each."""
        write_examples(self.examples, formatter)


def write_examples(examples: dict[str, str], formatter: click.HelpFormatter) -> None:
    """Write `examples` as a section: the comment, then the command line as it would be typed."""
    if not examples:
        return
    with formatter.section("Examples"):
        for command, comment in examples.items():
            formatter.write(f"{'':{formatter.current_indent}}# {comment}\n")
            formatter.write(f"{'':{formatter.current_indent}}$ {command}\n")


class Root(Group):
    """The root group: knows its verbs by name and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of the table."""
        return [name for verbs in VERBS.values() for name in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its command, which it lists in `COMMANDS`."""
        for verbs in VERBS.values():
            if cmd_name in verbs:
                module = importlib.import_module(f"cake.cli.{verbs[cmd_name][0]}")
                command: click.Command = module.COMMANDS[cmd_name]
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, a section a heading."""
        for heading, verbs in VERBS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, text) in verbs.items()])


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples={
        "cake check corpus/kernels/gemm_bf16": "check every configuration of a kernel",
        "cake explain SYN001": "what a finding's code means, from the rule's own file",
        "cake sim my_kernel.cake --shape M=64,N=128": "run it on the CPU, byte by byte",
        "cake doctor": "what this machine can do",
    },
)
@click.version_option(package_name="cake-compiler", prog_name="cake")
def root() -> None:
    """Cake checks, simulates, compiles and runs GPU kernels that are written as explicit schedules, and turns what
    goes wrong into new compiler rules under a gate that only a person opens.

    Exit codes: 0 clean, 1 findings, 2 usage, 3 environment. Every verb takes --json.
    """


def run(argv: Sequence[str]) -> int:
    """Run `cake` with `argv` and return its exit code. Prints one sentence, not a traceback, for a user's error."""
    as_json = "--json" in argv
    try:
        code = root.main(args=list(argv), prog_name="cake", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else Exit.CLEAN
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return Exit.USAGE
    except click.ClickException as error:
        hint = f" (try: {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""
        return _fail(error.format_message() + hint, Exit.USAGE, as_json)
    except CakeError as error:
        return _fail(str(error), error.exit_code, as_json)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted; what was written before is intact", Exit.INTERRUPTED, as_json)
    except BrokenPipeError:
        # The reader of our output has gone (`cake ... | head`). Nothing may be flushed to it at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except Exception as error:
        traceback.print_exc()
        return _fail(
            f"this is a bug in Cake ({type(error).__name__}); please report it with the trace above", BUG, as_json
        )


def _fail(message: str, code: int, as_json: bool) -> int:
    from cake.cli.output import print_json, stderr_style

    if as_json:
        print_json({"error": {"message": message, "exit_code": int(code)}})
    click.echo(f"{stderr_style('error:', fg='red', bold=True)} {message}", err=True)
    return code
