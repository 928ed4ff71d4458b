"""Definitions by tree-sitter, for languages whose grammar is installed (the extra `grammars`).

Knows how each grammar names what defines; imports a grammar when it is first asked for, and never
in the thread that answers an editor. Without one the caller goes by lines.
"""

import importlib
import importlib.util
from functools import cache
from typing import Any

from completiond_lsp.retrieval.bodies import emptied
from completiond_lsp.retrieval.definitions import MAX_DEFINITIONS, Definition
from completiond_lsp.retrieval.languages import ending_of

DEEP = 6
"""Levels of the tree that are looked at: classes in classes, not what functions hold."""

_GRAMMARS = {  # language or ending: module, and its function where there are several
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "javascriptreact": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "typescriptreact": ("tree_sitter_typescript", "language_tsx"),
    "ts": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "hpp": ("tree_sitter_cpp", "language"),
    "cc": ("tree_sitter_cpp", "language"),
}
_DEFINES = frozenset(
    """function_definition class_definition function_declaration generator_function_declaration
    class_declaration abstract_class_declaration method_definition interface_declaration
    type_alias_declaration enum_declaration method_declaration type_spec type_alias function_item
    function_signature_item struct_item enum_item trait_item impl_item type_item mod_item const_item
    static_item macro_definition union_item record_declaration constructor_declaration
    annotation_type_declaration struct_specifier union_specifier enum_specifier class_specifier
    type_definition namespace_definition variable_declarator const_spec var_spec preproc_def
    preproc_function_def abstract_method_signature method_signature internal_module
    public_field_definition""".split()
)
_HOLDS = frozenset(  # what definitions stand in, besides other definitions
    """block class_body interface_body enum_body object_type declaration_list
    field_declaration_list decorated_definition export_statement ambient_declaration
    type_declaration lexical_declaration variable_declaration const_declaration var_declaration
    var_spec_list linkage_specification preproc_ifdef preproc_if preproc_else declaration
    field_declaration expression_statement if_statement statement_block annotation_type_body
    template_declaration enum_body_declarations""".split()
)
_FUNCTIONS = frozenset(
    """function_definition function_declaration method_definition method_declaration function_item
    constructor_declaration generator_function_declaration variable_declarator""".split()
)


def by_tree(text: str, language: str, path: str) -> list[Definition] | None:
    """Definitions of the text; None if there is no grammar for its language."""
    parser = _parser(language, ending_of(path))
    if parser is None:
        return None
    if language == "python":
        text = emptied(text)
    data = text.encode("utf-8", "replace")
    found: list[Definition] = []
    _walk(parser.parse(data).root_node, "", DEEP, found)
    return found


def _parser(language: str, ending: str) -> Any:
    by_ending = ending if ending in ("ts", "tsx", "hpp", "cc") else language
    return _load(*_GRAMMARS.get(by_ending, _GRAMMARS.get(language, ("", ""))))


@cache
def _load(module: str, function: str) -> Any:
    if not module or not all(map(importlib.util.find_spec, ("tree_sitter", module))):
        return None
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        grammar = getattr(importlib.import_module(module), function)()
        return tree_sitter.Parser(tree_sitter.Language(grammar))
    except (ImportError, AttributeError, ValueError):  # of another version than the parser
        return None


def _walk(node: Any, owner: str, depth: int, found: list[Definition]) -> None:
    for child in node.named_children:
        kind = child.type
        if len(found) >= MAX_DEFINITIONS:
            return
        name = _name(child) if kind in _DEFINES else ""
        if name:
            start = node if node.type in ("decorated_definition", "export_statement") else child
            first, last = start.start_point[0], child.end_point[0] + 1
            found.append(Definition(name, first, last, owner))
        elif kind == "assignment" and not owner:
            _assigned(child, found)
        if depth and kind not in _FUNCTIONS and (name or kind in _HOLDS):
            _walk(child, name or owner, depth - 1, found)


def _name(node: Any) -> str:
    """The name that a node defines, out of C's nested declarators if need be."""
    if node.type in ("struct_specifier", "class_specifier", "enum_specifier", "union_specifier"):
        if node.child_by_field_name("body") is None:
            return ""  # a use of the type
    for field in ("name", "declarator", "type"):
        inner = node.child_by_field_name(field)
        while inner is not None and inner.child_by_field_name("declarator") is not None:
            inner = inner.child_by_field_name("declarator")
        if inner is not None and inner.text is not None:
            return str(inner.text.decode("utf-8", "replace")).rpartition("::")[2]
    return ""


def _assigned(node: Any, found: list[Definition]) -> None:
    """A constant of the module."""
    left = node.child_by_field_name("left")
    if left is not None and left.type == "identifier" and left.text is not None:
        name = left.text.decode("utf-8", "replace")
        found.append(Definition(name, node.start_point[0], node.end_point[0] + 1))
