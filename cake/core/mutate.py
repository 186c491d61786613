"""Broken variants of good kernels, and what the simulator says of them.

`mutate` draws one-edit neighbours, stratified over kernels and kinds of edit, the same ones for the same seed. A mutant
needs no oracle: its parent's output on the same inputs is the reference. Inputs are small whole numbers, so that every
sum is exact and outputs are compared bit for bit, whatever order the machine adds in.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from time import perf_counter
from typing import Any, Final

import numpy as np

from cake.core.corpus import CorpusKernel
from cake.core.edits import Edit, edits
from cake.core.errors import CakeError
from cake.core.events import GlobalBox, Read, Start
from cake.core.evidence import EvidenceWriter, Origin, Record
from cake.core.inputs import Array, generate
from cake.core.ir import OpStmt, Program, Tensor, walk
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.sim import FIXED, Simulator, Stuck

#: The distribution of a mutant's inputs: sums of up to 2**17 products stay exact in f32.
WHOLE_NUMBERS: Final = ("integers", {"low": -8, "high": 8})

#: Random orders that a label rests on, beside the simulator's fixed adversaries.
RANDOM_ORDERS: Final = 4

#: SMs that a mutant runs on, simulated and on the GPU: each CTA then has several tiles, even of a small problem.
SMS: Final = 2


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program to label: a parent (`kind` is empty) or one edit of it. `text` is canonical, `name` its hash; `extents`
    is the problem that the simulator labels, the first of the `shapes` that a GPU runs."""

    kernel: str
    config_name: str
    config: Mapping[str, int | float | bool | str]
    extents: Mapping[str, int]
    shapes: tuple[Mapping[str, int], ...]
    scalars: Mapping[str, float]
    outputs: tuple[str, ...]
    program: Program = field(repr=False)
    text: str = field(repr=False)
    name: str
    parent: str
    kind: str = ""
    path: str = ""
    detail: str = ""

    def origin(self, seed: int, labeller: str) -> Origin:
        """Where it comes from, for its record."""
        return Origin(self.parent, self.path, self.detail, seed, labeller)


def parents(kernels: Sequence[CorpusKernel]) -> list[Mutant]:
    """Every configuration of every kernel, unedited, on the mutation shapes of its contract that it supports."""
    found = []
    for kernel in kernels:
        for config in kernel.configs:
            constants = kernel.constants(config)
            shapes = [s for s in kernel.contract.mutation if not kernel.contract.refusal(s, constants)]
            if shapes:
                program = kernel.program(config)
                text = print_program(program)
                name = text_hash(text)
                contract = kernel.contract
                about = (kernel.name, config, constants, shapes[0], tuple(shapes), contract.scalars, contract.outputs)
                found.append(Mutant(*about, program, text, name, name))
    return found


def mutate(kernels: Sequence[CorpusKernel], seed: int, count: int) -> list[Mutant]:
    """`count` distinct mutants (fewer when there are no more), none of them a parent, in a fixed order for a seed.

    Strata are kernel and kind of edit, visited in turn; within one, configurations take turns."""
    bases = parents(kernels)
    seen = {p.name for p in bases}
    strata: dict[tuple[str, str], list[list[tuple[Mutant, Edit]]]] = defaultdict(list)
    for base in bases:
        kinds: dict[str, list[tuple[Mutant, Edit]]] = defaultdict(list)
        for edit in edits(base.program):
            kinds[edit.kind].append((base, edit))
        for kind, found in kinds.items():
            key = f"{seed}/{base.kernel}/{base.config_name}/{kind}"
            random.Random(hashlib.sha256(key.encode()).digest()).shuffle(found)
            strata[base.kernel, kind].append(found)
    queues = [_in_turn(lists) for _, lists in sorted(strata.items())]
    chosen: list[Mutant] = []
    while queues and len(chosen) < count:
        for queue in list(queues):
            mutant = next((m for m in map(_mutant, queue) if m.name not in seen), None)
            if mutant is None:
                queues.remove(queue)
            elif len(chosen) < count:
                seen.add(mutant.name)
                chosen.append(mutant)
    return chosen


def _in_turn(lists: list[list[tuple[Mutant, Edit]]]) -> Iterator[tuple[Mutant, Edit]]:
    for row in zip_longest(*lists):
        yield from (item for item in row if item is not None)


def _mutant(item: tuple[Mutant, Edit]) -> Mutant:
    base, edit = item
    text = print_program(edit.program)
    return replace(
        base,
        program=edit.program,
        text=text,
        name=text_hash(text),
        kind=edit.kind,
        path=edit.path,
        detail=edit.detail,
    )


# ----------------------------------------------------------------------------------------------------- simulator labels


def input_spec(seed: int) -> dict[str, Any]:
    """How every tensor of a mutant is filled: a distribution of `cake.core.inputs`, and its seed."""
    kind, parameters = WHOLE_NUMBERS
    return {"kind": kind, "seed": seed, **parameters}


def tensors_read(program: Program) -> frozenset[str]:
    """Tensors that some statement reads; the others start poisoned."""
    found = set()
    for at in walk(program):
        for event in at.stmt.op.events() if isinstance(at.stmt, OpStmt) else ():
            cells = (event.cell,) if isinstance(event, Read) else event.reads if isinstance(event, Start) else ()
            found |= {c.tensor.name for c in cells if isinstance(c, GlobalBox)}
    return frozenset(found)


def inputs_of(program: Program, extents: Mapping[str, int], scalars: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Values for every tensor that the program reads, and the scalars; the same for a parent and its mutants."""
    kind, parameters = WHOLE_NUMBERS
    values: dict[str, Any] = dict(scalars)
    for tensor in program.of(Tensor):
        if tensor.name in tensors_read(program):
            shape = tuple(extents[d] if isinstance(d, str) else d for d in tensor.dims)
            values[tensor.name] = generate(kind, parameters, shape, tensor.dtype.name, seed=seed, name=tensor.name)
    return values


@dataclass(frozen=True, slots=True)
class Label:
    """What the simulator says: an outcome (`unknown` when it cannot tell), where, and which orders showed it."""

    outcome: str
    where: Stuck | None
    shown_by: tuple[str, ...]
    checksum: str
    wall_s: float = 0.0


def sum_of(outputs: Mapping[str, str]) -> str:
    """One checksum of several outputs, from the sha256 of each one's bytes."""
    if len(outputs) == 1:
        return next(iter(outputs.values()))
    return hashlib.sha256("".join(f"{n}={outputs[n]};" for n in sorted(outputs)).encode()).hexdigest()


def checksum(outputs: Mapping[str, Array], names: Sequence[str]) -> str:
    """The checksum of the outputs called `names`; an output that a mutant no longer writes counts as empty."""
    data = {n: np.ascontiguousarray(outputs[n]).tobytes() if n in outputs else b"" for n in names}
    return sum_of({n: hashlib.sha256(d).hexdigest() for n, d in data.items()})


def label(
    program: Program, inputs: Mapping[str, Any], extents: Mapping[str, int], outputs: Sequence[str], reference: str
) -> Label:
    """Simulate under adversarial orders and compare with the checksum `reference`. A hang or a trap in any order is the
    outcome; wrong outputs are a mismatch, or nondeterminism when orders disagree with each other."""
    orders = [*FIXED, *(("random", seed) for seed in range(RANDOM_ORDERS))]
    simulator = Simulator(program)
    sums: dict[str, str] = {}
    for order, seed in orders:
        result = simulator.run(inputs, extents, order=order, seed=seed, sms=SMS)
        name = f"{order}/{seed}"
        if result.outcome != "ok":
            fault = result.where.fault if result.where and result.outcome == "trap" else ""
            return Label(fault or result.outcome, result.where, (name,), "")
        sums[name] = checksum(result.outputs, outputs)
    wrong = tuple(name for name, value in sums.items() if value != reference)
    differ = len(set(sums.values())) > 1
    return Label("nondeterminism" if differ else "mismatch" if wrong else "ok", None, wrong, next(iter(sums.values())))


class Labeller:
    """Labels mutants with the simulator, each against its parent on the same inputs (drawn with `seed`)."""

    def __init__(self, bases: Sequence[Mutant], seed: int) -> None:
        self.bases = {base.name: base for base in bases}
        self.seed = seed
        self._reference = cache(self._simulated_parent)

    def _simulated_parent(self, name: str) -> str:
        base = self.bases[name]
        inputs = inputs_of(base.program, base.extents, base.scalars, self.seed)
        eager = Simulator(base.program).run(inputs, base.extents, sms=SMS)
        reference = checksum(eager.outputs, base.outputs)
        found = label(base.program, inputs, base.extents, base.outputs, reference)
        if found.outcome != "ok":
            raise CakeError(f"{base.kernel} {base.config_name} is no reference: simulated, it is a {found.outcome}")
        return reference

    def __call__(self, mutant: Mutant) -> Label:
        """Simulate one mutant. Its parent is simulated once."""
        reference = self._reference(mutant.parent)
        start = perf_counter()
        try:
            inputs = inputs_of(mutant.program, mutant.extents, mutant.scalars, self.seed)
            found = label(mutant.program, inputs, mutant.extents, mutant.outputs, reference)
        except (ValueError, KeyError, ArithmeticError, IndexError):  # what cannot be simulated at all has no label
            found = Label("unknown", None, (), "")
        return replace(found, wall_s=perf_counter() - start)


def simulator_record(mutant: Mutant, found: Label, seed: int) -> Record:
    """The evidence record of a simulator label."""
    diagnostics: tuple[Mapping[str, Any], ...] = ({"kind": "orders", "shown_by": list(found.shown_by)},)
    if found.where is not None:
        diagnostics += (stuck_diagnostic(found.where),)
    return Record(
        program=mutant.name,
        outcome=found.outcome,
        stage="simulate",
        kernel=mutant.kernel,
        operator=mutant.kind,
        device="simulator",
        config=mutant.config,
        extents=mutant.extents,
        output_checksum=found.checksum,
        wall_s=round(found.wall_s, 3),
        diagnostics=diagnostics,
        origin=mutant.origin(seed, "simulator"),
    )


def stuck_diagnostic(where: Stuck) -> dict[str, Any]:
    """Where an agent stopped, as the structured diagnostic that watchdog records use too."""
    return {
        "kind": "stuck",
        "path": where.path,
        "reason": where.reason,
        "role": where.role,
        "instance": where.instance,
        "warp": where.warp,
        "barrier": where.barrier,
        "slot": where.slot,
        "parity": where.parity,
        "iteration": dict(where.iteration),
    }


def write_simulator_log(
    kernels: Sequence[CorpusKernel],
    seed: int,
    count: int,
    writer: EvidenceWriter,
    progress: Callable[[str], None] = lambda line: None,
) -> Counter[str]:
    """Draw `count` mutants, label each, append the records (parents first). Returns outcomes with their numbers; what
    the simulator cannot tell (`unknown`) is counted and not recorded."""
    bases = parents(kernels)
    labeller = Labeller(bases, seed)
    outcomes: Counter[str] = Counter()
    for mutant in (*bases, *mutate(kernels, seed, count)):
        found = labeller(mutant)
        outcomes[found.outcome] += 1
        progress(f"{mutant.kernel} {mutant.config_name} {mutant.kind or 'unedited'} {mutant.path}: {found.outcome}")
        if found.outcome != "unknown":
            writer.append(simulator_record(mutant, found, seed), mutant.text)
    return outcomes
