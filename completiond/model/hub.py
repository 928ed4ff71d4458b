"""Repositories of the model hub: what of them is here, and fetching them when asked to.

The one place that talks to huggingface_hub, imported only when a hub id is named. Everything but
`download` stays off the network. Does not know what a repository's files mean.
"""

import re
from pathlib import Path
from typing import Any

from completiond.errors import (
    DownloadError,
    ModelCorrupt,
    ModelMissing,
    ModelUnsupported,
)
from completiond.model import registry
from completiond.model.fetch import cache_errors, file_sha256

PATTERNS = ["*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json"]
PATTERNS += ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
"""Weights without code, description, tokenizer; never pickles or Python files."""

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_id(name: str) -> bool:
    """Whether a name has the form OWNER/NAME."""
    return bool(_ID.fullmatch(name)) and not name.endswith(".gguf")


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError as exc:
        raise ModelUnsupported(
            "Models of a hub need huggingface_hub; install `completiond[serve]`."
        ) from exc
    return huggingface_hub


def _cache(client: Any) -> Path:
    return Path(client.constants.HF_HUB_CACHE)


def local(name: str) -> Path:
    """The snapshot of a hub id in the local hub cache; ModelMissing if it was not pulled whole.

    The patterns are those of the download: the client calls a snapshot without the rest cut short.
    """
    client = _client()
    try:
        found = client.snapshot_download(
            name, cache_dir=_cache(client), allow_patterns=PATTERNS, local_files_only=True
        )
    except (client.errors.LocalEntryNotFoundError, client.errors.HFValidationError) as exc:
        raise ModelMissing(
            f"`{name}` is not in the hub cache; run `completiond models pull {name}`."
        ) from exc
    return Path(found)


def local_ids() -> list[str]:
    """The model repositories in the local hub cache; none where there is no hub client."""
    try:
        client = _client()
        found = client.scan_cache_dir(_cache(client)).repos
    except ModelUnsupported:
        return []
    except client.errors.CacheNotFound:
        return []
    return sorted(repo.repo_id for repo in found if repo.repo_type == "model")


def download(name: str) -> None:
    """Fetch a repository's safetensors, description and tokenizer into the hub cache; resumes."""
    client = _client()
    errors = client.errors
    with cache_errors(_cache(client)):
        try:
            client.snapshot_download(name, cache_dir=_cache(client), allow_patterns=PATTERNS)
        except errors.GatedRepoError as exc:
            raise DownloadError(
                f"`{name}` wants its licence accepted on its page, and then `hf auth login`."
            ) from exc
        except errors.RepositoryNotFoundError as exc:
            raise registry.unknown(name) from exc
        except errors.HfHubHTTPError as exc:
            raise DownloadError(f"The hub did not give `{name}`: {_first_line(exc)}") from exc
        except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as exc:
            raise DownloadError(
                f"The hub cannot be reached to fetch `{name}`; check the network and pull again."
            ) from exc
        except errors.HTTPError as exc:  # the base of what the hub client's transport raises
            raise DownloadError(
                f"The connection to the hub broke while fetching `{name}` ({_first_line(exc)}); "
                "pull again: what is there is kept."
            ) from exc


def _first_line(exc: Exception) -> str:
    return (str(exc).splitlines() or [type(exc).__name__])[0]


def verify(directory: Path) -> None:
    """Large files of the hub cache are named by their checksum; ModelCorrupt where it is wrong."""
    for file in directory.glob("*.safetensors"):
        blob = file.resolve()
        if re.fullmatch("[0-9a-f]{64}", blob.name) and file_sha256(blob) != blob.name:
            raise ModelCorrupt(
                f"{file} has the wrong checksum; remove the model and pull it again."
            )


def remove(name: str) -> int:
    """Delete every revision of a repository from the hub cache; the bytes freed."""
    client = _client()
    if name not in local_ids():
        raise ModelMissing(f"Nothing of `{name}` is in the hub cache; there is nothing to remove.")
    cache = client.scan_cache_dir(_cache(client))
    revisions = [
        revision.commit_hash
        for repo in cache.repos
        if repo.repo_id == name and repo.repo_type == "model"
        for revision in repo.revisions
    ]
    with cache_errors(_cache(client)):
        strategy = cache.delete_revisions(*revisions)
        strategy.execute()
    return int(strategy.expected_freed_size)
