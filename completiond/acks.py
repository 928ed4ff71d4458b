"""Acknowledgements of cancels: who is owed one, and what it says when the device is free.

Knows flights and how a message is sent; decides nothing about runs.
"""

from collections.abc import Callable

from completiond.core import Outcome
from completiond.flight import Flight
from completiond.protocol import messages as m


class Acks:
    """Each cancel of a run is acknowledged once: when it is over, or another request took it."""

    def __init__(self, send: Callable[[bytes, m.Cancelled], None]) -> None:
        self._send = send
        self._owed: dict[Flight, list[tuple[bytes, int]]] = {}

    def owe(self, flight: Flight, client: bytes, ident: int) -> None:
        if flight not in self._owed:
            self._owed[flight] = []
            flight.run.when_over(lambda outcome: self.tell(flight, outcome))
        self._owed[flight].append((client, ident))

    def find(self, client: bytes, ident: int) -> Flight | None:
        """The run that a cancelled request waits to be free of."""
        owed = ((flight, who) for flight, who in self._owed.items() if (client, ident) in who)
        return next((flight for flight, _ in owed), None)

    def tell(self, flight: Flight, outcome: Outcome | None) -> None:
        """The device is free of the run, or (no outcome) works on it for another request."""
        was: m.CancelWas = "queued" if outcome and not outcome.passes else "running"
        done = outcome or Outcome()
        free_ms = done.cancel_to_free_ns / 1e6
        for client, ident in self._owed.pop(flight, ()):
            cost = done.tokens_after_cancel, free_ms, done.passes, done.prefilled
            self._send(client, m.Cancelled(ident, was, *cost))
