"""The folders of the gallery, and what the model says and does in them."""

from tests.doubles.written_replies import Reply, Story

CART = '''"""The cart: what a customer wants to buy."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Line:
    article: str
    price: Decimal
    count: int = 1


def total(lines: list[Line], discount: Decimal = Decimal(0)) -> Decimal:
    """Returns the price of all lines with the discount, which is a share of 1."""
    full = sum(line.price * line.count for line in lines)
    return full * (1 - discount)
'''
TEST = """from decimal import Decimal

from cart import Line, total


def test_a_discount_applies_to_all_lines():
    lines = [Line("lamp", Decimal("19.99")), Line("bulb", Decimal("4.95"), 3)]
    assert total(lines, Decimal("0.15")) == Decimal("29.61")
"""
PURGE = """import { carts } from "./store.js";

export function purge(days = 90) {
  return carts.remove((cart) => cart.age > days);
}
"""
HEADER = '<header class="head">\n  <a href="/">Lumen</a>\n  <a href="/cart">Cart</a>\n</header>\n'

FOLDERS = {
    "shop-api": {"cart.py": CART, "test_cart.py": TEST},
    "shop-web": {"header.html": HEADER, "purge.js": PURGE},
    "handbook": {"README.md": "# Handbook\n\nHow we work, and why.\n"},
}

IMPORTS = ("from decimal import Decimal", "from decimal import ROUND_HALF_UP, Decimal")
RETURN = (
    "    return full * (1 - discount)",
    "    return (full * (1 - discount)).quantize(CENT, ROUND_HALF_UP)",
)
CENT = (
    "\n\n@dataclass(frozen=True)",
    '\nCENT = Decimal("0.01")\n\n\n@dataclass(frozen=True)',
)

ROUND = (
    "The total of a cart with a discount has too many digits. Round it to cents, and run the tests."
)
EXPLAIN = "Explain how the total of a cart is computed."
PURGE_NOW = "Remove carts that nobody has touched for 30 days, not 90."
PUBLISH = "Publish the new header on staging."
LINKS = "Check all links of the handbook."
MOVE = "Move the handbook to a generator."
OLD = "Translate the handbook to Latin."

STORIES = {
    ROUND: Story(
        "Round the cart's total to cents",
        [
            Reply(
                "I look at how the total is computed, and at its test.",
                [
                    ("view", {"file_path": "cart.py"}),
                    ("grep", {"pattern": "total\\(", "include": "*.py"}),
                ],
                "The discount is a fraction, so the product has more than two decimal places. "
                "Money rounds half up here, not half even.",
            ),
            Reply(
                "`total` multiplies exact decimals and never rounds. I round once, at the end, so that "
                "the errors of single lines cannot add up.",
                [
                    (
                        "multiedit",
                        {
                            "file_path": "cart.py",
                            "edits": [
                                {"old_string": old, "new_string": new}
                                for old, new in (IMPORTS, CENT, RETURN)
                            ],
                        },
                    )
                ],
                tokens=(9_200, 640),
            ),
            Reply(
                "",
                [("bash", {"command": "python3 -m pytest -q", "description": "Run the tests"})],
                tokens=(10_400, 90),
            ),
            Reply(
                "Totals are now rounded to cents, **once**, after the discount:\n\n"
                "| cart | before | now |\n|---|--:|--:|\n"
                "| lamp, 3 bulbs, 15 % off | 29.6140 | 29.61 |\n"
                "| one lamp, no discount | 19.99 | 19.99 |\n\n"
                "Half a cent is rounded up, as on receipts. Orders of the past keep their totals.",
                tokens=(11_100, 420),
            ),
        ],
    ),
    EXPLAIN: Story(
        "How the total is computed",
        [
            Reply(
                "`total` adds price times count of all lines and applies the discount at the end.",
                tokens=(5_000, 60),
            )
        ],
    ),
    PURGE_NOW: Story(
        "Remove old carts after 30 days",
        [
            Reply("The age is the default of `purge`.", [("view", {"file_path": "purge.js"})]),
            Reply(
                "I change the default, and name it.",
                [
                    (
                        "edit",
                        {
                            "file_path": "purge.js",
                            "old_string": "export function purge(days = 90) {",
                            "new_string": "const DAYS = 30;\n\nexport function purge(days = DAYS) {",
                        },
                    )
                ],
                tokens=(6_000, 120),
            ),
            Reply("Carts now go after 30 days.", tokens=(6_400, 40)),
        ],
    ),
    PUBLISH: Story(
        "Publish the header on staging",
        [
            Reply(
                "I build the pages first and compare them with what staging serves now. The header "
                "has changed on every page, so each of them",
                is_open=True,
            )
        ],
    ),
    LINKS: Story(
        "Check the handbook's links",
        [Reply("The context is longer than the model accepts.", status=400)],
    ),
    MOVE: Story(
        "Move the handbook to a generator",
        [
            Reply(
                "Two things are yours to decide.",
                [
                    (
                        "question",
                        {
                            "questions": [
                                {
                                    "type": "single_choice",
                                    "question": "Which generator?",
                                    "description": "All of them read the pages as they are.",
                                    "choices": [
                                        {"id": "mkdocs", "label": "MkDocs"},
                                        {"id": "sphinx", "label": "Sphinx"},
                                        {"id": "hugo", "label": "Hugo"},
                                    ],
                                },
                                {
                                    "type": "yes_no",
                                    "question": "Do the addresses of the pages have to stay?",
                                },
                            ]
                        },
                    )
                ],
            )
        ],
    ),
    OLD: Story(
        "Translate the handbook",
        [Reply("“Vade mecum” it is: the first page is translated.", tokens=(3_000, 900))],
    ),
}
