"""One preallocated workspace per device, shared safely by every program in the process.

>>> import workslab
>>> allocator = workslab.ExternalWorkspaceAllocator("host")
>>> workspace = allocator.allocate(0, "1MiB")
>>> with workspace.lease() as lease:
...     lease.nbytes
1048576

``workslab.gt4py`` and ``workslab.dace`` use it for compiled programs.
"""

from typing import Any

from ._workslab import (
    ALIGNMENT,
    BackendConfig,
    ExternalWorkspaceAllocator,
    Lease,
    Reservation,
    Stream,
    Workspace,
    __version__,
    backend_config_from_env,
    parse_size,
)

__all__ = [
    "ALIGNMENT",
    "BackendConfig",
    "ExternalWorkspaceAllocator",
    "Lease",
    "Reservation",
    "Stream",
    "Workspace",
    "__version__",
    "backend_config_from_env",
    "parse_size",
]


def _unpickle_config(values: dict[str, Any]) -> BackendConfig:
    return BackendConfig(**values)
