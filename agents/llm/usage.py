"""What a reply costs. Pure: prices come with the model, tokens with the reply."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

from agents.config.settings import ModelInfo
from agents.llm.contract import Usage

PER = 1_000_000


def cost_of(usage: Usage, model: ModelInfo) -> float:
    """In the currency of the prices; exact up to the last rounding to a float.

    In the catalogue ``in_cached`` is the price of writing the provider's prompt
    cache and ``out_cached`` the price of reading it.
    """
    cost = (
        usage.input * _price(model.cost_per_1m_in)
        + usage.output * _price(model.cost_per_1m_out)
        + usage.cache_write * _price(model.cost_per_1m_in_cached)
        + usage.cache_read * _price(model.cost_per_1m_out_cached)
    )
    return float(cost / PER)


def _price(price: float) -> Fraction:
    # By its digits: 0.15 means the decimal that was written, not the nearest binary.
    return Fraction(str(price)) if isfinite(price) and price > 0 else Fraction(0)
