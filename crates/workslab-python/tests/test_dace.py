"""Transients of DaCe programs in a workspace. Programs are compiled, so these tests take a while."""

import os
import threading

import numpy as np
import pytest

import workslab

dace = pytest.importorskip("dace", reason="DaCe is not installed")

from dace.sdfg.state import ConditionalBlock, LoopRegion  # noqa: E402
from sdfgs import (  # noqa: E402
    DTYPES,
    External,
    N,
    Randomly,
    chain,
    cut_lifetimes_short,
    on_gpu,
    reads_again,
    step,
)

from workslab import dace as planned  # noqa: E402

#: How many random programs are compiled; each takes about a second.
RANDOM = int(os.environ.get("WORKSLAB_RANDOM_SDFGS", "100"))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dace.Config.set("cache", value="unique")
    dace.Config.set("default_build_folder", value=str(tmp_path / ".dacecache"))


def run(sdfg, workspace, n, poison=0xA5):
    """Runs a compiled program on bytes that were anything before, and gives B."""
    compiled = sdfg.compile()
    arguments = {"A": np.arange(n, dtype=np.float64), "B": np.zeros(n), "N": n}
    compiled.initialize(**arguments)
    needed = planned.bind(compiled, workspace)
    for turn in range(3):
        with workspace.lease():
            np.from_dlpack(workspace)[:] = poison ^ turn
            compiled(**arguments)
    return arguments["B"], needed


def test_transients_are_aligned_and_share_bytes(allocator):
    sdfg = chain("chained", [dace.float64] * 6, [N] * 6)
    assert planned.use_external_memory(sdfg) == [f"t{index}" for index in range(6)]
    plan = planned.plan(sdfg, symbols={"N": 1000})
    (storage,) = plan.storages
    assert storage.unshared is None
    for n in (1, 31, 32, 1000, 12345):
        assert all(offset % workslab.ALIGNMENT == 0 for offset in storage.offsets({"N": n}))
        assert plan.bytes({"N": n}) == storage.lower_bound({"N": n})
    assert plan.bytes({"N": 1000}) * 5 < storage.dace_bytes({"N": 1000}) * 2
    result, needed = run(sdfg, allocator.allocate(0, 1 << 20), 1000)
    assert (result == np.arange(1000)).all()
    assert needed == {"CPU_Heap": plan.bytes({"N": 1000})}
    with pytest.raises(ValueError, match="planned already"):
        planned.plan(sdfg)


def test_what_dace_would_misalign_is_refused_and_planned_right(allocator):
    workspace = allocator.allocate(0, 1 << 20)
    sdfg = chain("misaligned", [dace.float32, dace.float64], [3, N])
    planned.use_external_memory(sdfg)
    sdfg.specialize({"N": 100})
    compiled = sdfg.compile()
    compiled.initialize(A=np.zeros(100), B=np.zeros(100))
    with pytest.raises(ValueError, match="t1"):
        planned.bind(compiled, workspace)
    again = chain("aligned", [dace.float32, dace.float64], [3, N])
    planned.use_external_memory(again)
    plan = planned.plan(again)
    assert plan.storages[0].offsets({"N": 100}) == [0, 256]
    result, _ = run(again, workspace, 100)
    assert (result == np.arange(100) % 3).all()


def test_dace_asks_for_what_the_plan_says_it_would(allocator):
    sdfg = chain("sums", [dace.float64, dace.float32], [N, 2 * N])
    planned.use_external_memory(sdfg)
    compiled = sdfg.compile()
    compiled.initialize(A=np.zeros(77), B=np.zeros(77), N=77)
    (size,) = compiled.get_workspace_sizes().values()
    plan = planned.plan(sdfg)
    assert size == plan.storages[0].dace_bytes({"N": 77}) == 77 * 16


def test_a_workspace_that_is_too_small_is_refused(allocator):
    sdfg = chain("large", [dace.float64], [N])
    planned.use_external_memory(sdfg)
    planned.plan(sdfg)
    compiled = sdfg.compile()
    compiled.initialize(A=np.zeros(1000), B=np.zeros(1000), N=1000)
    with pytest.raises(ValueError, match="8192 bytes.*4096"):
        planned.bind(compiled, allocator.allocate(0, 4096))


def test_a_program_without_transients_stays_as_it_is():
    sdfg = chain("plain", [], [])
    assert planned.use_external_memory(sdfg) == []
    assert planned.plan(sdfg).storages == ()
    assert not any("workslab" in code.as_string for code in sdfg.global_code.values())


def test_an_unknown_version_of_dace_gets_aligned_sums(monkeypatch, caplog):
    sdfg = chain("unknown", [dace.float64] * 3, [N] * 3)
    planned.use_external_memory(sdfg)
    monkeypatch.setattr(dace, "__version__", "99.0")
    plan = planned.plan(sdfg)
    assert "99.0" in plan.storages[0].unshared and "99.0" in caplog.text
    assert plan.bytes({"N": 1}) == 3 * workslab.ALIGNMENT


@pytest.mark.parametrize(("streams", "shared"), [(-1, True), (0, False), (4, False)])
def test_programs_for_a_gpu_share_on_one_stream(streams, shared, caplog):
    """What is generated is looked at here; compiled and run, where there is a GPU, it is in test_gpu.py."""
    sdfg = on_gpu(chain(f"gpu{streams + 1}", [dace.float64, dace.float32, dace.int8, dace.float64], [N] * 4))
    assert planned.use_external_memory(sdfg) == ["t0", "t1", "t2", "t3"]
    with dace.config.set_temporary("compiler", "cuda", "max_concurrent_streams", value=streams):
        plan = planned.plan(sdfg, symbols={"N": 1000})
    (storage,) = plan.storages
    assert storage.storage == "GPU_Global"
    assert ("several streams" in caplog.text) is not shared
    if shared:
        assert storage.unshared is None
        assert plan.bytes({"N": 1000}) == storage.lower_bound({"N": 1000}) == 8192 + 4096
    else:
        assert plan.bytes({"N": 1000}) == 8192 + 4096 + 1024 + 8192


def test_an_array_that_is_read_first_keeps_its_bytes_to_itself():
    sdfg = dace.SDFG("remembers")
    for name in ("A", "B"):
        sdfg.add_array(name, [N], dace.float64)
    for name in ("kept", "early", "late"):
        sdfg.add_transient(name, [N], dace.float64, lifetime=External)
    first = sdfg.add_state(is_start_block=True)
    step(first, "early", ["A", "kept"])
    second = sdfg.add_state_after(first)
    step(second, "late", ["early"])
    third = sdfg.add_state_after(second)
    step(third, "kept", ["late"])
    plan = planned.plan(sdfg)
    (storage,) = plan.storages
    kept = next(array for array in storage.arrays if array.name == "kept")
    assert kept.lifetime[0] == 0
    assert all(kept.lifetime[1] >= array.lifetime[1] for array in storage.arrays)


def test_a_file_for_the_command_is_written(tmp_path):
    sdfg = chain("captured", [dace.float64] * 2, [N, N + 1])
    planned.use_external_memory(sdfg)
    planned.capture(sdfg, tmp_path / "captured.json", names={"N": "cells"}, grid={"cells": 10, "edges": 15, "nlev": 5})
    text = (tmp_path / "captured.json").read_text()
    assert '"cells+1"' in text and '"program": "captured"' in text


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_programs_compute_what_they_should(allocator, seed):
    program = Randomly(seed)
    planned.plan(program.sdfg, symbols={"N": 100})
    workspace = allocator.allocate(0, 1 << 20)
    result, _ = run(program.sdfg, workspace, 200, poison=(0x00, 0xA5, 0xFF)[seed % 3])
    assert (result == program.expected(np.arange(200.0))).all()


def test_the_random_programs_have_everything():
    programs = [Randomly(seed) for seed in range(100)]
    assert {dtype for program in programs for dtype, _ in program.arrays.values()} == set(DTYPES)
    for kind in (ConditionalBlock, LoopRegion):
        having = [any(isinstance(r, kind) for r in program.sdfg.all_control_flow_blocks()) for program in programs]
        assert sum(having) > 20
    nested = [sum(1 for _ in program.sdfg.all_sdfgs_recursive()) - 1 for program in programs]
    assert sum(count > 1 for count in nested) > 50


def test_a_plan_survives_json(allocator):
    program = Randomly(0)
    planned.plan(program.sdfg)
    result, _ = run(dace.SDFG.from_json(program.sdfg.to_json()), allocator.allocate(0, 1 << 20), 200)
    assert (result == program.expected(np.arange(200.0))).all()


def test_two_threads_take_turns_thousands_of_times(allocator):
    workspace = allocator.allocate(0, 1 << 20)
    programs = []
    for name, length in (("one", N), ("two", 2 * N)):
        sdfg = chain(name, [dace.float64] * 3, [length] * 3)
        planned.use_external_memory(sdfg)
        planned.plan(sdfg)
        compiled = sdfg.compile()
        n = 500
        arguments = {"A": np.arange(n, dtype=np.float64), "B": np.zeros(n), "N": n}
        compiled.initialize(**arguments)
        planned.bind(compiled, workspace)
        programs.append((compiled, arguments))
    wrong = []

    def turns(compiled, arguments):
        for _ in range(2000):
            arguments["B"][:] = -1
            with workspace.lease():
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


def test_an_array_that_nothing_uses_takes_no_bytes(allocator):
    """DaCe 2.0.0b1 generates code for one that does not compile."""
    sdfg = chain("unused", [dace.float64], [N])
    sdfg.add_transient("nobody", [N], dace.float64, lifetime=External)
    sdfg.arrays["t0"].lifetime = External
    plan = planned.plan(sdfg)
    assert [array.name for array in plan.storages[0].arrays] == ["t0"]
    result, _ = run(sdfg, allocator.allocate(0, 1 << 20), 10)
    assert (result == np.arange(10)).all()


def test_components_may_share_what_they_read(allocator):
    """DaCe lists the node of A in both components, and an order with a node in it twice is none."""
    sdfg = dace.SDFG("shared_source")
    for name in ("A", "B", "C"):
        sdfg.add_array(name, [N], dace.float64)
    for name in ("x", "y", "z"):
        sdfg.add_transient(name, [N], dace.float64, lifetime=External)
    state = sdfg.add_state(is_start_block=True)
    source = state.add_read("A")
    for copied in ("x", "y"):
        state.add_nedge(source, state.add_access(copied), dace.Memlet(f"{copied}[0:N]"))
    step(state, "z", ["x", "y"])
    step(state, "B", ["z"])
    state.add_nedge(source, state.add_write("C"), dace.Memlet("C[0:N]"))
    planned.plan(sdfg, symbols={"N": 100})
    workspace = allocator.allocate(0, 1 << 20)
    compiled = sdfg.compile()
    arguments = {"A": np.arange(100.0), "B": np.zeros(100), "C": np.zeros(100), "N": 100}
    compiled.initialize(**arguments)
    planned.bind(compiled, workspace)
    np.from_dlpack(workspace)[:] = 0xA5
    with workspace.lease():
        compiled(**arguments)
    assert (arguments["B"] == 2 * arguments["A"]).all()
    assert (arguments["C"] == arguments["A"]).all()


def test_a_wrong_plan_would_be_noticed(allocator, monkeypatch):
    """The random programs are no test if bytes that are shared too early give right results."""
    cut_lifetimes_short(monkeypatch)
    sdfg = reads_again("too_short")
    planned.plan(sdfg)
    result, _ = run(sdfg, allocator.allocate(0, 1 << 20), 100)
    assert not (result == 3 * np.arange(100)).all()
