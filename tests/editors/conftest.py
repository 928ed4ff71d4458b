"""Tests in real editors need what drives them; without it they are not collected."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("playwright") else ["vscode"]
