from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Final, Protocol, TypedDict, final, overload

ALIGNMENT: Final[int]
__version__: Final[str]

class ProgramStatistics(TypedDict):
    name: str
    leases: int
    high_water: int

class Statistics(TypedDict):
    platform: str
    device: int
    size: int
    cap: int | None
    growths: int
    reserved: int
    hits: int
    misses: int
    leases: int
    high_water: int
    cross_stream_waits: int
    waits: int
    waited: float
    guard_violations: int
    programs: list[ProgramStatistics]

class _WithPtr(Protocol):
    @property
    def ptr(self) -> int: ...

class _WithCudaStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

class _CudaStreamProtocol(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

type StreamLike = Stream | _WithPtr | _WithCudaStream | _CudaStreamProtocol | int

class _Memory:
    @property
    def nbytes(self) -> int: ...
    @property
    def ptr(self) -> int: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class BackendConfig:
    def __new__(
        cls,
        *,
        config_file: str | PathLike[str] | None = None,
        environment: bool = False,
        workspace_size: int | str | None = None,
        size_check: str | None = None,
        workspace_cap: int | str | None = None,
        guard: bool | str | None = None,
        prefault: bool | str | None = None,
        lock: bool | str | None = None,
        platform: str | None = None,
        device: int | str | None = None,
    ) -> BackendConfig: ...
    @property
    def workspace_size(self) -> int | None: ...
    @property
    def platform(self) -> str | None: ...
    def device_for(self, count: int) -> int: ...
    def entries(self) -> list[tuple[str, str, str]]: ...

@final
class Stream:
    @property
    def platform(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def ptr(self) -> int: ...
    def synchronize(self) -> None: ...

@final
class Lease(_Memory):
    def __enter__(self) -> Lease: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    @property
    def stream(self) -> int: ...
    @property
    def held(self) -> bool: ...
    def synchronize(self) -> None: ...

@final
class Reservation(_Memory):
    @property
    def name(self) -> str: ...

@final
class Workspace(_Memory):
    @property
    def platform(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def cap(self) -> int | None: ...
    @property
    def leased_here(self) -> bool: ...
    def lease(
        self,
        stream: StreamLike | None = None,
        *,
        timeout: float | None = None,
        program: str | None = None,
    ) -> Lease: ...
    def reserve(self, name: str, size: int) -> Reservation: ...
    def grow(self, size: int) -> None: ...
    def statistics(self) -> Statistics: ...
    def __len__(self) -> int: ...

@final
class ExternalWorkspaceAllocator:
    def __new__(cls, platform: str | None = None) -> ExternalWorkspaceAllocator: ...
    @property
    def platform(self) -> str: ...
    @property
    def device_count(self) -> int: ...
    @overload
    def allocate(
        self,
        device: int,
        size: int | str | BackendConfig,
        *,
        size_check: str | None = None,
        cap: int | str | None = None,
    ) -> Workspace: ...
    @overload
    def allocate(
        self,
        device: Sequence[int],
        size: int | str | BackendConfig,
        *,
        size_check: str | None = None,
        cap: int | str | None = None,
    ) -> list[Workspace]: ...
    def release(self, device: int) -> None: ...
    def create_stream(self, device: int) -> Stream: ...
    def statistics(self) -> list[Statistics]: ...

def backend_config_from_env() -> BackendConfig | None: ...
def parse_size(text: str) -> int: ...
def plan(
    buffers: Sequence[tuple[int, int, int]], alignment: int = ...
) -> tuple[list[int], int, int]: ...
