"""What an editor can ask for by name, beside completions. Knows LSP's commands and code actions.

They take any number of arguments: pygls refuses a call with less than a handler names.
"""

from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from completiond_lsp import items
from completiond_lsp import params as read
from completiond_lsp import why as told
from completiond_lsp.editor import Server

COMPLETE_HERE = "completiond.completeHere"
RESTART = "completiond.restart"
WHY = "completiond.why"
DASHBOARD = "completiond.dashboard"
PULL = "completiond.pullModel"
KIND = "refactor.inline.completiond"
LONGEST_NAME = 200
LAST = 2**31 - 1
"""No line or character of LSP is larger."""


def accept(ls: Server, *given: Any) -> None:
    """`[id, acceptedText?]`: the person took the item, or that much of it."""
    ident, text = (*given, None, None)[:2]
    if type(ident) is not int:
        raise JsonRpcInvalidParams("The first argument must be the number of an item.")
    ls.bridge.ledger.accepted(ident, text if isinstance(text, str) else "")


async def complete_here(ls: Server, *given: Any) -> dict[str, Any]:
    """`[{textDocument, position}]`: ask, and have the answer put in; `{applied, message?}`."""
    request = read.here(given[0] if given else None)
    found = await ls.bridge.complete(request)
    if not found:
        last = ls.bridge.standing.now().get("last", {})
        return {"applied": False, "message": last.get("reason", "There is nothing to suggest.")}
    edit = items.edit_of(found[0], ls.bridge.place(request.uri), ls.client_capabilities)
    applied = await ls.apply(edit)
    if applied:
        ls.bridge.ledger.accepted(found[0].id, found[0].text)
    return {"applied": applied}


def code_action(ls: Server, params: Any) -> list[types.CodeAction]:
    """One that a person can choose where the editor draws no ghost text; asks nobody."""
    at = read.action_request(params)
    only = at.only or (() if at.automatic else (KIND,))
    if not any(KIND == kind or KIND.startswith(f"{kind}.") for kind in only):
        return []
    place = at.start if "helix" in ls.client_name else at.end  # its range covers a character
    position = types.Position(*(min(each, LAST) for each in place))
    where = {"textDocument": {"uri": at.uri}, "position": position}
    command = types.Command("Complete here", COMPLETE_HERE, arguments=[where])
    return [types.CodeAction("Complete here", kind=KIND, command=command)]


def restart(ls: Server, *_: Any) -> None:
    """`[]`: end the connection and see to a daemon again."""
    ls.bridge.restart()


async def why(ls: Server, *given: Any) -> dict[str, str]:
    """`[id | "last"]`: what `completiond why` prints, as `{text}`."""
    request: Any = given[0] if given else "last"
    if request != "last" and (type(request) is not int or not 0 <= request < 1 << 63):
        raise JsonRpcInvalidParams('The argument must be the number of a request, or "last".')
    return {"text": "\n".join(await told.why(ls.bridge, request))}


async def dashboard(ls: Server, *_: Any) -> dict[str, str]:
    """`[]`: the page's `{url}`, once it is served, or `{message}`: why there is none."""
    url, message = await ls.dashboard.link(ls.bridge.link.target.endpoint)
    return {"url": url} if url else {"message": message}


async def pull_model(ls: Server, *given: Any) -> dict[str, str]:
    """`[name?]`: fetch a model, the configured one if none is named; `{text}` says what came."""
    model = given[0] if given else ""
    if not isinstance(model, str) or not model.isprintable() or len(model) > LONGEST_NAME:
        raise JsonRpcInvalidParams("The argument must be the name of a model.")
    text = await ls.puller.pull(model)
    ls.bridge.restart()
    return {"text": text}


ALL: dict[str, Callable[..., Any]] = {
    items.ACCEPT: accept,
    COMPLETE_HERE: complete_here,
    RESTART: restart,
    WHY: why,
    DASHBOARD: dashboard,
    PULL: pull_model,
}
