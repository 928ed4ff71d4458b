"""Every error that a person, a file, a model or a client can cause.

    CompletiondError                 internal
    ├── ConfigError                  config           a key or value in TOML, environment, flags
    ├── ModelError                   model
    │   ├── UnknownModel             unknown_model    a name that is in no registry and no directory
    │   ├── ModelMissing             model_missing    known, but not in the cache
    │   ├── ModelCorrupt             model_corrupt    truncated, wrong checksum, unreadable
    │   ├── ModelUnsupported         model_unsupported  pickle, unknown architecture, bad template
    │   ├── DraftMismatch            draft_mismatch   a draft of another vocabulary
    │   ├── DownloadError            download         no network, a part that is not there
    │   └── CacheError               cache            full disk, read-only cache
    ├── DeviceError                  device           a GPU that does not exist, no memory on it
    ├── ProtocolError                protocol         malformed, unknown tag, invalid field
    │   ├── VersionError             version          a protocol version we do not speak
    │   └── TooLarge                 too_large        over a limit of the wire
    ├── TransportError               transport
    │   ├── EndpointInUse            endpoint_in_use  another daemon holds it
    │   └── NoDaemon                 no_daemon        nobody answers at the endpoint
    ├── RecordError                  record           a store that cannot be read
    ├── RequestError                 request          a cursor outside the file, an unreadable file
    └── EngineError                  engine
        ├── EngineLoading            loading          the model is not ready yet
        ├── EngineDied               engine_died      the process ended; it is being restarted
        └── Overloaded               overloaded       no room in the queue or in the KV budget

The message is one clear sentence that says what to do. `code` is what travels on the wire.
"""

from typing import ClassVar


class CompletiondError(Exception):
    code: ClassVar[str] = "internal"


class ConfigError(CompletiondError):
    code = "config"


class ModelError(CompletiondError):
    code = "model"


class UnknownModel(ModelError):
    code = "unknown_model"


class ModelMissing(ModelError):
    code = "model_missing"


class ModelCorrupt(ModelError):
    code = "model_corrupt"


class ModelUnsupported(ModelError):
    code = "model_unsupported"


class DraftMismatch(ModelError):
    code = "draft_mismatch"


class DownloadError(ModelError):
    code = "download"


class CacheError(ModelError):
    code = "cache"


class DeviceError(CompletiondError):
    code = "device"


class ProtocolError(CompletiondError):
    code = "protocol"


class VersionError(ProtocolError):
    code = "version"


class TooLarge(ProtocolError):
    code = "too_large"


class TransportError(CompletiondError):
    code = "transport"


class EndpointInUse(TransportError):
    code = "endpoint_in_use"


class NoDaemon(TransportError):
    code = "no_daemon"


class RecordError(CompletiondError):
    code = "record"


class RequestError(CompletiondError):
    code = "request"


class EngineError(CompletiondError):
    code = "engine"


class EngineLoading(EngineError):
    code = "loading"


class EngineDied(EngineError):
    code = "engine_died"


class Overloaded(EngineError):
    code = "overloaded"


def _tree(root: type[CompletiondError]) -> dict[str, type[CompletiondError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


BY_CODE = _tree(CompletiondError)


def from_code(code: str, message: str) -> CompletiondError:
    """The exception that a wire code stands for; an unknown code is a plain CompletiondError."""
    return BY_CODE.get(code, CompletiondError)(message)
