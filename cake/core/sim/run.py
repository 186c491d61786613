"""Simulating a launch: inputs and extents in, outcome and outputs out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from cake.core.errors import CakeError
from cake.core.events import GlobalBox, Start, Write
from cake.core.ir import Barrier, OpStmt, Program, Scalar, Tensor, walk
from cake.core.registry import targets
from cake.core.sim.body import Compiled
from cake.core.sim.cta import Cta, reads_through_async_proxy
from cake.core.sim.memory import Global
from cake.core.sim.order import EARLY_COPIES, EARLY_GROUPS, LAST_FIRST, OrderName, make_order
from cake.core.sim.result import BudgetSpent, Outcome, SimResult, Stuck, Trap, Unmodelled
from cake.core.sim.values import convert, numpy_type, poison

#: Primitives and loop iterations that one CTA may execute: far above any terminating kernel at simulated sizes.
MAX_STEPS: Final = 2_000_000
#: The fixed adversaries: they differ in whom they starve and in which effects they let come late.
FIXED: Final[tuple[tuple[OrderName, int], ...]] = (
    ("eager", 0),
    ("lazy", 0),
    ("lazy", EARLY_COPIES),
    ("lazy", LAST_FIRST),
    ("lazy", EARLY_COPIES | LAST_FIRST),
    ("lazy", EARLY_COPIES | EARLY_GROUPS),
)


class Simulator:
    """A program made ready to run many times: its expressions and bodies are compiled once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        known = targets()
        if program.target not in known:
            raise CakeError(f"{program.name} is for {program.target}; known targets: {', '.join(known)}")
        self.target = known[program.target]
        self._code: Compiled | Unmodelled
        try:
            with np.errstate(all="ignore"):  # overflow and NaN are values here
                self._code = Compiled(program)
        except Unmodelled as stop:
            self._code = stop
        self._tracked = reads_through_async_proxy(program)
        self._written = _written_tensors(program)

    def run(
        self,
        inputs: Mapping[str, Any],
        extents: Mapping[str, int],
        *,
        order: OrderName = "eager",
        seed: int = 0,
        sms: int = 2,
        max_steps: int = MAX_STEPS,
    ) -> SimResult:
        """Simulate one launch; see `simulate`."""
        if isinstance(self._code, Unmodelled):
            place = self._code.place
            return SimResult("unknown", {}, place, (place,), order=order, seed=seed)
        with np.errstate(all="ignore"):
            return _Launch(self, self._code, inputs, extents, order, seed, sms, max_steps).run()


class _Launch:
    def __init__(
        self,
        simulator: Simulator,
        code: Compiled,
        inputs: Mapping[str, Any],
        extents: Mapping[str, int],
        order: OrderName,
        seed: int,
        sms: int,
        max_steps: int,
    ) -> None:
        self.code, self.target = code, simulator.target
        self.program, self.tracked = simulator.program, simulator._tracked
        self.order, self.seed, self.sms, self.max_steps = order, seed, sms, max_steps
        self.extents = {name: _extent(self.program, name, extents) for name in self.program.extents}
        self.tensors = {t.name: self._tensor(t, inputs, t.name in simulator._written) for t in self.program.of(Tensor)}
        self.scalars = {s.name: _scalar(s, inputs) for s in self.program.of(Scalar)}
        self.outputs = [t for t in self.tensors if t in simulator._written or t not in inputs]
        self.steps = 0
        self.notes: list[str] = []

    def run(self) -> SimResult:
        try:
            ctas = self._ctas()
            for cta in range(ctas):
                stuck = self._cta(cta, ctas)
                if stuck:
                    return self._result("hang", stuck)
        except Trap as trap:
            return self._result("trap", (trap.place,))
        except Unmodelled as stop:
            return self._result("unknown", (stop.place,))
        return self._result("ok", ())

    def _ctas(self) -> int:
        """Check what the launch itself checks, and count the CTAs."""
        program, limits = self.program, self.target.limits
        for value, name, what in (
            (program.threads, "threads", "threads a CTA"),
            (program.smem_bytes, "smem_bytes", "bytes of shared memory"),
        ):
            if value > limits[name]:
                _refuse(f"{value} {what}, beyond {limits[name]}")
        for barrier in program.of(Barrier):
            most = limits.get("mbarrier_arrivals")
            if barrier.kind == "mbarrier" and most is not None and barrier.arrivals > most:
                _refuse(f"{barrier.name} expects {barrier.arrivals} arrivals, beyond {most}")
            if barrier.kind == "mbarrier" and barrier.at % 8:
                _refuse(f"{barrier.name} is misaligned: byte {barrier.at} is no multiple of 8")
        ctas = int(self.code.expr(program.launch.ctas)(_Host(self.extents, self.scalars, {"sm_count": self.sms})))
        if ctas < 1:
            _refuse(f"{ctas} CTAs")
        return ctas

    def _cta(self, index: int, count: int) -> tuple[Stuck, ...]:
        cta = Cta(
            self.code,
            self.target,
            make_order(self.order, self.seed + index * 0x9E3779B1 if self.order == "random" else self.seed),
            self.tensors,
            self.scalars,
            self.extents,
            {"cta_id": index, "cta_count": count},
            tracked=self.tracked,
            budget=self.max_steps,
        )
        try:
            return cta.run()
        except BudgetSpent as stop:
            return (stop.place, *cta.unfinished())
        finally:
            self.steps += cta.steps
            self.notes += cta.notes

    def _result(self, outcome: Outcome, stuck: tuple[Stuck, ...]) -> SimResult:
        double = [f"{t.double} elements of {name} are written again" for name, t in self.tensors.items() if t.double]
        return SimResult(
            outcome,
            {name: self.tensors[name].array for name in self.outputs},
            stuck[0] if stuck else None,
            stuck,
            self.steps,
            (*self.notes, *double),
            self.order,
            self.seed,
        )

    def _tensor(self, tensor: Tensor, inputs: Mapping[str, Any], written: bool) -> Global:
        shape = tuple(self.extents[d] if isinstance(d, str) else d for d in tensor.dims)
        if tensor.name not in inputs:
            return Global(tensor, poison(tensor.dtype, shape), written=written)
        array = np.asarray(inputs[tensor.name])
        if array.shape != shape or array.dtype != numpy_type(tensor.dtype):
            raise CakeError(
                f"tensor {tensor.name} is {tensor.dtype} of shape {shape}; got {array.dtype} of shape {array.shape}"
            )
        return Global(tensor, array.copy() if written else np.ascontiguousarray(array), written=written)


class _Host:
    """What a launch expression reads."""

    def __init__(self, extents: Mapping[str, int], env: Mapping[str, Any], specials: Mapping[str, int]) -> None:
        self.extents, self.env, self.specials = extents, env, specials


def _refuse(reason: str) -> NoReturn:
    raise Trap(f"launch of {reason}", fault="launch_failure")


def _extent(program: Program, name: str, extents: Mapping[str, int]) -> int:
    value = extents.get(name)
    if value is None or value < 1:
        raise CakeError(f"extent {name} of {program.name} is {value}, not 1 or more")
    return int(value)


def _scalar(scalar: Scalar, inputs: Mapping[str, Any]) -> Any:
    if scalar.name not in inputs:
        raise CakeError(f"scalar {scalar.name} ({scalar.dtype}) has no value")
    return convert(inputs[scalar.name], scalar.dtype)


def _written_tensors(program: Program) -> frozenset[str]:
    """Tensors that some statement writes."""
    events = [e for x in walk(program) if isinstance(x.stmt, OpStmt) for e in x.stmt.op.events()]
    cells = [e.cell for e in events if isinstance(e, Write)]
    cells += [c for e in events if isinstance(e, Start) for c in e.writes]
    return frozenset(c.tensor.name for c in cells if isinstance(c, GlobalBox))


def simulate(
    program: Program,
    inputs: Mapping[str, Any],
    extents: Mapping[str, int],
    *,
    order: OrderName = "eager",
    seed: int = 0,
    sms: int = 2,
    max_steps: int = MAX_STEPS,
) -> SimResult:
    """Run `program` on the CPU, operationally, and say what became of it.

    `inputs` holds tensors (NumPy arrays of the declared dtype, bf16 as `ml_dtypes.bfloat16`) and scalars by name; a
    tensor left out starts poisoned, and inputs are never changed. `extents` gives every symbolic extent. `order` says
    how agents are scheduled and how late asynchronous effects come (see `cake.core.sim.order`), `seed` which of these
    orders. The launch has as many CTAs as its expression gives for `sms` multiprocessors; they run one after another.
    `max_steps` bounds the steps of one CTA. Raises CakeError for inputs that do not fit the program.
    """
    return Simulator(program).run(inputs, extents, order=order, seed=seed, sms=sms, max_steps=max_steps)


def run_orders(
    program: Program,
    inputs: Mapping[str, Any],
    extents: Mapping[str, int],
    *,
    seeds: Iterable[int] = range(3),
    fixed: Sequence[tuple[OrderName, int]] = FIXED,
    sms: int = 2,
    max_steps: int = MAX_STEPS,
) -> list[SimResult]:
    """Simulate under each of the `fixed` orders and under one random order a seed; no reference is needed to compare
    the results with each other (see `same_outputs`)."""
    simulator = Simulator(program)
    orders: list[tuple[OrderName, int]] = [*fixed, *(("random", seed) for seed in seeds)]
    return [
        simulator.run(inputs, extents, order=order, seed=seed, sms=sms, max_steps=max_steps) for order, seed in orders
    ]
