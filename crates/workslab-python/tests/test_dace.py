"""Transients of DaCe programs in a workspace. Programs are compiled, so these tests take a while."""

import os
import random
import threading

import numpy as np
import pytest

import workslab

dace = pytest.importorskip("dace", reason="DaCe is not installed")

from dace.properties import CodeBlock  # noqa: E402
from dace.sdfg.state import ConditionalBlock, ControlFlowRegion, LoopRegion  # noqa: E402

from workslab import dace as planned  # noqa: E402

#: How many random programs are compiled; each takes about a second.
RANDOM = int(os.environ.get("WORKSLAB_RANDOM_SDFGS", "100"))

N = dace.symbol("N")
External = dace.AllocationLifetime.External


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dace.Config.set("cache", value="unique")
    dace.Config.set("default_build_folder", value=str(tmp_path / ".dacecache"))


#: Elements of 1, 2, 4, 8 and 16 bytes.
DTYPES = (dace.float64, dace.float32, dace.int8, dace.int16, dace.int32, dace.int64, dace.complex64, dace.complex128)


def converted(dtype, value):
    """A whole number as an element, in C++. Small types wrap; what is not the real part of a number is 1."""
    if dtype in (dace.complex64, dace.complex128):
        return f"{dtype.ctype}({value}, 1)"
    return f"({dtype.ctype})({value})" if dtype in (dace.float64, dace.float32) else f"({dtype.ctype})(long long)({value})"


def step(state, into, sources, factor=1):
    """Adds `into[i] = sources[0][i % its length] + factor * …` for every element, after what the state has."""
    have = {node.data: node for node in state.data_nodes()}
    arrays = state.sdfg.arrays
    terms = []
    for n, name in enumerate(sources):
        element = f"in{n}[i % ({arrays[name].shape[0]})]"
        real = f"{element}.real()" if arrays[name].dtype in (dace.complex64, dace.complex128) else element
        terms.append(f"{1 if n == 0 else factor} * (double){real}")
    memlets = {f"in{n}": dace.Memlet(f"{name}[0:{arrays[name].shape[0]}]") for n, name in enumerate(sources)}
    inputs = {name: have.get(name) or state.add_read(name) for name in sources}
    state.add_mapped_tasklet(
        f"into_{into}",
        {"i": f"0:{arrays[into].shape[0]}"},
        memlets,
        f"out = {converted(arrays[into].dtype, ' + '.join(terms))};",
        {"out": dace.Memlet(f"{into}[i]")},
        language=dace.Language.CPP,
        external_edges=True,
        input_nodes=inputs,
        output_nodes={into: state.add_write(into)},
    )


def chain(name, dtypes, lengths):
    """A program that goes through one transient after the other: A, t0, t1, …, B."""
    sdfg = dace.SDFG(name)
    sdfg.add_array("A", [N], dace.float64)
    sdfg.add_array("B", [N], dace.float64)
    names = [f"t{index}" for index in range(len(dtypes))]
    for transient, dtype, length in zip(names, dtypes, lengths):
        sdfg.add_transient(transient, [length], dtype)
    state = None
    for source, into in zip(["A", *names], [*names, "B"]):
        state = sdfg.add_state(is_start_block=True) if state is None else sdfg.add_state_after(state)
        step(state, into, [source])
    return sdfg


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


class Randomly:
    """A random program of whole numbers, and the same in numpy."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sdfg = dace.SDFG(f"random_{seed}")
        #: Of each array, also those of nested SDFGs: its type, and how many times N its length is.
        self.arrays = {}
        #: What happens, in order: (into, sources, factor).
        self.script = []
        for name in ("A", "B"):
            self.sdfg.add_array(name, [N], dace.float64)
            self.arrays[name] = (dace.float64, 1)
        self.transients = [f"t{index}" for index in range(8)]
        for name in self.transients:
            self._transient(self.sdfg, name, name)
        self.written = ["A"]
        self._fill()

    def _transient(self, sdfg, name, known_as):
        dtype = self.random.choice([dace.float64] * 4 + list(DTYPES))
        times = self.random.choice([1, 1, 2, 3])
        sdfg.add_transient(name, [N * times], dtype, lifetime=External)
        self.arrays[known_as] = (dtype, times)

    def _fill(self):
        state = self.sdfg.add_state(is_start_block=True)
        self._steps(state, 2)
        for block in range(5):
            kind = self.random.random()
            if kind < 0.2:
                state = self._branches(state, block)
            elif kind < 0.5:
                state = self._loop(state, block)
            else:
                state = self.sdfg.add_state_after(state, f"state{block}")
            self._steps(state, self.random.choice([1, 2, 3]))
        last = self.sdfg.add_state_after(state, "last")
        self._step(last, "B", self.written[-2:], 1, {})

    def _step(self, state, into, sources, factor, names):
        """A step of the program and of the script, in which the arrays may have other names."""
        step(state, into, sources, factor)
        self.script.append((names.get(into, into), [names.get(source, source) for source in sources], factor))

    def _steps(self, state, count):
        touched = set()
        for _ in range(count):
            sources = list(dict.fromkeys(self.random.choice(self.written) for _ in range(self.random.choice([1, 2]))))
            free = [name for name in self.transients if name not in touched and name not in sources]
            if not free:
                return
            into = self.random.choice(free)
            touched |= {into, *sources}
            if self.random.random() < 0.3:
                self._nested(state, into, sources)
            else:
                self._step(state, into, sources, self.random.choice([1, -1, 2]), {})
            if into not in self.written:
                self.written.append(into)

    def _branches(self, state, block):
        """N is 200 when it runs, so the second branch is never taken, which nobody knows before."""
        branches = ConditionalBlock(f"branches{block}")
        self.sdfg.add_node(branches)
        self.sdfg.add_edge(state, branches, dace.InterstateEdge())
        for condition, taken in (("N > 100", True), ("N <= 100", False)):
            region = ControlFlowRegion(f"branch{block}_{taken}")
            branches.add_branch(CodeBlock(condition), region)
            begin, had = len(self.script), list(self.written)
            self._steps(region.add_state(f"in_branch{block}_{taken}", is_start_block=True), 2)
            if not taken:
                del self.script[begin:]
                self.written[:] = had
        return self._after(self.sdfg, branches, f"after{block}")

    def _loop(self, state, block):
        loop = self._three_times(self.sdfg, f"k{block}")
        self.sdfg.add_edge(state, loop, dace.InterstateEdge())
        begin = len(self.script)
        self._steps(loop.add_state(f"inside{block}", is_start_block=True), 2)
        self.script.extend(self.script[begin:] * 2)
        return self._after(self.sdfg, loop, f"after{block}")

    def _nested(self, state, into, sources):
        """A nested SDFG with transients of its own, and sometimes a loop over what it does with them."""
        number = len(self.arrays)
        inner = dace.SDFG(f"nested{number}")
        names = {"result": into} | {f"from{n}": source for n, source in enumerate(sources)}
        for name, outer in names.items():
            inner.add_array(name, self.sdfg.arrays[outer].shape, self.sdfg.arrays[outer].dtype)
        for name in ("x", "y"):
            names[name] = f"{name} of {number}"
            self._transient(inner, name, names[name])
        own = [f"from{n}" for n in range(len(sources))]
        first = inner.add_state(is_start_block=True)
        self._step(first, "x", own, 1, names)
        if self.random.random() < 0.5:
            loop = self._three_times(inner, "inner")
            inner.add_edge(first, loop, dace.InterstateEdge())
            begin = len(self.script)
            inside = loop.add_state(is_start_block=True)
            self._step(inside, "y", ["x", own[0]], -1, names)
            self._step(loop.add_state_after(inside), "x", ["y", own[-1]], 2, names)
            self.script.extend(self.script[begin:] * 2)
            last = self._after(inner, loop, "last")
        else:
            last = inner.add_state_after(first)
            self._step(last, "y", ["x"], 1, names)
        self._step(last, "result", ["y", own[0]], 1, names)
        node = state.add_nested_sdfg(inner, dict.fromkeys(own), {"result": None}, {"N": "N"})
        have = {node.data: node for node in state.data_nodes()}
        for n, source in enumerate(sources):
            memlet = self.sdfg.make_array_memlet(source)
            state.add_edge(have.get(source) or state.add_read(source), None, node, f"from{n}", memlet)
        state.add_edge(node, "result", state.add_write(into), None, self.sdfg.make_array_memlet(into))

    @staticmethod
    def _three_times(sdfg, index):
        loop = LoopRegion(f"loop_{index}", f"{index} < 3", index, f"{index} = 0", f"{index} = {index} + 1")
        sdfg.add_node(loop)
        return loop

    @staticmethod
    def _after(sdfg, block, name):
        state = sdfg.add_state(name)
        sdfg.add_edge(block, state, dace.InterstateEdge())
        return state

    def expected(self, values):
        """What the program leaves in B, by numpy."""
        have = {"A": values}
        for into, sources, factor in self.script:
            dtype, times = self.arrays[into]
            length = len(values) * times
            total = np.zeros(length)
            for index, source in enumerate(sources):
                elements = np.resize(have[source].real.astype(np.float64), length)
                total += (1 if index == 0 else factor) * elements
            whole = dtype in (dace.int8, dace.int16, dace.int32, dace.int64)
            have[into] = (total.astype(np.int64) if whole else total).astype(dtype.type)
        return have["B"]


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
    lifetime = planned._Timeline.lifetime

    def too_short(self, key):
        first, _ = lifetime(self, key)
        return (first, first + 1)

    monkeypatch.setattr(planned._Timeline, "lifetime", too_short)
    sdfg = dace.SDFG("too_short")
    for name in ("A", "B"):
        sdfg.add_array(name, [N], dace.float64)
    state = None
    for into, sources in (("x", ["A"]), ("y", ["x", "A"]), ("B", ["x", "y"])):
        if into != "B":
            sdfg.add_transient(into, [N], dace.float64, lifetime=External)
        state = sdfg.add_state(is_start_block=True) if state is None else sdfg.add_state_after(state)
        step(state, into, sources)
    planned.plan(sdfg)
    result, _ = run(sdfg, allocator.allocate(0, 1 << 20), 100)
    assert not (result == 3 * np.arange(100)).all()
