"""Source text as the reader sees it: parsed within fixed bounds, every refusal at an exact line.

Nothing here executes what it reads. The bounds make hostile text an error instead of a crash.
"""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cake.core.ir import IRError, Span
from cake.core.scope import name_fault

MAX_BYTES: Final = 1 << 20  #: of source text
MAX_DEPTH: Final = 64  #: of nested syntax in one statement; leaves room for the references around an expression
MAX_READ: Final = 50_000  #: statements, unrolled ones counted each time
MAX_OPERANDS: Final = 100_000  #: expression nodes of one role, unrolled ones counted each time

#: Constructs outside the language: what each is called, and what to write instead.
REFUSED: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Import: ("`import`", "a kernel stands alone; delete the line"),
    ast.ImportFrom: ("`import`", "a kernel stands alone; delete the line"),
    ast.While: ("`while`", "write `for i in range(...)` with a `break`"),
    ast.Lambda: ("`lambda`", "write the expression where it is used"),
    ast.ListComp: ("a comprehension", "write `for x in static((...))`"),
    ast.SetComp: ("a comprehension", "write `for x in static((...))`"),
    ast.DictComp: ("a comprehension", "write `for x in static((...))`"),
    ast.GeneratorExp: ("a generator", "write `for x in static((...))`"),
    ast.List: ("a list", "write a tuple: `(a, b)`"),
    ast.Dict: ("a dictionary", "write keyword arguments"),
    ast.Set: ("a set", "write a tuple: `(a, b)`"),
    ast.JoinedStr: ("an f-string", "write a plain string"),
    ast.NamedExpr: ("`:=`", "assign in a statement of its own"),
    ast.Starred: ("`*` unpacking", "write the elements out"),
    ast.Await: ("`await`", "barriers wait: name one"),
    ast.Yield: ("`yield`", "a role has one body; write its statements"),
    ast.YieldFrom: ("`yield`", "a role has one body; write its statements"),
    ast.AsyncFor: ("`async for`", "write `for`"),
    ast.AsyncWith: ("`async with`", "write `with`"),
    ast.AsyncFunctionDef: ("`async def`", "write `def`"),
    ast.FunctionDef: ("a nested function", "write its statements where they run"),
    ast.ClassDef: ("`class`", "a program is one function"),
    ast.Return: ("`return`", "a role runs to the end of its body; write `if`"),
    ast.Delete: ("`del`", "a name ends with its block; delete the line"),
    ast.Expr: ("a bare expression", "write remarks as comments: `# ...`"),
    ast.AugAssign: ("an augmented assignment", "write `x = x + ...`"),
    ast.AnnAssign: ("an annotated assignment", "types are inferred; write `x = ...`"),
    ast.Continue: ("`continue`", "put the rest of the body under `if`"),
    ast.Raise: ("`raise`", "nothing raises on the device; delete the line"),
    ast.Try: ("`try`", "nothing raises on the device; write the statements"),
    ast.TryStar: ("`try`", "nothing raises on the device; write the statements"),
    ast.Assert: ("`assert`", "delete the line; a rule or a contract checks programs"),
    ast.Global: ("`global`", "names belong to their role; delete the line"),
    ast.Nonlocal: ("`nonlocal`", "names belong to their role; delete the line"),
    ast.Match: ("`match`", "write `if` and `else`"),
    ast.Slice: ("a slice", "write `.cols(start, count)` or `.tile(at, shape)`"),
    ast.Pow: ("`**`", "write `<<` or a literal"),
    ast.MatMult: ("`@`", "call the matrix primitive"),
    ast.Invert: ("`~`", "write `x ^ -1`"),
    ast.UAdd: ("unary `+`", "leave it out"),
    ast.Is: ("`is`", "write `==`"),
    ast.IsNot: ("`is not`", "write `!=`"),
    ast.In: ("`in`", "compare with `==` and `or`"),
    ast.NotIn: ("`not in`", "compare with `!=` and `and`"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A text with the file and line where it starts; `canonical` when it is a `.cake` file."""

    text: str
    file: str
    first_line: int = 1
    canonical: bool = False

    def span(self, node: ast.AST) -> Span:
        """Where `node` stands in the file."""
        line = getattr(node, "lineno", 1)
        return Span(self.file, line + self.first_line - 1, getattr(node, "col_offset", 0))

    def error(self, node: ast.AST, message: str) -> IRError:
        """The error to raise at `node`."""
        return IRError(message, self.span(node))

    def unsupported(self, node: ast.AST, at: ast.AST | None = None) -> IRError:
        """The error for a construct outside the language. `at` is the place of an operator, which has none itself."""
        what, instead = REFUSED.get(type(node), (f"`{type(node).__name__}`", "see the authoring guide"))
        return self.error(at or node, f"{what} is not part of the language: {instead}")

    def parse(self) -> ast.Module:
        """The syntax tree. Raises `IRError` on text that is too large, too deep or not Python."""
        start = Span(self.file, self.first_line)
        if len(self.text) > MAX_BYTES:
            raise IRError(f"the text has {len(self.text)} characters, more than {MAX_BYTES}", start)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the parser warns of escapes in strings: a matter of the text's author
                return ast.parse(self.text)
        except SyntaxError as error:
            line = (error.lineno or 1) + self.first_line - 1
            raise IRError(f"not Python: {error.msg}", Span(self.file, line, (error.offset or 1) - 1)) from None
        except (RecursionError, MemoryError):
            raise IRError("the text is nested too deeply", start) from None
        except ValueError as error:
            raise IRError(f"not Python: {error}", start) from None


def check_free(source: Source, node: ast.AST, name: str) -> None:
    """Refuse a name that no program may use."""
    fault = name_fault(name)
    if fault:
        raise source.error(node, fault)


def suggest(name: str, known: Iterable[str]) -> str:
    """` (did you mean ...?)` when `known` has a close match to `name`, else nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f" (did you mean {close[0]!r}?)" if close else ""
