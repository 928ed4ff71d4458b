"""A llama-server process and its /infill, asked with llama.vim's numbers (2026-01-31, a1c8e6e).

The samplers are llama.vim's with `temperature` 0 behind them, so that a replay is the same twice;
its ring of chunks of other places stays empty in a replay, as our side sends none either.
"""

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from replay_llama_text import Local

from completiond.errors import EngineDied, ModelMissing

MOST_TOKENS = 128
PROMPT_MS = 500
READY_S = 120.0
ANSWER_S = 900.0
"""A machine that does other things too may need this for one long prompt."""
FLAGS = ("-c", "8192", "-b", "1024", "-ub", "1024", "-np", "1", "--cache-reuse", "256")
"""What llama.vim's README and llama.cpp's own FIM presets start it with, on a machine like this."""


FOREVER = -1
"""No limit of time: what it says does not depend on what else the machine does."""


class Extra(Protocol):
    """A piece of another file."""

    @property
    def path(self) -> str: ...
    @property
    def text(self) -> str: ...


class Reply(NamedTuple):
    text: str
    prefilled: int
    decoded: int = 0


class Server(NamedTuple):
    """A llama-server process."""

    pid: int
    port: int

    def infill(
        self,
        here: Local,
        predict_ms: int,
        *,
        extra: Sequence[Extra] = (),
        most: int = MOST_TOKENS,
        prompt_ms: int = PROMPT_MS,
    ) -> Reply:
        request = {
            "id_slot": 0,
            "input_prefix": here.prefix,
            "input_suffix": here.suffix,
            "input_extra": [{"filename": one.path, "text": one.text} for one in extra],
            "prompt": here.middle,
            "n_predict": most,
            "stop": [],
            "n_indent": here.indent,
            "top_k": 40,
            "top_p": 0.90,
            "samplers": ["top_k", "top_p", "infill", "temperature"],
            "temperature": 0.0,
            "stream": False,
            "cache_prompt": True,
            "t_max_prompt_ms": prompt_ms,
            "t_max_predict_ms": predict_ms,
        }
        reply = self._post("/infill", request)
        timings = reply.get("timings", {})
        return Reply(
            str(reply.get("content", "")),
            int(timings.get("prompt_n", 0)),
            int(timings.get("predicted_n", 0)),
        )

    def complete(self, ids: Sequence[int], tokens: int) -> dict[str, Any]:
        """Greedy, behind these very ids, as many tokens as are asked for whatever they say."""
        request = {
            "prompt": list(ids),
            "n_predict": tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": True,
            "return_tokens": True,
        }
        return self._post("/completion", request)

    def ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            data = json.dumps(body)
            connection.request("POST", path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise EngineDied(
                    f"llama-server refused a request ({answer.status}: {text[:200]!r})."
                )
            reply: dict[str, Any] = json.loads(text)
            return reply
        except (OSError, ValueError, http.client.HTTPException) as exc:
            raise EngineDied(f"llama-server does not answer ({exc!r}); start it by hand.") from exc
        finally:
            connection.close()


@contextmanager
def server(
    binaries: Path, model: Path, threads: int = 2, flags: Sequence[str] = FLAGS
) -> Iterator[Server]:
    """llama-server on a free port of this machine, until it is ready. Raises what is missing."""
    program = binaries / "llama-server"
    for path in (program, model):
        if not path.is_file():
            raise ModelMissing(f"There is no file {path}; see --llama-bin and --gguf.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-t", str(threads), "--no-webui", *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    here = Server(process.pid, port)
    try:
        deadline = time.monotonic() + READY_S
        while not here.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise EngineDied("llama-server did not become ready; try its command by hand.")
            time.sleep(0.2)
        yield here
    finally:
        process.terminate()
        process.wait(READY_S)
