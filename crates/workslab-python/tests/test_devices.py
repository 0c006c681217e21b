"""ROCm and CUDA on the emulated drivers, whose libraries the environment names."""

import os
import types

import pytest

import workslab

MIB = 1 << 20
LIBRARIES = {"rocm": "WORKSLAB_HIP_LIBRARY", "cuda": "WORKSLAB_CUDA_LIBRARY"}


@pytest.fixture(params=sorted(LIBRARIES))
def workspace(request):
    if LIBRARIES[request.param] not in os.environ:
        pytest.skip(f"{LIBRARIES[request.param]} names no emulated driver; `cargo xtask python` does")
    return workslab.ExternalWorkspaceAllocator(request.param).allocate(1, MIB)


def test_the_interfaces_of_a_device(workspace):
    interface = workspace.__cuda_array_interface__
    assert interface["data"] == (workspace.ptr, False)
    assert (interface["shape"], interface["typestr"]) == ((MIB,), "|u1")
    kind = {"cuda": 2, "rocm": 10}[workspace.platform]
    assert workspace.__dlpack_device__() == (kind, 1)
    assert workspace.__dlpack__(max_version=(1, 0)) is not None
    assert not hasattr(workspace, "__array_interface__")
    with pytest.raises(BufferError, match="host"):
        memoryview(workspace)


def test_streams_of_other_libraries(workspace):
    allocator = workslab.ExternalWorkspaceAllocator(workspace.platform)
    own = allocator.create_stream(1)
    assert own.ptr != 0
    waits = workspace.statistics()["cross_stream_waits"]
    cupy = types.SimpleNamespace(ptr=own.ptr)
    torch = types.SimpleNamespace(cuda_stream=own.ptr)
    protocol = types.SimpleNamespace(__cuda_stream__=lambda: (0, own.ptr))
    for stream in (own, own.ptr, cupy, torch, protocol):
        with workspace.lease(stream) as lease:
            assert lease.stream == own.ptr
        with workspace.lease() as lease:
            assert lease.stream == 0
    assert workspace.statistics()["cross_stream_waits"] - waits >= 9
    with pytest.raises(ValueError, match="device"):
        with workspace.lease(allocator.create_stream(0)):
            pass
    host = workslab.ExternalWorkspaceAllocator("host").create_stream(0)
    with pytest.raises(RuntimeError, match="host"):
        with workspace.lease(host):
            pass
