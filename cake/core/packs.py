"""packs"""
from __future__ import annotations
from typing import Any
def load_packs(registry: Any) -> None: ...
