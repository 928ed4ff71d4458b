"""What followed the end of the text wherever it stood before: as a tree, with chances.

Searches the run's own logical text (both sides of the cursor, other files of the prompt) and what
the client's other texts said: documents handed to `feed`, its last answers. All state belongs to
one client and is bounded. After suffix decoding (Oliaro et al., arXiv:2411.04975), with chained
n-grams instead of a suffix tree.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence

import numpy as np

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext, committed
from completiond.drafters.branching import Found, grow
from completiond.drafters.corpus import Corpus
from completiond.drafters.ngrams import LONGEST, Chains, Tail
from completiond.drafters.text import BOUNDARY, RunText, RunTexts
from completiond.drafters.words import Speller, half_typed, rest_of, spelled_out

CORPUS_TOKENS = 200_000
"""Per client; 64 bytes each at most with the gaps of old versions, 128 while these are closed."""
CLIENTS, BUFFERS, ANSWERS = 8, 8, 64
"""Clients, buffers of each and last answers of each whose text is kept."""
GONE = 64
"""Clients that were forgotten last: their runs may end later, and are not remembered."""
ANSWER_LEAD = LONGEST
"""Tokens in front of an answer that are kept with it, so that its beginning can be found."""


class _Buffer:
    """The logical text of a buffer's last run, chained; the next one keeps what is the same."""

    def __init__(self) -> None:
        self.chains = Chains()
        self.run: RunText | None = None
        self.head = -1

    def follow(self, run: RunText) -> None:
        text = run.now()
        if run is not self.run:
            self.run, self.head = run, run.head
            held = np.array(self.chains.tokens[: len(text)], np.int32)
            differs = np.flatnonzero(held != text[: len(held)])
            self.chains.cut(int(differs[0]) if len(differs) else len(held))
        self.chains.extend(text[len(self.chains) :].tolist())

    def tail(self) -> Tail:
        """The end of the text that goes on."""
        end = self.chains.tokens[-LONGEST:].tolist()
        if BOUNDARY in end:
            end = end[len(end) - end[::-1].index(BOUNDARY) :]
        return Tail.of(end)


class _Client:
    def __init__(self, limit: int, controls: Collection[int]) -> None:
        self.corpus = Corpus(limit, controls)
        self.buffers: OrderedDict[str, _Buffer] = OrderedDict()
        self.answers = 0

    @property
    def bytes(self) -> int:
        return self.corpus.bytes + sum(b.chains.bytes for b in self.buffers.values())

    def buffer(self, name: str) -> _Buffer:
        held = self.buffers.get(name)
        if held is None:
            held = self.buffers[name] = _Buffer()
            if len(self.buffers) > BUFFERS:
                self.buffers.popitem(last=False)
        else:
            self.buffers.move_to_end(name)
        return held

    def remember(self, ids: Sequence[int]) -> None:
        """Keep an answer; only the last ANSWERS are kept."""
        self.corpus.put(f"\0answer {self.answers % ANSWERS}", ids)
        self.answers += 1


class Suffix:
    name = "suffix"

    def __init__(
        self,
        speller: Speller | None = None,
        controls: Collection[int] = (),
        limit: int = CORPUS_TOKENS,
    ) -> None:
        """Without a `speller`, nothing is drafted until a half-typed word is spelled."""
        self._speller = speller
        self._controls = frozenset(controls)
        self._limit = limit
        self._texts = RunTexts()
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._gone: OrderedDict[str, None] = OrderedDict()

    @property
    def bytes(self) -> int:
        return sum(client.bytes for client in self._clients.values())

    def feed(self, client: str, document: str, ids: Sequence[int]) -> None:
        """Draft for `client` from this text too, in place of an earlier version of it."""
        self._client(client).corpus.put(document, ids)

    def forget(self, client: str, document: str | None = None) -> None:
        """Drop one document, or all that is known of a client."""
        if document is None:
            self._clients.pop(client, None)
            self._gone[client] = None
            if len(self._gone) > GONE:
                self._gone.popitem(last=False)
        elif client in self._clients:
            self._clients[client].corpus.forget(document)

    def propose(self, context: DraftContext, budget: int) -> Draft:
        if budget < 1:
            return NO_DRAFT
        client = self._client(context.client)
        buffer = client.buffer(context.buffer)
        buffer.follow(self._texts.run(context))
        found = self._found(context, buffer, client.corpus.chains)
        return grow(found, budget, self.name, context.stop_ids) if found else NO_DRAFT

    def _found(self, context: DraftContext, buffer: _Buffer, corpus: Chains) -> list[Found]:
        """Places where the text may go on, in the buffer and in the corpus."""
        own, tail, found = buffer.chains, buffer.tail(), list[Found]()
        speller, generated = self._speller, context.generated
        if context.healed:
            healed = context.healed.encode("utf-8", "replace")
            if speller is None:
                return []
            rest = rest_of(healed, generated, speller)
            if rest:
                for store in (own, corpus):
                    found += half_typed(store, tail, rest, speller, begun=bool(generated))
                return found if generated else found + spelled_out(rest, speller)
        if tail.back:
            for store in (own, corpus):
                tokens = store.tokens
                found += [(tokens, at, length) for at, length in store.places(tail)]
        if buffer.head >= 0:
            found.append((own.tokens, buffer.head, 0))  # the text behind the cursor may be next
        return found

    def observe(self, context: DraftContext, step: Step) -> None:
        """Once a run is over, its answer is a text of the client, if that is not forgotten."""
        if not step.reason:
            return
        run = self._texts.run(context)
        text = run.now().tolist()
        self._texts.forget(context)
        if context.client in self._gone:
            return  # the run was ended after its client
        client = self._client(context.client)
        answer = [*text, *([] if committed(context, step) else step.ids)]
        length = len(answer) - len(text) + len(context.generated)
        ends = set(context.stop_ids)
        kept = answer[max(0, len(answer) - length - ANSWER_LEAD) :]
        client.remember([token for token in kept if token not in ends])

    def _client(self, name: str) -> _Client:
        self._gone.pop(name, None)
        held = self._clients.get(name)
        if held is None:
            held = self._clients[name] = _Client(self._limit, self._controls)
            if len(self._clients) > CLIENTS:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(name)
        return held
