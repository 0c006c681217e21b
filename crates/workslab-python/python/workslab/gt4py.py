"""GT4Py programs whose transients live in a workspace.

>>> from workslab.gt4py import make_dace_backend
>>> backend = make_dace_backend(gpu=False, config=workslab.BackendConfig(workspace_size="64MiB"))  # doctest: +SKIP

Each call of a program holds a lease of the workspace, so programs of several threads and streams come one after
the other. Their transients are planned by :func:`workslab.dace.plan`: aligned, and sharing bytes.
"""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Mapping
from typing import Any, Final

import dace
from gt4py._core import definitions as core_defs
from gt4py.next.otf import workflow as otf_workflow
from gt4py.next.program_processors.runners.dace import make_dace_backend as _gt4py_backend
from gt4py.next.program_processors.runners.dace import transformations
from gt4py.next.program_processors.runners.dace.workflow import backend as dace_backend
from gt4py.next.program_processors.runners.dace.workflow import translation as dace_translation

from . import BackendConfig, ExternalWorkspaceAllocator, Workspace, backend_config_from_env
from .dace import plan

__all__ = ["TransientMemoryMode", "WorkslabBackend", "external_workspace", "make_dace_backend"]

TransientMemoryMode = transformations.TransientMemoryMode

_MODE: Final = "transient_memory_mode"


def external_workspace(
    config: BackendConfig | None = None, *, gpu: bool = False
) -> dict[core_defs.DeviceType, Workspace] | None:
    """What GT4Py's own ``make_dace_backend`` takes as ``external_workspace``: the workspace of this process's device, or
    None if neither the configuration nor the environment names a size.

    GT4Py's own backend places transients as DaCe does, and takes no lease; :func:`make_dace_backend` does both.
    """
    config = backend_config_from_env() if config is None else config
    if config is None or config.workspace_size is None:
        return None
    platform = _platform(gpu, config)
    allocator = ExternalWorkspaceAllocator(platform)
    device = config.device_for(allocator.device_count) if gpu else 0
    return {_device_type(platform): allocator.allocate(device, config)}


def make_dace_backend(
    gpu: bool = False,
    *,
    config: BackendConfig | None = None,
    plan_transients: bool = True,
    symbols: Mapping[str, int] | None = None,
    stream: Any = None,
    optimization_args: dict[str, Any] | None = None,
    **arguments: Any,
) -> Any:
    """GT4Py's DaCe backend, with the workspace that the configuration or the environment asks for.

    Without a size it is GT4Py's own backend and nothing else. With one the transients' mode is ``EXTERNAL``; any other
    is an error, as is ``EXTERNAL`` without a size. ``symbols`` are typical values for the planner; ``stream`` is the one
    that the programs run on if it is not the default stream. All else is passed on to GT4Py.
    """
    if "external_workspace" in arguments:
        raise TypeError(
            "external_workspace: the workspace is made here; call GT4Py's make_dace_backend to give one of your own"
        )
    optimization_args = dict(optimization_args or {})
    mode = optimization_args.get(_MODE)
    memory = external_workspace(config, gpu=gpu)
    if memory is None:
        if mode is TransientMemoryMode.EXTERNAL:
            raise ValueError(
                "transient_memory_mode is EXTERNAL, but there is no workspace: set ICON4PY_BACKEND_WORKSPACE_SIZE, or give a"
                " BackendConfig with a workspace_size"
            )
        return _gt4py_backend(gpu=gpu, optimization_args=optimization_args, **arguments)
    if mode not in (None, TransientMemoryMode.EXTERNAL):
        raise ValueError(
            f"transient_memory_mode is {_name(mode)}, but a workspace was configured, which takes EXTERNAL: leave the mode out,"
            " or the workspace"
        )
    if not arguments.get("auto_optimize", True):
        raise ValueError(
            "a workspace takes auto_optimize=True: GT4Py gives transients the mode EXTERNAL while it optimizes"
        )
    optimization_args[_MODE] = TransientMemoryMode.EXTERNAL
    made = _gt4py_backend(
        gpu=gpu, optimization_args=optimization_args, external_workspace=memory, **arguments
    )
    executor = made.executor
    if plan_transients:
        executor = _with_planning(executor, tuple(sorted((symbols or {}).items())))
    (workspace,) = memory.values()
    return WorkslabBackend(
        name=f"{made.name}_workslab",
        executor=executor,
        allocator=made.allocator,
        transforms=made.transforms,
        external_workspace=memory,
        workspace=workspace,
        stream=stream,
    )


def _platform(gpu: bool, config: BackendConfig) -> str:
    if not gpu:
        if config.platform not in (None, "host"):
            raise ValueError(f"the platform is {config.platform}, but the backend is for the CPU")
        return "host"
    if config.platform == "host":
        raise ValueError("the platform is host, but the backend is for a GPU")
    if config.platform is not None:
        return config.platform
    return "rocm" if core_defs.CUPY_DEVICE_TYPE is core_defs.DeviceType.ROCM else "cuda"


def _device_type(platform: str) -> core_defs.DeviceType:
    return {
        "host": core_defs.DeviceType.CPU,
        "cuda": core_defs.DeviceType.CUDA,
        "rocm": core_defs.DeviceType.ROCM,
    }[platform]


def _name(mode: Any) -> str:
    return mode.name if isinstance(mode, enum.Enum) else repr(mode)


@dataclasses.dataclass(frozen=True)
class PlannedTranslator(dace_translation.DaCeTranslator):
    """GT4Py's translation to an SDFG, with the transients planned at its end. What it makes is a plain SDFG, which GT4Py
    compiles, caches and loads like any other."""

    symbols: tuple[tuple[str, int], ...] = ()

    def _generate_sdfg_without_configuring_dace(self, *args: Any, **kwargs: Any) -> dace.SDFG:
        sdfg = super()._generate_sdfg_without_configuring_dace(*args, **kwargs)
        plan(sdfg, symbols=dict(self.symbols))
        return sdfg


def _with_planning(executor: Any, symbols: tuple[tuple[str, int], ...]) -> Any:
    """The workflow with its translation step replaced, inside of the cache if there is one."""

    def planned(step: Any) -> Any:
        if isinstance(step, otf_workflow.CachedStep):
            return dataclasses.replace(step, step=planned(step.step))
        if type(step) is not dace_translation.DaCeTranslator:
            raise TypeError(
                f"GT4Py translates to SDFGs by {type(step).__name__}, which is not known here; pass plan_transients=False"
            )
        fields = {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}
        return PlannedTranslator(**fields, symbols=symbols)

    return dataclasses.replace(executor, translation=planned(executor.translation))


@dataclasses.dataclass(frozen=True)
class WorkslabBackend(dace_backend.DaCeBackend):
    """GT4Py's DaCe backend, whose programs take a lease of the workspace for each call."""

    workspace: Any = None
    stream: Any = None

    def load_artifact(self, artifact: Any) -> Any:
        # A library is called after its program, for which statistics and messages are thankful.
        name = pathlib.Path(artifact.library_path).stem.removeprefix("lib")
        return _Leased(super().load_artifact(artifact), self.workspace, self.stream, name)


class _Leased:
    """A program that is called under a lease; one that its thread holds already will do."""

    def __init__(self, program: Any, workspace: Workspace, stream: Any, name: str) -> None:
        self._program = program
        self._workspace = workspace
        self._stream = stream
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._workspace.leased_here:
            return self._program(*args, **kwargs)
        with self._workspace.lease(self._stream, program=self._name):
            return self._program(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)
