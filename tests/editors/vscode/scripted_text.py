"""What the scripted engine answers in the tests: what follows the text before the cursor in this.

Every text stands below a head of its own; a test opens a file with the head, and types on.
"""

MEAN = "def mean(values):\n    return sum(values) / len(values)\n"
LONG = """\
one two three four five six seven eight nine ten
eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty and so on
until there are two hundred keys and some more
"""
TEXTS = {
    "mean": MEAN,
    "area": "def area(width, height):\n    return width * height\n",
    "accents": "café = “über”, né\n",
    "faces": "face = 😀 + 🙂🙃 + 👩‍👩‍👧 done\n",
    "tabs": "tabbed:\n\tone\n\t\ttwo\n\tthree\n",
    "lines": "lines below:\n  second\n  third\n",
    "brackets": "show(len(first), [second])\n",
    "feed": "feed me now, said it\n",
    "right": "total = price * count)\n",
    "long": LONG,
}


def head(name: str) -> str:
    return f"# The text that is called {name}.\n"


SCRIPT = {
    "document": "\n\n\n".join(head(name) + text for name, text in TEXTS.items()),
    "tokens_per_pass": 4,
    "pass_ms": 2.0,
}
