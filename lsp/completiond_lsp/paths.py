"""From a document's URI to the path that the daemon is told. Knows URIs; reads no files."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

_DRIVE = re.compile(r"/[A-Za-z]:(/|$)")


def relative_path(uri: str, folders: Iterable[str]) -> str:
    """The path relative to the workspace folder that holds it, or else the file's name.

    Never an absolute path and never a URI: it becomes a part of the prompt.
    """
    path = uri_path(uri)
    inside = [
        str(PurePosixPath(path).relative_to(folder))
        for folder in map(uri_path, folders)
        if folder and PurePosixPath(path).is_relative_to(folder)
    ]
    return min(inside, key=len) if inside else PurePosixPath(path).name


def uri_path(uri: str) -> str:
    """The decoded path of any URI; `/C:/x` of a Windows file URI is `c:/x`, as editors differ in
    how they write a drive."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        return ""
    path = path.replace("\\", "/")
    path = normpath(path) if path else ""  # `%2e%2e` leads out of a folder too
    return path[1].lower() + path[2:] if _DRIVE.match(path) else path
