"""Answers as LSP's items: ghost text, or one item of the popup where no ghost text is drawn.

Knows LSP's types; what the text is and where it belongs it is told.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from lsprotocol import types

from completiond_lsp.buffers import Item
from completiond_lsp.documents import Encoding, units

ACCEPT = "completiond.accept"
FALLBACK = types.CompletionOptions(trigger_characters=[".", "(", "=", " "])


def inline_items(items: Sequence[Item]) -> list[types.InlineCompletionItem]:
    """For the editor to draw at the cursor. A list, never null: Neovim keeps its ghost at null."""
    return [
        types.InlineCompletionItem(
            insert_text=item.text,
            range=types.Range(types.Position(*item.start), types.Position(*item.end)),
            command=_accepted(item),
        )
        for item in items
    ]


def needs_fallback(capabilities: Any) -> bool:
    """Whether raw client capabilities lack inline completion; some say null and mean yes."""
    document = capabilities.get("textDocument") if isinstance(capabilities, dict) else None
    return not isinstance(document, dict) or "inlineCompletion" not in document


class Place(NamedTuple):
    """A document as edits are addressed to it."""

    uri: str
    version: int
    line_end: str


def edit_of(
    item: Item, place: Place, capabilities: types.ClientCapabilities
) -> types.WorkspaceEdit:
    """The item as a change of the document; of that version only, if the editor can tell."""
    span = types.Range(types.Position(*item.start), types.Position(*item.end))
    edit = types.TextEdit(span, item.text.replace("\n", place.line_end))
    workspace = capabilities.workspace
    if workspace and workspace.workspace_edit and workspace.workspace_edit.document_changes:
        at = types.OptionalVersionedTextDocumentIdentifier(place.uri, place.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(at, [edit])])
    return types.WorkspaceEdit(changes={place.uri: [edit]})


def completion_list(items: Sequence[Item], encoding: Encoding) -> types.CompletionList:
    """Incomplete, so that the editor asks again at the next key instead of filtering."""
    found = [_completion_item(item, encoding) for item in items[:1]]
    return types.CompletionList(is_incomplete=True, items=found)


def _completion_item(item: Item, encoding: Encoding) -> types.CompletionItem:
    """It replaces the word in front of the cursor, which is how the popup's filter keeps it."""
    word = _last_word(item.line)
    start = types.Position(item.start.line, item.start.character - units(word, encoding))
    return types.CompletionItem(
        label=(word + item.text).strip().split("\n")[0] or "↵",
        kind=types.CompletionItemKind.Text,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, _fenced(word + item.text)),
        filter_text=word,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(types.Range(start, types.Position(*item.end)), word + item.text),
        command=_accepted(item),
    )


def _accepted(item: Item) -> types.Command:
    """What the editor runs when a person takes the item."""
    return types.Command(title="accepted", command=ACCEPT, arguments=[item.id, item.text])


def _last_word(line: str) -> str:
    found = re.search(r"\w+\Z", line)
    return found.group() if found else ""


def _fenced(text: str) -> str:
    """A code block; its fence is longer than any in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
