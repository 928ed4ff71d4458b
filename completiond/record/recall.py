"""One request as the record has it, for whoever asks why: the facts of the wire's `why`."""

from typing import Any

from completiond.record import place, queries
from completiond.record.facts import facts_of
from completiond.record.queries import reading
from completiond.record.wall import now_ms


def recalled(request: int) -> dict[str, Any]:
    """What the record says of it, 0: of the newest; {} if it is not there. Raises RecordError."""
    store = place.newest(place.directory())
    if store is None:
        return {}
    with reading(store) as db:
        key = queries.of_request(db, request)
        if key is None:
            return {}
        return facts_of(key, queries.drafts(db, key.key), now_ms())
