"""The vocabulary is well-formed and neutral."""

import re

from cake.core.vocabulary import RELATIONS, TYPES, UNITS


def test_every_relation_has_typed_columns_and_a_sentence() -> None:
    """Names, types, units, completeness and documentation are drawn from the closed lists."""
    for name, relation in RELATIONS.items():
        assert re.fullmatch(r"[a-z][a-z_]*", name)
        assert relation.doc.endswith(".")
        assert relation.complete_when in ("always", "closed")
        columns = [c.name for c in relation.columns]
        assert len(set(columns)) == len(columns)
        for column in relation.columns:
            assert re.fullmatch(r"[A-Z][A-Za-z]*", column.name)
            assert column.type in TYPES
            assert column.unit in UNITS
            assert not column.unit or column.type == "int"


def test_no_relation_is_a_verdict() -> None:
    """A fact that names the fault would let a learner copy it instead of finding the rule."""
    verdicts = ("deadlock", "block", "stuck", "race", "hang", "wrong", "bad", "illegal", "error", "missing", "mismatch")
    assert not [n for n in RELATIONS if any(v in n for v in verdicts)]
