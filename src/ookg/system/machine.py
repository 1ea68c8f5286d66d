"""What a result or a model says about the machine that made it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ookg.version import __version__

if TYPE_CHECKING:
    import torch

# How wide a loop is compiled, and whether it multiplies and adds at once, decides how sums are rounded.
ROUNDING_FEATURES = ("avx512f", "avx2", "avx", "fma", "sve2", "sve", "neon")


def device_name(device: torch.device) -> str:
    """`NVIDIA H200`, or `CPU (x86_64, 2 threads)`."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU ({platform.machine()}, {torch.get_num_threads()} threads)"


def processor(device: torch.device) -> str:
    """What the last bit of a training may depend on: `NVIDIA H200`, or `znver4 (avx512f, avx2, avx, fma)`."""
    if device.type == "cuda":
        return device_name(device)
    try:
        from llvmlite import binding
    except ImportError:  # it comes with Numba, which compiles the kernels
        return platform.machine()
    features = binding.get_host_cpu_features()
    return f"{binding.get_host_cpu_name()} ({', '.join(name for name in ROUNDING_FEATURES if features.get(name))})"


def free_memory(device: torch.device) -> int | None:
    """Bytes of memory that a process can still take, of a GPU or of the machine; None where the system does not say."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    free = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")))
    # A container may have less than the machine.
    for folder, most, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):  # ValueError: "max" is no number, as there is no limit
            limit = int(Path(folder, most).read_text(encoding="ascii"))
            cached = 0
            for line in Path(folder, "memory.stat").read_text(encoding="ascii").splitlines():
                name, _, value = line.partition(" ")
                cached += int(value) if name in ("inactive_file", "active_file") else 0
            free.append(limit - int(Path(folder, used).read_text(encoding="ascii")) + cached)
    if not free:
        with suppress(AttributeError, OSError, ValueError):  # a system without /proc
            free.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return max(0, min(free)) if free else None


def is_gpu(device: str) -> bool:
    """Whether a device's name is that of a GPU."""
    return not device.startswith("CPU")


def versions(device: torch.device) -> dict[str, str]:
    """The versions that figures may depend on: of the package, Python, PyTorch and what compiles the kernels."""
    by_name = {"ookg": __version__, "python": platform.python_version()}
    for name in ("torch", "triton" if device.type == "cuda" else "numba"):
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            continue
    return by_name


def lacks_memory(error: Exception) -> bool:
    """Whether an error says that there is not enough memory: PyTorch has no class of its own for it on a CPU."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        words in text for words in ("allocate", "out of memory", "storage size")
    )
