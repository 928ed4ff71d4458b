"""What this process holds of the machine, and what is left of it: memory and open files.

Knows nothing of ours.
"""

import ctypes
import mmap
import os
import resource
import sys

LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Environment of a process that computes: weights in large pages are read a twentieth faster."""
MANY_FILES = 65_536
SMALL_BLOCK, LARGE_BLOCK = 1 << 20, 32 << 20
"""Bytes from which on a block is mapped on its own; glibc takes no more than the second."""
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
    free = _fields("/proc/meminfo").get("MemAvailable:", 0) << 10
    group = _group_bytes()
    return free if group is None else min(free, group)


def _group_bytes() -> int | None:
    """What the control group of this process leaves it; None where it sets no limit."""
    group = "/sys/fs/cgroup/memory"
    try:
        with open(f"{group}.max", encoding="ascii") as most, open(f"{group}.current") as now:
            limit, used = most.read().strip(), int(now.read())
    except OSError:
        return None
    if limit == "max":
        return None
    stat = _fields(f"{group}.stat")
    cached = stat.get("active_file", 0) + stat.get("inactive_file", 0)  # goes when it must
    return max(0, int(limit) - used + cached)


def _fields(path: str) -> dict[str, int]:
    """The numbers of a file of `name number` lines; none where there is no such file."""
    try:
        with open(path, encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return {}
    return {parts[0]: int(parts[1]) for parts in lines if len(parts) > 1}


def return_free_memory() -> None:
    """Give freed small blocks back: glibc keeps them otherwise, and they count as resident."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def map_blocks_apart() -> None:
    """Give every large block pages of its own, large ones: for the time in which weights are read.

    In the heaps of the threads that pack them they would get small ones.
    """
    _mallopt(_M_MMAP_THRESHOLD, SMALL_BLOCK)


def keep_freed_blocks() -> None:
    """Let what a pass frees serve the next one: glibc would return large blocks each time, and the
    kernel would have to clear them again."""
    _mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
    _mallopt(_M_TRIM_THRESHOLD, 4 * LARGE_BLOCK)


def _mallopt(option: int, value: int) -> None:
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(option, value)


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
