"""The language server with its traffic written down: `python tap.py FILE ARGUMENTS`.

Each line of FILE is one message as it passed, with `>` from the editor or `<` from the server.
"""

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

READ = 1 << 16


def copy(source: IO[bytes], target: IO[bytes], mark: bytes, log: IO[bytes]) -> None:
    """Pass on what comes, at once, and write down whole messages."""
    waiting = b""
    while data := source.read1(READ):  # type: ignore[attr-defined]
        target.write(data)
        target.flush()
        waiting += data
        while (cut := waiting.find(b"\r\n\r\n")) >= 0:
            size = int(waiting[:cut].lower().split(b"content-length:")[1].split(b"\r\n")[0])
            if len(waiting) < cut + 4 + size:
                break
            log.write(mark + waiting[cut + 4 : cut + 4 + size] + b"\n")
            waiting = waiting[cut + 4 + size :]
    target.close()


def main() -> None:
    command = [sys.executable, "-m", "completiond_lsp.server", *sys.argv[2:]]
    pipe = subprocess.PIPE
    with (
        Path(sys.argv[1]).open("ab", buffering=0) as log,
        subprocess.Popen(command, stdin=pipe, stdout=pipe) as server,
    ):
        assert server.stdin is not None and server.stdout is not None
        back = (server.stdout, sys.stdout.buffer, b"<", log)
        threading.Thread(target=copy, args=back).start()
        copy(sys.stdin.buffer, server.stdin, b">", log)


if __name__ == "__main__":
    main()
