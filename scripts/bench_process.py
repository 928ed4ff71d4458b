"""What the system says of a process: its child, its time, its memory."""

import os
from pathlib import Path


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def cpu_s(pid: int | str = "self") -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def anonymous_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    wanted = [line.split()[1] for line in lines if line.startswith(("RssAnon:", "VmSwap:"))]
    return round(sum(map(int, wanted)) / 1024, 1)


def resident_mb(pid: int | str = "self") -> int:
    """Shared pages of files included."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) >> 10
