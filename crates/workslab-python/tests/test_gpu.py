"""Compiled programs on an NVIDIA GPU. Skipped where there is none, or no nvcc; compiling takes minutes."""

import gc
import os
import shutil
import threading

import numpy as np
import pytest

import workslab

dace = pytest.importorskip("dace", reason="DaCe is not installed")
cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
if shutil.which("nvcc") is None:
    pytest.skip("nvcc is not on the PATH", allow_module_level=True)
try:
    ARCHITECTURE = cupy.cuda.Device(0).compute_capability
except cupy.cuda.runtime.CUDARuntimeError as error:
    pytest.skip(f"CuPy sees no device: {error}", allow_module_level=True)

from sdfgs import N, Randomly, chain, cut_lifetimes_short, on_gpu, reads_again  # noqa: E402

from workslab import dace as planned  # noqa: E402

#: How many random programs are compiled, of which each takes nvcc some ten seconds.
RANDOM = int(os.environ.get("WORKSLAB_RANDOM_SDFGS", "100"))
MIB = 1 << 20


@pytest.fixture(autouse=True)
def one_stream_in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDAARCHS", ARCHITECTURE)
    with (
        dace.config.set_temporary("cache", value="unique"),
        dace.config.set_temporary("default_build_folder", value=str(tmp_path / ".dacecache")),
        dace.config.set_temporary("compiler", "cuda", "cuda_arch", value=ARCHITECTURE),
        dace.config.set_temporary("compiler", "cuda", "max_concurrent_streams", value=-1),
    ):
        yield


@pytest.fixture
def allocator():
    made = workslab.ExternalWorkspaceAllocator("cuda")
    yield made
    gc.collect()
    made.release(0)


def compiled_for(sdfg, workspace, values):
    """The compiled program, bound, its arguments, and the bytes that it needs."""
    compiled = sdfg.compile()
    arguments = {"A": cupy.asarray(values), "B": cupy.zeros(len(values)), "N": len(values)}
    compiled.initialize(**arguments)
    return compiled, arguments, planned.bind(compiled, workspace)


def run(sdfg, workspace, n):
    """Runs a program on bytes that were anything before, and gives B."""
    compiled, arguments, needed = compiled_for(sdfg, workspace, np.arange(n, dtype=np.float64))
    for turn in range(3):
        with workspace.lease():
            cupy.asarray(workspace)[:] = 0xA5 ^ turn
            cupy.cuda.Device().synchronize()  # the program may run on streams of its own
            compiled(**arguments)
    cupy.cuda.Device().synchronize()
    return arguments["B"].get(), needed


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_programs_compute_what_they_should(allocator, seed):
    program = Randomly(seed)
    plan = planned.plan(on_gpu(program.sdfg), symbols={"N": 200})
    (storage,) = plan.storages
    assert storage.storage == "GPU_Global"
    result, needed = run(program.sdfg, allocator.allocate(0, MIB), 200)
    assert needed == {"GPU_Global": plan.bytes({"N": 200})}
    assert (result == program.expected(np.arange(200.0))).all()


@pytest.mark.parametrize("seed", range(3))
def test_programs_on_several_streams_are_aligned_and_not_shared(allocator, seed):
    program = Randomly(seed)
    with dace.config.set_temporary("compiler", "cuda", "max_concurrent_streams", value=0):
        plan = planned.plan(on_gpu(program.sdfg), symbols={"N": 200})
        assert plan.storages[0].unshared == "the program runs on several streams"
        result, _ = run(program.sdfg, allocator.allocate(0, MIB), 200)
    assert (result == program.expected(np.arange(200.0))).all()


def test_most_random_programs_share():
    plans = [planned.plan(on_gpu(Randomly(seed).sdfg)).storages[0] for seed in range(10)]
    assert all(plan.unshared is None for plan in plans)
    assert sum(plan.bytes({"N": 1000}) < plan.dace_bytes({"N": 1000}) for plan in plans) > 5


def test_a_wrong_plan_would_be_noticed(allocator, monkeypatch):
    cut_lifetimes_short(monkeypatch)
    sdfg = on_gpu(reads_again("too_short"))
    planned.plan(sdfg)
    result, _ = run(sdfg, allocator.allocate(0, MIB), 100)
    assert not (result == 3 * np.arange(100)).all()


def test_another_stream_gets_the_workspace_when_the_program_is_through(allocator):
    """The program of many steps runs on the default stream, for which a stream that does not block does not wait."""
    n, steps = 8 * MIB, 24
    sdfg = on_gpu(chain("long", [dace.float64] * steps, [N] * steps))
    planned.use_external_memory(sdfg)
    assert planned.plan(sdfg).storages[0].unshared is None
    workspace = allocator.allocate(0, 2 * 8 * n)
    compiled, arguments, _ = compiled_for(sdfg, workspace, np.arange(n, dtype=np.float64))
    other = cupy.cuda.Stream(non_blocking=True)
    waits = workspace.statistics()["cross_stream_waits"]
    for turn in range(10):
        arguments["B"][:] = -1
        with workspace.lease():
            compiled(**arguments)
        with workspace.lease(other), other:
            copied = arguments["B"].copy()
            cupy.asarray(workspace)[:] = 0xA5 ^ turn
        other.synchronize()
        assert (copied == arguments["A"]).all()
    assert workspace.statistics()["cross_stream_waits"] - waits >= 19


def test_two_threads_take_turns(allocator):
    workspace = allocator.allocate(0, MIB)
    programs = []
    for name, length in (("one", N), ("two", 2 * N)):
        sdfg = on_gpu(chain(name, [dace.float64] * 3, [length] * 3))
        planned.use_external_memory(sdfg)
        planned.plan(sdfg)
        compiled, arguments, _ = compiled_for(sdfg, workspace, np.arange(500.0))
        programs.append((compiled, arguments))
    wrong = []

    def turns(compiled, arguments):
        for _ in range(500):
            with workspace.lease():
                arguments["B"][:] = -1
                compiled(**arguments)
            if not (arguments["B"] == arguments["A"]).all():
                wrong.append(compiled)
                return

    threads = [threading.Thread(target=turns, args=program) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_gt4py_runs_in_the_workspace():
    pytest.importorskip("gt4py.next", reason="GT4Py is not installed")
    import stencils

    from workslab import gt4py as ours

    config = workslab.BackendConfig(workspace_size="1MiB", platform="cuda")
    backend = ours.make_dace_backend(gpu=True, config=config)
    (workspace,) = backend.external_workspace.values()
    bytes_of_it = cupy.asarray(workspace)
    bytes_of_it[:] = 0xA5
    before = workspace.statistics()["leases"]
    stencils.smoothed(backend, times=3)
    assert workspace.statistics()["leases"] - before == 3
    assert bool((bytes_of_it != 0xA5).any())
    stencils.smoothed(backend, times=100, side=200)
    with workspace.lease():
        stencils.smoothed(backend)
