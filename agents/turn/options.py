"""The options of a prompt: its model, effort, permission mode and budget. Pure.

A child run has the options of the run that waits for it, so that a budget holds for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run together with its child runs; ``None`` is no limit."""

    cost: float | None = None  # in US dollars, as the prices of models
    tokens: int | None = None  # of prompts and completions
    steps: int | None = None  # requests to a model
    seconds: int | None = None  # since the run began, waiting for answers included

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) is not None for f in fields(self))

    def to_wire(self) -> dict[str, Any]:
        """Returns the limits that are set."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: limit for name, limit in named.items() if limit is not None}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a prompt chooses for its own run; an empty field chooses nothing."""

    model: str = ""  # "large", "small", or "provider/model"
    effort: str = ""  # one of the model's reasoning levels
    permission_mode: str = ""  # instead of the workspace's
    budget: Budget = field(default_factory=Budget)

    def __bool__(self) -> bool:
        return bool(self.model or self.effort or self.permission_mode or self.budget)

    def to_wire(self) -> dict[str, Any]:
        """Returns the options that are set, as rows and events contain them."""
        named = {
            "model": self.model,
            "effort": self.effort,
            "permission_mode": self.permission_mode,
            "budget": self.budget.to_wire(),
        }
        return {name: value for name, value in named.items() if value}

    def stored(self) -> str | None:
        return orjson.dumps(self.to_wire()).decode() if self else None


NO_OPTIONS = RunOptions()


def options_from(stored: str | None) -> RunOptions:
    """Returns the options of a row."""
    return NO_OPTIONS if stored is None else options_named(orjson.loads(stored))


def options_named(named: Mapping[str, Any]) -> RunOptions:
    """Returns the options that ``to_wire`` returned, or that a client has named."""
    return RunOptions(
        named.get("model", ""),
        named.get("effort", ""),
        named.get("permission_mode", ""),
        Budget(**named.get("budget") or {}),
    )


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run and its child runs have used so far."""

    cost: float
    tokens: int
    steps: int
    seconds: int


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The reason why a run may not call its model again."""

    budget: Budget
    reached: Spent
    exceeded: tuple[str, ...]  # the names of the limits

    def to_wire(self) -> dict[str, Any]:
        reached = {f.name: getattr(self.reached, f.name) for f in fields(self.reached)}
        return {
            "limits": self.budget.to_wire(),
            "reached": reached,
            "exceeded": list(self.exceeded),
        }

    @property
    def sentence(self) -> str:
        """Returns the amounts that were reached, for people."""
        amounts = [_amount(name, self.budget, self.reached) for name in self.exceeded]
        return f"Over budget: {', '.join(amounts)}"


def over_budget(budget: Budget, spent: Spent) -> OverBudget | None:
    """Returns the limits that are reached; ``None`` if another request to a model is allowed."""
    limits: Mapping[str, Any] = budget.to_wire()
    exceeded = tuple(name for name, limit in limits.items() if getattr(spent, name) >= limit)
    return OverBudget(budget, spent, exceeded) if exceeded else None


def _amount(name: str, budget: Budget, spent: Spent) -> str:
    limit, reached = getattr(budget, name), getattr(spent, name)
    if name == "cost":
        return f"${reached:.4f} of ${limit:.4f}"
    return f"{reached:,} of {limit:,} {name}"
