"""What this process holds of the machine, and what is left of it: memory and open files.

Knows nothing of ours.
"""

import ctypes
import mmap
import os
import resource
import sys

MANY_FILES = 65_536
LARGE_BLOCK = 32 << 20
"""Bytes from which on a block is mapped on its own; glibc takes no more than this."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def anonymous_bytes() -> int:
    """Resident memory that no file backs; 0 where /proc does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGESIZE")


def free_bytes() -> int:
    """Memory that a process may still take, of the machine and of its group; 0 if unknown."""
    free = 0
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    free = int(line.split()[1]) << 10
    except OSError:
        return 0
    group = _group_bytes()
    return free if group is None else min(free, group)


def _group_bytes() -> int | None:
    """What the control group of this process leaves it; None where it sets no limit."""
    numbers = []
    for name in ("max", "current"):
        try:
            with open(f"/sys/fs/cgroup/memory.{name}", encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            return None
        if text == "max":
            return None
        numbers.append(int(text))
    return max(0, numbers[0] - numbers[1])


def return_free_memory() -> None:
    """Give freed small blocks back: glibc keeps them otherwise, and they count as resident."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def keep_freed_blocks() -> None:
    """Let what a pass frees serve the next one: glibc would return large blocks each time, and the
    kernel would have to clear them again."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
            mallopt(_M_TRIM_THRESHOLD, 4 * LARGE_BLOCK)


def forget_mapped(address: int, size: int) -> None:
    """Let go of a mapped file's pages that nobody wrote to; what is needed is read again."""
    if sys.platform == "linux":
        page = os.sysconf("SC_PAGESIZE")
        start = -(-address // page) * page
        length = (address + size - start) // page * page
        if length > 0:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


def allow_many_files() -> None:
    """Raise the soft limit of open files as far as the hard one lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
