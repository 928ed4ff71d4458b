"""What retrieval must know of a language: its files' names and who can quote whom.

Knows names only; a language that is not here is matched by its own name, or by the file's ending.
"""

FAMILIES = {
    "python": "py pyi",
    "javascript": "js jsx mjs cjs ts tsx mts cts vue svelte",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "kotlin": "kt kts",
    "scala": "scala sc",
    "c": "c h cc cpp cxx hh hpp hxx inl ino",
    "csharp": "cs",
    "ruby": "rb",
    "php": "php",
    "swift": "swift",
    "lua": "lua",
    "dart": "dart",
    "elixir": "ex exs",
    "haskell": "hs",
    "perl": "pl pm",
    "r": "r",
    "julia": "jl",
    "shell": "sh bash zsh",
    "sql": "sql",
    "css": "css scss less",
    "html": "html htm",
    "zig": "zig",
    "ocaml": "ml mli",
    "clojure": "clj cljs cljc",
    "protobuf": "proto",
    "notebook": "ipynb",
}
_FAMILY_OF_ENDING = {e: family for family, ends in FAMILIES.items() for e in ends.split()}
_FAMILY_OF_LANGUAGE = {
    "cpp": "c",
    "objective-c": "c",
    "cuda-cpp": "c",
    "typescript": "javascript",
    "javascriptreact": "javascript",
    "typescriptreact": "javascript",
    "vue": "javascript",
    "svelte": "javascript",
    "shellscript": "shell",
    "bash": "shell",
    "scss": "css",
    "less": "css",
    "jupyter": "python",
    "notebook": "python",
    "proto": "protobuf",
}


def family(language: str, path: str = "") -> str:
    """Languages of one family can quote each other; an unknown one is a family of its own."""
    name = language.lower()
    if not name or name in ("plaintext", "text"):
        ending = ending_of(path)
        name = _FAMILY_OF_ENDING.get(ending, ending or "plaintext")
    return _FAMILY_OF_LANGUAGE.get(name, name)


def language_of(path: str) -> str:
    """The language of a file that no editor has named, empty if its ending is not known."""
    found = _FAMILY_OF_ENDING.get(ending_of(path), "")
    return "python" if found == "notebook" else found


def ending_of(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""
