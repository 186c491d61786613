"""The simulator: a program run on the CPU, byte by byte, under orders that the machine may choose.

It is operational and knows nothing of the verifier: agents are generators, proxies are two views of shared memory,
asynchronous effects land at adversarial times. It judges by values, hangs and traps alone.
"""

from cake.core.sim.order import OrderName
from cake.core.sim.result import Outcome, SimResult, Stuck, same_outputs
from cake.core.sim.run import FIXED, MAX_STEPS, Simulator, run_orders, simulate

__all__ = [
    "FIXED",
    "MAX_STEPS",
    "OrderName",
    "Outcome",
    "SimResult",
    "Simulator",
    "Stuck",
    "run_orders",
    "same_outputs",
    "simulate",
]
