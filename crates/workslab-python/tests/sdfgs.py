"""SDFGs that the tests compile: chains of transients, and random programs with their results by numpy."""

import random

import dace
import numpy as np
from dace.properties import CodeBlock
from dace.sdfg.state import ConditionalBlock, ControlFlowRegion, LoopRegion

from workslab import dace as planned

N = dace.symbol("N")
External = dace.AllocationLifetime.External

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


def reads_again(name):
    """A program in which x has to last while y is made of it: x = A, y = x + A, B = x + y."""
    sdfg = dace.SDFG(name)
    for array in ("A", "B"):
        sdfg.add_array(array, [N], dace.float64)
    state = None
    for into, sources in (("x", ["A"]), ("y", ["x", "A"]), ("B", ["x", "y"])):
        if into != "B":
            sdfg.add_transient(into, [N], dace.float64, lifetime=External)
        state = sdfg.add_state(is_start_block=True) if state is None else sdfg.add_state_after(state)
        step(state, into, sources)
    return sdfg


def cut_lifetimes_short(monkeypatch):
    """Makes plans that are wrong: an array's bytes are another's after the step that writes it."""
    lifetime = planned._Timeline.lifetime

    def too_short(self, key):
        first, _ = lifetime(self, key)
        return (first, first + 1)

    monkeypatch.setattr(planned._Timeline, "lifetime", too_short)


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


def on_gpu(sdfg):
    """All arrays into the GPU's memory and all maps onto it, also those of nested SDFGs."""
    for inner in sdfg.all_sdfgs_recursive():
        for array in inner.arrays.values():
            array.storage = dace.StorageType.GPU_Global
        for state in inner.states():
            for entry in state.nodes():
                if isinstance(entry, dace.nodes.MapEntry):
                    entry.map.schedule = dace.ScheduleType.GPU_Device
    return sdfg
