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
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from time import perf_counter
from typing import Any, Final

from cake.core.corpus import CorpusKernel
from cake.core.edits import Edit, edits
from cake.core.evidence import EvidenceWriter, Origin, Record
from cake.core.inputs import Array, generate
from cake.core.ir import Program, Tensor
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.sim.result import SimResult, Stuck

#: The distribution of a mutant's inputs: sums of up to 2**17 products stay exact in f32.
WHOLE_NUMBERS: Final = ("integers", {"low": -8, "high": 8})

#: (order, seed) of the simulations that one label rests on: effects as early, as late and as mixed as they may come.
SCHEDULES: Final = (("eager", 0), ("lazy", 0), ("random", 1), ("random", 2))

#: What a trap's reason says when it is no illegal instruction.
_TRAPS: Final = {"align": "misaligned_address", "outside": "illegal_address", "launch": "launch_failure"}

#: SMs that a mutant runs on, simulated and on the GPU: each CTA then has several tiles, even of a small problem.
SMS: Final = 2


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program to label. `edit` is None for the unedited parents themselves; `text` is canonical, `name` its hash."""

    kernel: str
    config_name: str
    config: Mapping[str, int | float | bool | str]
    extents: Mapping[str, int]
    scalars: Mapping[str, float]
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
    """Every configuration of every kernel, unedited, on the last simulator shape of its contract that it supports."""
    found = []
    for kernel in kernels:
        for config in kernel.configs:
            constants = kernel.constants(config)
            shapes = [s for s in kernel.contract.simulator if not kernel.contract.refusal(s, constants)]
            if shapes:
                program = kernel.program(config)
                text = print_program(program)
                name = text_hash(text)
                found.append(
                    Mutant(
                        kernel.name, config, constants, shapes[-1], kernel.contract.scalars, program, text, name, name
                    )
                )
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
    return Mutant(
        base.kernel,
        base.config_name,
        base.config,
        base.extents,
        base.scalars,
        edit.program,
        text,
        text_hash(text),
        base.name,
        edit.kind,
        edit.path,
        edit.detail,
    )


# ----------------------------------------------------------------------------------------------------- simulator labels


def inputs_of(program: Program, extents: Mapping[str, int], scalars: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Whole-number inputs for every tensor, and the scalars; the same for a parent and its mutants."""
    kind, parameters = WHOLE_NUMBERS
    values: dict[str, Any] = dict(scalars)
    for tensor in program.of(Tensor):
        shape = tuple(extents[d] if isinstance(d, str) else d for d in tensor.dims)
        values[tensor.name] = generate(kind, parameters, shape, tensor.dtype.name, seed=seed, name=tensor.name)
    return values


@dataclass(frozen=True, slots=True)
class Label:
    """What the simulator says: an outcome (`unknown` when it cannot tell), where, and which schedules showed it."""

    outcome: str
    where: Stuck | None
    shown_by: tuple[str, ...]
    checksum: str
    wall_s: float


def simulate_under(program: Program, inputs: Mapping[str, Any], extents: Mapping[str, int]) -> list[SimResult]:
    """The program under every schedule of `SCHEDULES`; stops early once one has shown a hang or a trap."""
    from cake.core.sim import simulate

    results = []
    for order, seed in SCHEDULES:
        result = simulate(program, inputs, extents, order=order, seed=seed, sms=SMS)
        results.append(result)
        if result.outcome != "ok":
            break
    return results


def checksum(outputs: Mapping[str, Array]) -> str:
    """sha256 over the outputs' bytes, by name."""
    digest = hashlib.sha256()
    for name in sorted(outputs):
        digest.update(name.encode() + b"\0" + outputs[name].tobytes())
    return digest.hexdigest()


def label(results: Sequence[SimResult], reference: str) -> tuple[str, Stuck | None, tuple[str, ...]]:
    """Outcome, place and telling schedules of simulations whose outputs should have the checksum `reference`."""
    for result in results:
        if result.outcome != "ok":
            outcome = _trap(result) if result.outcome == "trap" else result.outcome
            return outcome, result.where, (f"{result.order}/{result.seed}",)
    sums = {f"{r.order}/{r.seed}": checksum(r.outputs) for r in results}
    wrong = tuple(name for name, value in sums.items() if value != reference)
    if not wrong:
        return "ok", None, ()
    return ("nondeterminism" if len(set(sums.values())) > 1 else "mismatch"), None, wrong


def _trap(result: SimResult) -> str:
    """A trap's outcome, by the words of its reason."""
    reason = result.where.reason if result.where else ""
    for word, outcome in (
        ("align", "misaligned_address"),
        ("outside", "illegal_address"),
        ("launch", "launch_failure"),
    ):
        if word in reason:
            return outcome
    return "illegal_instruction"


class Labeller:
    """Labels mutants with the simulator, each against its parent on the same inputs (drawn with `seed`)."""

    def __init__(self, bases: Sequence[Mutant], seed: int) -> None:
        self.bases = {base.name: base for base in bases}
        self.seed = seed
        self._reference = cache(self._simulated_parent)

    def _simulated_parent(self, name: str) -> str:
        base = self.bases[name]
        inputs = inputs_of(base.program, base.extents, base.scalars, self.seed)
        results = simulate_under(base.program, inputs, base.extents)
        sums = {checksum(r.outputs) for r in results}
        if len(sums) != 1 or any(r.outcome != "ok" for r in results):
            raise RuntimeError(f"{base.kernel} {base.config_name} is no reference: {[r.outcome for r in results]}")
        return sums.pop()

    def __call__(self, mutant: Mutant) -> Label:
        """Simulate one mutant. Its parent is simulated once."""
        reference = self._reference(mutant.parent)
        base = self.bases[mutant.parent]
        inputs = inputs_of(base.program, base.extents, base.scalars, self.seed)
        start = perf_counter()
        results = simulate_under(mutant.program, inputs, mutant.extents)
        outcome, where, shown_by = label(results, reference)
        return Label(outcome, where, shown_by, checksum(results[0].outputs), perf_counter() - start)


def simulator_record(mutant: Mutant, found: Label, seed: int) -> Record:
    """The evidence record of a simulator label."""
    diagnostics: tuple[Mapping[str, Any], ...] = ({"kind": "schedules", "shown_by": list(found.shown_by)},)
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
