"""A person who asks in a terminal while the model is loaded waits, and is no key until then."""

import asyncio
from pathlib import Path

from fake_daemon import FakeDaemon

from completiond.client import Client, complete_message
from completiond.commands.complete import Patient
from completiond.core import Snapshot
from completiond.protocol import messages as m


async def test_one_who_waits_for_a_model_asks_once(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/d.sock"
    here = Snapshot.around("a = ", 4, document="d", version=1, language="python", path="a.py")
    with FakeDaemon(endpoint, lambda _: ["1"]) as daemon:
        daemon.state = "loading"
        async with Client(endpoint, client="test", version="1") as client:
            patient = Patient(client)
            answer = asyncio.create_task(patient.complete(complete_message(here, 1)))
            while len(daemon.of(m.AskStatus)) < 3:
                await asyncio.sleep(0.02)
            assert daemon.completes == []
            daemon.state = "ready"
            assert (await answer).candidates[0].text == "1"
            assert len(daemon.completes) == 1
