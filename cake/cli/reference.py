"""Writes docs/reference from the registry: `python -m cake.cli.reference`. A test holds the pages up to date."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Final

from cake.core import registry
from cake.core.op import Op
from cake.core.rule import Rule
from cake.core.vocabulary import RELATIONS, VOCABULARY_VERSION, Relation

NOTE: Final = "Generated from the registry by `make docs`; do not edit."


def method(cls: type[Op], name: str) -> str:
    """The source of one of `cls`'s methods, unindented; empty when the class does not define it."""
    return textwrap.dedent(inspect.getsource(vars(cls)[name])).rstrip() if name in vars(cls) else ""


def primitive(cls: type[Op]) -> str:
    """One primitive's section."""
    rows = []
    for f in fields(cls):  # type: ignore[arg-type]
        default = "" if f.default is MISSING else f"`{f.default!r}`"
        kind = f"{f.type}".replace(" | ", " or ")  # the annotation as written: aliases keep their names
        rows.append(f"| `{f.name}` | {kind} | {'keyword' if f.kw_only else ''} | {default} |")
    table = ["| operand | type | written as | default |", "|---|---|---|---|", *rows, ""] if rows else []
    lines = [
        f"## `{cls.opname}`",
        "",
        inspect.cleandoc(cls.__doc__ or ""),
        "",
        f"PTX `{cls.ptx}`; targets {', '.join(f'`{t}`' for t in cls.targets)}.",
        "",
        *table,
        "```python",
        method(cls, "events"),
        "```",
        "",
    ]
    return "\n".join(lines)


def relation(r: Relation) -> str:
    """One relation's row."""
    columns = ", ".join(f"{c.name}: {c.type}{f' in {c.unit}' if c.unit else ''}" for c in r.columns)
    return f"| `{r.name}` | {columns} | {r.doc} | {r.complete_when} |"


def rule(r: Rule) -> str:
    """One rule's section."""
    status = f"{r.status} since {r.since}, {'blocking' if r.blocking else 'advisory'}"
    return "\n".join(
        [
            f"## {r.code} {r.name}",
            "",
            f"*{r.category}* · {status} · from `{r.origin}`",
            "",
            textwrap.dedent(r.why).strip(),
            "",
            "```prolog",
            textwrap.dedent(r.finding).strip(),
            "```",
            "",
            f"Says: {r.message}  ",
            f"Help: {r.help}",
            "",
            "Evidence:",
            "",
            *[f"* {e}" for e in r.evidence],
            "",
        ]
    )


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page from its sections."""
    return f"# {title}\n\n{NOTE}\n\n" + "\n".join(parts)


def rules_page(rules: Iterable[Rule]) -> str:
    """The page of `rules`."""
    return page("Rules", map(rule, rules))


def pages() -> dict[str, str]:
    """File name -> text of every reference page. Packs are left out: they document themselves."""
    header = ("| relation | columns | meaning | complete |", "|---|---|---|---|")
    made = {
        "primitives.md": page("Primitives", map(primitive, registry.primitives().values())),
        "facts.md": page(
            f"Fact vocabulary, version {VOCABULARY_VERSION}", (*header, *map(relation, RELATIONS.values()), "")
        ),
        "rules.md": rules_page(r for r in registry.rules().values() if r.origin == "cake"),
    }
    index = [f"* [{text.partition(chr(10))[0].removeprefix('# ')}]({name})" for name, text in made.items()]
    return {"README.md": page("Reference", (*index, "")), **made}


def main(folder: Path) -> None:
    """Write every page that changed, and say which."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        path = folder / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference"))
