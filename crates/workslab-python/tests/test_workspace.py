"""Allocators, workspaces, leases and reservations."""

import gc
import logging
import os
import pickle
import threading
import time
import weakref

import numpy as np
import pytest

import workslab

MIB = 1 << 20
VARIABLE = "ICON4PY_BACKEND_WORKSPACE_SIZE"


def test_the_same_workspace_on_a_hit(allocator):
    workspace = allocator.allocate(0, "1MiB")
    assert allocator.allocate(0, MIB) is workspace
    assert workslab.ExternalWorkspaceAllocator("host").allocate(0, MIB) is workspace
    assert (workspace.nbytes, workspace.size, len(workspace)) == (MIB, MIB, MIB)
    assert (workspace.platform, workspace.device, workspace.cap) == ("host", 0, None)
    assert workspace.ptr % workslab.ALIGNMENT == 0
    assert workspace.statistics()["misses"] == 1


def test_another_size_is_an_error_that_names_both(allocator):
    workspace = allocator.allocate(0, MIB)
    with pytest.raises(ValueError, match="1048576.*2097152"):
        allocator.allocate(0, 2 * MIB)
    assert allocator.allocate(0, 1000, size_check="at-least") is workspace


@pytest.mark.parametrize("size", [0, -1, "none", "1.5", None, 1.5])
def test_the_size_must_be_positive(allocator, size):
    with pytest.raises(ValueError):
        allocator.allocate(0, size)


def test_a_device_that_is_not_there(allocator):
    with pytest.raises(ValueError, match="device"):
        allocator.allocate(99, MIB)
    with pytest.raises(TypeError):
        allocator.allocate("first", MIB)


def test_more_than_there_is_is_a_memory_error(allocator):
    with pytest.raises(MemoryError, match="1048576|TiB|free"):
        allocator.allocate(0, "1000TiB")


def test_several_devices_get_one_workspace_each(allocator):
    several = allocator.allocate([0], MIB)
    assert several == [allocator.allocate(0, MIB)]


def test_numpy_and_dlpack_see_the_same_bytes(allocator):
    workspace = allocator.allocate(0, MIB)
    plain = np.asarray(workspace)
    plain[:8] = 7
    assert plain.ctypes.data == workspace.ptr
    assert np.from_dlpack(workspace)[7] == 7
    assert np.frombuffer(workspace, dtype=np.uint64)[0] == 0x0707070707070707
    assert memoryview(workspace)[:3].tolist() == [7, 7, 7]
    assert workspace.__dlpack_device__() == (1, 0)
    assert not hasattr(workspace, "__cuda_array_interface__")
    with pytest.raises(BufferError):
        workspace.__dlpack__(dl_device=(2, 0))


def test_an_object_handed_out_keeps_its_slab(allocator):
    view = np.from_dlpack(allocator.allocate(0, MIB))
    gc.collect()
    with pytest.raises(RuntimeError, match="owner"):
        allocator.release(0)
    view[:] = 1
    assert view.sum() == MIB
    assert allocator.allocate(0, MIB).ptr == view.ctypes.data
    del view
    gc.collect()


def test_a_capsule_that_nobody_takes_lets_go(allocator):
    for version in (None, (1, 0)):
        workspace = allocator.allocate(0, MIB)
        weak = weakref.ref(workspace)
        capsule = workspace.__dlpack__(max_version=version)
        del workspace, capsule
        gc.collect()
        allocator.release(0)
        assert weak() is None


def test_a_lease_is_exclusive_and_says_who_has_it(allocator):
    workspace = allocator.allocate(0, MIB)
    with workspace.lease(program="diffusion") as lease:
        assert lease.held and lease.nbytes == MIB and workspace.leased_here
        assert np.asarray(lease).ctypes.data == lease.ptr
        with pytest.raises(RuntimeError, match="already"):
            with workspace.lease():
                pass
        seen = []

        def other():
            try:
                with workspace.lease(timeout=0.05):
                    pass
            except TimeoutError as error:
                seen.append(str(error))
            try:
                with workspace.lease(timeout=0):
                    pass
            except RuntimeError as error:
                seen.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(seen) == 2 and all("diffusion" in text for text in seen)
    assert not lease.held and not workspace.leased_here
    with pytest.raises(RuntimeError, match="not held"):
        lease.nbytes
    assert workspace.statistics()["programs"][0]["name"] == "diffusion"


def test_threads_take_turns_and_let_python_run_meanwhile(allocator):
    workspace = allocator.allocate(0, MIB)
    total = np.frombuffer(workspace, dtype=np.int64)[:1]
    total[0] = 0
    ticks = []

    def work():
        for _ in range(50):
            with workspace.lease():
                value = total[0]
                time.sleep(0)
                total[0] = value + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    with workspace.lease():
        for thread in threads:
            thread.start()
        ticks.append(sum(range(1000)))  # they wait without Python's lock, or this would not go on
    for thread in threads:
        thread.join()
    assert total[0] == 200


def test_an_error_in_the_block_ends_the_lease(allocator):
    workspace = allocator.allocate(0, MIB)
    with pytest.raises(KeyError):
        with workspace.lease():
            raise KeyError
    with workspace.lease():
        pass


def test_streams_of_ones_own(allocator):
    workspace = allocator.allocate(0, MIB)
    first, second = allocator.create_stream(0), allocator.create_stream(0)
    with workspace.lease(first):
        pass
    with workspace.lease(second):
        pass
    assert workspace.statistics()["cross_stream_waits"] == 1
    for wrong in ("a", 1.5, object()):
        with pytest.raises(TypeError):
            workspace.lease(wrong)
    with pytest.raises(ValueError, match="create_stream"):
        workspace.lease(0x1000)


def test_reservations_are_apart_from_leases(allocator):
    workspace = allocator.allocate(0, MIB)
    blas = workspace.reserve("blas", 1000)
    assert workspace.nbytes == MIB - 1024
    with workspace.lease() as lease:
        np.asarray(lease)[:] = 1
    np.asarray(blas)[:] = 2
    assert (blas.name, blas.nbytes) == ("blas", 1000)
    with pytest.raises(RuntimeError):
        workspace.reserve("blas", 1000)
    with pytest.raises(MemoryError, match="blas2"):
        workspace.reserve("blas2", 2 * MIB)
    np.asarray(workspace)
    with pytest.raises(RuntimeError, match="handed out"):
        workspace.reserve("late", 10)


def test_growth_keeps_addresses(allocator):
    workspace = allocator.allocate(0, "2MiB", size_check="grow", cap="16MiB")
    before = workspace.ptr
    np.asarray(workspace)[:] = 3
    assert allocator.allocate(0, "4MiB", size_check="grow", cap="16MiB") is workspace
    workspace.grow(8 * MIB)
    assert (workspace.ptr, workspace.nbytes, workspace.cap) == (before, 8 * MIB, 16 * MIB)
    assert (np.asarray(workspace)[: 2 * MIB] == 3).all()
    with pytest.raises(MemoryError, match="workspace_cap"):
        workspace.grow(17 * MIB)
    with pytest.raises(ValueError, match="grow"):
        allocator.allocate(0, MIB, cap="2MiB")


def test_without_the_variable_there_is_no_configuration(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("WORKSLAB_WORKSPACE_SIZE", raising=False)
    assert workslab.backend_config_from_env() is None


def test_the_configuration_comes_from_the_environment(allocator, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1048576")
    config = workslab.backend_config_from_env()
    assert config is not None and config.workspace_size == MIB
    (entry,) = [entry for entry in config.entries() if entry[0] == "workspace_size"]
    assert "1048576" in entry[1] and VARIABLE in entry[2]
    assert allocator.allocate(0, config).nbytes == MIB
    for bad in ("0", "-5", "lots"):
        monkeypatch.setenv(VARIABLE, bad)
        with pytest.raises(ValueError, match=VARIABLE):
            workslab.backend_config_from_env()


def test_a_configuration_can_be_given_and_pickled():
    config = workslab.BackendConfig(
        workspace_size="2MiB", size_check="grow", workspace_cap="1GiB", guard=True, platform="host"
    )
    assert pickle.loads(pickle.dumps(config)) == config
    assert config != workslab.BackendConfig(workspace_size="3MiB")
    with pytest.raises(ValueError, match="workspace_sise"):
        workslab.BackendConfig(workspace_sise=1)
    assert workslab.parse_size("1.5GiB") == 3 << 29


def test_memory_cannot_be_pickled_and_says_why(allocator):
    workspace = allocator.allocate(0, MIB)
    for thing in (workspace, workspace.reserve("blas", 10), workspace.lease()):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)


def test_a_forked_child_is_refused(allocator):
    workspace = allocator.allocate(0, MIB)
    child = os.fork()
    if child == 0:
        refused = 0
        for use in (
            lambda: workspace.__array_interface__,
            lambda: workspace.ptr,
            lambda: workspace.lease().__enter__(),
            lambda: workspace.reserve("halo", 4096),
        ):
            try:
                use()
            except RuntimeError as error:
                refused += "forked" in str(error)
        os._exit(4 - refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_records_go_to_logging(allocator, caplog):
    with caplog.at_level(logging.INFO):
        allocator.allocate(0, MIB)
    assert any("workslab" in record.name for record in caplog.records)


def test_an_unknown_platform_is_a_value_error():
    with pytest.raises(ValueError, match="rocm, cuda, host"):
        workslab.ExternalWorkspaceAllocator("vulkan")
