"""Transients of DaCe programs in a workspace: aligned, and sharing bytes where they never live at once.

DaCe adds up the sizes of arrays with the lifetime ``External`` and places one behind the other, with no padding
and no sharing. :func:`plan` changes that for one SDFG:

1. It finds out when each array is alive: from its first use to its last, in an order of the program's steps.
   A loop is one step for all that is used in it; so is a map, a nested SDFG inside a map, and a state whose
   components may run at the same time. An array that is read before it is written lives always.
2. Where two arrays of one state may share bytes, that order is made part of the SDFG by edges without data, so
   that no code generator may choose another.
3. The planner finds offsets for a sample of the symbols' values, and says by them which of two arrays that
   live at once is the lower one. That order holds for all values: an array begins where the highest of those
   below it ends. The offsets themselves are computed when the program asks for its memory.
4. Two macros in the SDFG's global code give the generated pair of functions, ``__dace_get_external_memory_size_*``
   and ``__dace_set_external_memory_*``, another body. They travel with the SDFG through JSON, other processes
   and build caches. Nothing of DaCe is patched, and the compiled library needs nothing of workslab.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import json
import logging
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import dace
import networkx
import numpy as np
import sympy
from dace.codegen import codegen
from dace.codegen.common import sym2cpp
from dace.sdfg import nodes, state as regions
from dace.sdfg import utils as sdfg_utils

from ._workslab import ALIGNMENT, Workspace
from ._workslab import plan as plan_offsets

__all__ = ["ArrayPlan", "Plan", "StoragePlan", "bind", "capture", "plan", "use_external_memory"]

_LOG: Final = logging.getLogger("workslab.dace")

#: The versions of DaCe whose order of steps the tests have compared. Others get aligned sums.
KNOWN_VERSIONS: Final = ("2.0.0a10", "2.0.0b1")

#: What a symbol without a sample value is taken to be.
_SAMPLE: Final = 10_000
_LEVELS: Final = 65

_MARK: Final = "workslab: transients planned"

# An array, by the SDFG it is in and its name.
_Key = tuple[int, str]


@dataclasses.dataclass(frozen=True)
class ArrayPlan:
    """One array of a plan."""

    name: str
    #: Bytes, an expression in the SDFG's symbols.
    size: sympy.Expr
    #: The first step that uses it, and the one after the last.
    lifetime: tuple[int, int]
    #: Indices of the arrays above whose end it begins.
    above: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class StoragePlan:
    """The plan of all arrays of one storage."""

    storage: str
    arrays: tuple[ArrayPlan, ...]
    #: Why no bytes are shared, or None if they are.
    unshared: str | None
    alignment: int = ALIGNMENT

    def sizes(self, symbols: Mapping[str, int]) -> list[int]:
        """The arrays' bytes."""
        return [_evaluate(array.size, symbols) for array in self.arrays]

    def offsets(self, symbols: Mapping[str, int]) -> list[int]:
        """The arrays' offsets, as the compiled program computes them."""
        padded = [self._pad(size) for size in self.sizes(symbols)]
        offsets: list[int] = [0] * len(padded)
        for index in _upward(self.arrays):
            below = self.arrays[index].above
            offsets[index] = max((offsets[other] + padded[other] for other in below), default=0)
        return offsets

    def bytes(self, symbols: Mapping[str, int]) -> int:
        """What the compiled program asks for."""
        sizes = self.sizes(symbols)
        ends = [offset + self._pad(size) for offset, size in zip(self.offsets(symbols), sizes)]
        return max(ends, default=0)

    def dace_bytes(self, symbols: Mapping[str, int]) -> int:
        """What DaCe alone would ask for: the sum, unaligned."""
        return sum(self.sizes(symbols))

    def lower_bound(self, symbols: Mapping[str, int]) -> int:
        """The most bytes, aligned, that are alive at any step."""
        padded = [self._pad(size) for size in self.sizes(symbols)]
        steps = {array.lifetime[0] for array in self.arrays}
        return max(
            (
                sum(
                    size
                    for array, size in zip(self.arrays, padded)
                    if array.lifetime[0] <= step < array.lifetime[1]
                )
                for step in steps
            ),
            default=0,
        )

    def _pad(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment


@dataclasses.dataclass(frozen=True)
class Plan:
    """What :func:`plan` found for an SDFG."""

    sdfg: str
    storages: tuple[StoragePlan, ...]

    def bytes(self, symbols: Mapping[str, int] | None = None) -> int:
        """What the compiled program asks for, all storages together."""
        return sum(storage.bytes(symbols or {}) for storage in self.storages)


def use_external_memory(sdfg: dace.SDFG) -> list[str]:
    """Gives the SDFG's transient arrays the lifetime ``External``, and says which: those that are outside of maps,
    are no registers, and whose sizes are known when the program begins. Arrays of nested SDFGs stay as they are."""
    known = {str(symbol) for symbol in sdfg.free_symbols}
    kept: set[str] = set()
    used: set[str] = set()
    for state in sdfg.states():
        scopes = state.scope_dict()
        used |= {node.data for node in state.data_nodes()}
        kept |= {node.data for node in state.data_nodes() if scopes[node] is not None}
    changed = []
    for name, array in sdfg.arrays.items():
        if (
            array.transient
            and type(array) is dace.data.Array
            and array.storage
            in (dace.StorageType.Default, dace.StorageType.CPU_Heap, dace.StorageType.GPU_Global)
            and array.lifetime in (dace.AllocationLifetime.Scope, dace.AllocationLifetime.SDFG)
            and name in used
            and name not in kept
            and {str(symbol) for symbol in sympy.sympify(array.total_size).free_symbols} <= known
        ):
            array.lifetime = dace.AllocationLifetime.External
            if array.storage is dace.StorageType.Default:
                array.storage = dace.StorageType.CPU_Heap
            changed.append(name)
    return changed


def plan(
    sdfg: dace.SDFG,
    *,
    symbols: Mapping[str, int] | None = None,
    share: bool = True,
    alignment: int = ALIGNMENT,
) -> Plan:
    """Makes the SDFG's ``External`` transients aligned and lets them share bytes. To be called last, before the
    SDFG is compiled: a transformation after it could move a use of an array to where its bytes are another's.

    ``symbols`` are typical values, by which the planner decides; the plan is right for all values. An SDFG without
    ``External`` transients stays as it is.
    """
    if any(_MARK in code.as_string for code in sdfg.global_code.values()):
        raise ValueError(f"SDFG '{sdfg.name}' is planned already")
    _drop_unused(sdfg)
    _set_storages(sdfg)
    found = _external_arrays(sdfg)
    if not found:
        return Plan(sdfg.name, ())
    reason = None if share else "sharing was not asked for"
    reason = reason or _why_not_shared(sdfg)
    timeline = _Timeline(sdfg)
    if reason is None:
        timeline.enforce()
    generated = _generated_pairs(sdfg)
    storages = []
    code = [f"// {_MARK}, {alignment} bytes aligned\n{_HELPERS}"]
    for storage, arrays in found.items():
        names = generated.get(storage.name)
        if names is None or [name for name, _ in names] != [name for _, name, _ in arrays]:
            _LOG.warning(
                "SDFG '%s': DaCe %s generates other code for %s than is known here, so its transients stay as DaCe"
                " places them, neither aligned nor shared",
                sdfg.name,
                dace.__version__,
                storage.name,
            )
            continue
        unshared = reason
        if storage is dace.StorageType.GPU_Global and not _one_stream():
            unshared = unshared or "the program runs on several streams"
        made = _plan_storage(storage, arrays, timeline, symbols or {}, unshared, alignment)
        storages.append(made)
        code.append(_macros(made, [member for _, member in names], alignment))
        if unshared and share:
            _LOG.warning("SDFG '%s': transients are aligned and not shared: %s", sdfg.name, unshared)
    if storages:
        sdfg.append_global_code("\n".join(code))
    return Plan(sdfg.name, tuple(storages))


def bind(compiled: Any, workspace: Workspace) -> dict[str, int]:
    """Gives a compiled program that was initialised the workspace's memory, and says how many bytes of each storage
    it needs. Call the program under a lease of the workspace."""
    sizes = compiled.get_workspace_sizes()
    for storage, needed in sizes.items():
        on_host = storage is dace.StorageType.CPU_Heap
        if on_host != (workspace.platform == "host"):
            raise ValueError(
                f"SDFG '{compiled.sdfg.name}' needs {needed} bytes of {storage.name}, but the workspace is on"
                f" {workspace.platform} device {workspace.device}"
            )
        if needed > workspace.nbytes:
            raise ValueError(
                f"SDFG '{compiled.sdfg.name}' needs {needed} bytes of {storage.name}, but the workspace of"
                f" {workspace.platform} device {workspace.device} has {workspace.nbytes}; raise its size"
            )
        if not any(_MARK in code.as_string for code in compiled.sdfg.global_code.values()):
            _check_alignment(compiled.sdfg, storage, workspace.ptr, compiled._lastargs)
        compiled.set_workspace(storage, workspace)
    return {storage.name: needed for storage, needed in sizes.items()}


def capture(
    sdfg: dace.SDFG,
    path: str | os.PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    grid: Mapping[str, int] | None = None,
) -> None:
    """Writes the file that ``workslab replay``, ``plan`` and ``size`` read, with the ``External`` transients of the
    SDFG, their lifetimes and their symbolic shapes.

    ``names`` says what the SDFG's symbols are called there: ``cells``, ``edges`` or ``nlev``; ``grid`` is the grid that
    was measured. A dimension must come out as a number, a name, or a name plus or minus a number.
    """
    sdfg = copy.deepcopy(sdfg)
    _set_storages(sdfg)
    timeline = _Timeline(sdfg)
    renamed = {sympy.Symbol(old): sympy.Symbol(new) for old, new in (names or {}).items()}
    transients = []
    for arrays in _external_arrays(sdfg).values():
        for key, name, array in arrays:
            first, end = timeline.lifetime(key)
            transients.append(
                {
                    "name": name,
                    "shape": [_dimension(name, size, renamed) for size in array.shape],
                    "itemsize": array.dtype.bytes,
                    "first_use": first,
                    "last_use": end - 1,
                }
            )
    contents: dict[str, Any] = {"source": f"SDFG '{sdfg.name}', captured by workslab from DaCe {dace.__version__}"}
    if grid is not None:
        contents["grid"] = dict(grid)
    contents["programs"] = [{"program": sdfg.name, "transients": transients}]
    pathlib.Path(path).write_text(json.dumps(contents, indent=1) + "\n")


def _dimension(name: str, size: Any, renamed: Mapping[sympy.Symbol, sympy.Symbol]) -> int | str:
    expression = sympy.sympify(size)
    expression = expression.subs({symbol: sympy.Symbol(str(symbol)) for symbol in expression.free_symbols})
    expression = sympy.expand(expression.subs(renamed))
    if expression.is_Integer:
        return int(expression)
    constant, rest = expression.as_coeff_Add()
    if rest.is_Symbol and sympy.sympify(constant).is_Integer:
        return str(rest) + (f"{int(constant):+d}" if constant else "")
    raise ValueError(
        f"a dimension of '{name}' is {size}, which is no number, symbol, or symbol plus or minus a number; say in"
        " `names` what its symbols are, or specialize the SDFG"
    )


# Which arrays there are


def _drop_unused(sdfg: dace.SDFG) -> None:
    """Takes the lifetime from arrays that nothing uses. For them DaCe generates an assignment to a member that it does
    not declare, and the program cannot be compiled."""
    for inner in sdfg.all_sdfgs_recursive():
        used = {node.data for state in inner.states() for node in state.data_nodes()}
        for name, array in inner.arrays.items():
            if _is_external(array) and name not in used:
                array.lifetime = dace.AllocationLifetime.Scope


def _set_storages(sdfg: dace.SDFG) -> None:
    """Says of each external array where it is, as code generation would do later."""
    for _, _, array in sdfg.arrays_recursive():
        if _is_external(array) and array.storage is dace.StorageType.Default:
            array.storage = dace.StorageType.CPU_Heap


def _is_external(array: dace.data.Data) -> bool:
    return bool(array.transient) and array.lifetime is dace.AllocationLifetime.External


def _external_arrays(
    sdfg: dace.SDFG,
) -> dict[dace.StorageType, list[tuple[_Key, str, dace.data.Data]]]:
    """In the order of DaCe's own functions."""
    found = collections.defaultdict(list)
    for owner, name, array in sdfg.arrays_recursive():
        if _is_external(array):
            found[array.storage].append(((id(owner), name), name, array))
    return dict(found)


def _why_not_shared(sdfg: dace.SDFG) -> str | None:
    if dace.__version__ not in KNOWN_VERSIONS:
        return f"DaCe {dace.__version__} is not among those tried ({', '.join(KNOWN_VERSIONS)})"
    arrays = [array for _, _, array in sdfg.arrays_recursive()]
    if any(isinstance(array, dace.data.Reference) for array in arrays):
        return "it has references, which may point to any array"
    if any(isinstance(array, dace.data.Structure) for array in arrays):
        return "it has structures, which may hold any array"
    storages = {array.storage for array in arrays if _is_external(array)}
    if len(storages) > 1:
        return "it has external arrays in several storages, whose work may overlap"
    names = {name for _, name, array in sdfg.arrays_recursive() if _is_external(array)}
    for inner in sdfg.all_sdfgs_recursive():
        for code in (*inner.init_code.values(), *inner.exit_code.values()):
            if any(re.search(rf"\b(__\d+_)?{re.escape(name)}\b", code.as_string) for name in names):
                return "its initialisation or exit code uses an external array"
    return None


def _one_stream() -> bool:
    return int(dace.Config.get("compiler", "cuda", "max_concurrent_streams")) == -1


def _check_alignment(sdfg: dace.SDFG, storage: dace.StorageType, base: int, last: Any) -> None:
    """DaCe's own placement may put an array where its elements are misaligned. Whether it does can be told only if the
    sizes are numbers."""
    offset = 0
    constants = {name: value for name, value in sdfg.constants.items() if np.isscalar(value)}
    for _, name, array in _external_arrays(sdfg).get(storage, []):
        size = _size(array)
        size = size.subs({s: constants[str(s)] for s in size.free_symbols if str(s) in constants})
        if not size.is_Integer:
            _LOG.warning(
                "SDFG '%s' has external arrays of symbolic size that are not planned, so their alignment is not known",
                sdfg.name,
            )
            return
        needed = _element_alignment(array.dtype)
        if (base + offset) % needed:
            raise ValueError(
                f"DaCe places '{name}' of SDFG '{sdfg.name}' at byte {offset}, which is no multiple of {needed}, the size of"
                f" its {array.dtype.to_string()}; call workslab.dace.plan(sdfg) before it is compiled"
            )
        offset += int(size)


def _element_alignment(dtype: Any) -> int:
    whole = int(dtype.bytes)
    half = dtype in (dace.complex64, dace.complex128)
    return whole // 2 if half else whole & -whole


# When they are alive


class _Timeline:
    """The steps of a program in an order that its code may be generated in, and what uses what."""

    def __init__(self, sdfg: dace.SDFG) -> None:
        self._now = 0
        self._uses: dict[_Key, list[tuple[int, int, bool]]] = collections.defaultdict(list)
        self._orders: list[tuple[dace.SDFGState, list[tuple[Any, Any]]]] = []
        self._walk(sdfg, sdfg)

    def lifetime(self, key: _Key) -> tuple[int, int]:
        """The first step that uses the array, and the one after the last."""
        uses = self._uses.get(key)
        if not uses:
            return (0, 1)  # nobody touches it
        first = min(start for start, _, _ in uses)
        if not any(writes for start, _, writes in uses if start == first):
            return (0, self._now + 1)
        return (first, max(end for _, end, _ in uses))

    def enforce(self) -> None:
        """Makes the order within each state the only one, by edges without data."""
        for state, units in self._orders:
            reached = networkx.DiGraph(state.nx)
            for (_, before), (after, _) in zip(units, units[1:]):
                if not networkx.has_path(reached, before, after):
                    state.add_nedge(before, after, dace.Memlet())
                    reached.add_edge(before, after)

    def _step(self) -> int:
        self._now += 1
        return self._now - 1

    def _use(self, key: _Key, start: int, end: int, *, writes: bool) -> None:
        self._uses[key].append((start, end, writes))

    def _use_symbols(self, sdfg: dace.SDFG, names: Iterable[Any], start: int, end: int) -> None:
        for name in names:
            if str(name) in sdfg.arrays:
                for key in self._keys(sdfg, str(name)):
                    self._use(key, start, end, writes=False)

    def _keys(self, sdfg: dace.SDFG, name: str) -> list[_Key]:
        """The external arrays that a name stands for."""
        if _is_external(sdfg.arrays[name]):
            return [(id(sdfg), name)]
        if isinstance(sdfg.arrays[name], dace.data.View):
            return [(id(sdfg), viewed) for viewed in _viewed(sdfg, name)]
        return []

    def _walk(self, region: Any, sdfg: dace.SDFG) -> None:
        """All blocks of a control flow region. One that may come back to a block is one step for all it uses."""
        start = self._now
        graph = region.nx
        acyclic = networkx.is_directed_acyclic_graph(graph)
        marks = {key: len(uses) for key, uses in self._uses.items()}
        for block in networkx.topological_sort(graph) if acyclic else region.nodes():
            self._block(block, sdfg)
            edges = region.out_edges(block)
            if edges:
                step = self._step()
                for edge in edges:
                    self._use_symbols(sdfg, edge.data.free_symbols, step, step + 1)
        if not acyclic:
            self._spread(marks, start)

    def _spread(self, marks: Mapping[_Key, int], start: int) -> None:
        """What was used since `marks` is used from `start` to now."""
        for key, uses in self._uses.items():
            if len(uses) > marks.get(key, 0):
                writes = any(writes for _, _, writes in uses[marks.get(key, 0) :])
                uses.append((start, max(self._now, start + 1), writes))

    def _block(self, block: Any, sdfg: dace.SDFG) -> None:
        if isinstance(block, dace.SDFGState):
            self._state(block, sdfg)
        elif isinstance(block, regions.ConditionalBlock):
            step = self._step()
            for condition, _ in block.branches:
                if condition is not None:
                    self._use_symbols(sdfg, condition.get_free_symbols(), step, step + 1)
            for _, branch in block.branches:
                self._walk(branch, sdfg)
        elif isinstance(block, regions.AbstractControlFlowRegion):
            # A loop, and whatever else has blocks of its own: it may go round.
            start = self._step()
            marks = {key: len(uses) for key, uses in self._uses.items()}
            self._use_symbols(sdfg, block.used_symbols(all_symbols=True), start, start + 1)
            self._walk(block, sdfg)
            self._step()
            if type(block) is not regions.ControlFlowRegion:
                self._spread(marks, start)
        else:
            self._step()

    def _state(self, state: dace.SDFGState, sdfg: dace.SDFG) -> None:
        start = self._now
        marks = {key: len(uses) for key, uses in self._uses.items()}
        components = sdfg_utils.concurrent_subgraphs(state)
        units: list[tuple[Any, Any]] = []
        steps: dict[Any, tuple[int, int]] = {}
        inside = state.scope_children()
        for node in _generated_order(state, components):
            end_node = state.exit_node(node) if isinstance(node, nodes.EntryNode) else node
            before = self._step()
            if isinstance(node, nodes.NestedSDFG):
                self._walk(node.sdfg, node.sdfg)
            elif isinstance(node, nodes.EntryNode):
                self._scope(state, sdfg, node, inside, before)
            steps[node] = steps[end_node] = (before, self._now)
            if not isinstance(node, nodes.AccessNode) or _copies(state, node):
                units.append((node, end_node))
        for node in inside[None]:
            if isinstance(node, nodes.AccessNode):
                self._access(state, sdfg, node, steps)
        if len(components) > 1 and sdfg.openmp_sections:
            self._spread(marks, start)  # they run at the same time
        else:
            self._orders.append((state, units))

    def _scope(
        self,
        state: dace.SDFGState,
        sdfg: dace.SDFG,
        entry: Any,
        inside: Mapping[Any, list[Any]],
        step: int,
    ) -> None:
        """What is used within a map, all in one step."""
        for node in inside[entry]:
            if isinstance(node, nodes.AccessNode):
                for key in self._keys(sdfg, node.data):
                    self._use(key, step, step + 1, writes=state.in_degree(node) > 0)
            elif isinstance(node, nodes.NestedSDFG):
                for inner, name, array in node.sdfg.arrays_recursive():
                    if _is_external(array):
                        self._use((id(inner), name), step, step + 1, writes=True)
            elif isinstance(node, nodes.EntryNode):
                self._scope(state, sdfg, node, inside, step)

    def _access(
        self,
        state: dace.SDFGState,
        sdfg: dace.SDFG,
        node: nodes.AccessNode,
        steps: Mapping[Any, tuple[int, int]],
    ) -> None:
        own = steps[node]
        for key in self._keys(sdfg, node.data):
            for edge in state.in_edges(node):
                if not edge.data.is_empty():
                    self._use(key, *steps[edge.src], writes=True)
                    self._use(key, *own, writes=True)
            for edge in state.out_edges(node):
                if not edge.data.is_empty():
                    self._use(key, *own, writes=False)
                    self._use(key, *steps[edge.dst], writes=False)


def _generated_order(state: dace.SDFGState, components: Iterable[Any]) -> Iterator[Any]:
    """The nodes outside of scopes as code is generated for them: a depth-first topological order of each
    component. Components may share an access node that all of them read."""
    left = {node for node in state.scope_children()[None] if not isinstance(node, nodes.ExitNode)}
    for component in components:
        sources = [node for node in component.nodes() if component.in_degree(node) == 0]
        for node in sdfg_utils.dfs_topological_sort(component, sources):
            if node in left:
                left.remove(node)
                yield node


def _copies(state: dace.SDFGState, node: nodes.AccessNode) -> bool:
    """Whether data goes to or from another access node, so that code is generated for the node itself."""
    neighbours = (
        *(edge.src for edge in state.in_edges(node) if not edge.data.is_empty()),
        *(edge.dst for edge in state.out_edges(node) if not edge.data.is_empty()),
    )
    return any(isinstance(neighbour, nodes.AccessNode) for neighbour in neighbours)


def _viewed(sdfg: dace.SDFG, view: str) -> set[str]:
    """The external arrays that a view may stand for: all that an access node of it, or of a view that is joined to it,
    is joined to."""
    views, found, pending = {view}, set(), [view]
    while pending:
        name = pending.pop()
        for state in sdfg.states():
            for node in state.data_nodes():
                if node.data != name:
                    continue
                for neighbour in (*state.predecessors(node), *state.successors(node)):
                    if not isinstance(neighbour, nodes.AccessNode):
                        continue
                    array = sdfg.arrays[neighbour.data]
                    if isinstance(array, dace.data.View) and neighbour.data not in views:
                        views.add(neighbour.data)
                        pending.append(neighbour.data)
                    elif _is_external(array):
                        found.add(neighbour.data)
    return found


# Where they lie


def _evaluate(size: sympy.Expr, symbols: Mapping[str, int]) -> int:
    values = {symbol: symbols.get(str(symbol), _guess(str(symbol))) for symbol in size.free_symbols}
    return max(0, int(size.subs(values)))


def _guess(symbol: str) -> int:
    """A sample of a symbol's value, by what GT4Py's and icon4py's programs call theirs: ranges begin at 0, a column has
    65 levels, an index that is of neither the vertical nor the horizontal is of a level near the top."""
    name = symbol.lower()
    if name.endswith("_range_0") or "start" in name:
        return 0
    if "vertical" in name or name in ("nlev", "n_lev"):
        return _LEVELS
    horizontal = ("horizontal", "cell", "edge", "vert")
    if "index" in name and not any(word in name for word in horizontal):
        return _LEVELS // 6
    return _SAMPLE


def _size(array: dace.data.Data) -> sympy.Expr:
    return sympy.sympify(array.total_size) * array.dtype.bytes


def _plan_storage(
    storage: dace.StorageType,
    arrays: list[tuple[_Key, str, dace.data.Data]],
    timeline: _Timeline,
    symbols: Mapping[str, int],
    unshared: str | None,
    alignment: int,
) -> StoragePlan:
    sizes = [_size(array) for _, _, array in arrays]
    lifetimes = [timeline.lifetime(key) for key, _, _ in arrays]
    if unshared is not None:
        lifetimes = [(0, 1)] * len(arrays)
    above: list[tuple[int, ...]] = [()] * len(arrays)
    below: list[int] = []
    for group in _groups(storage, arrays):
        buffers = [(max(1, _evaluate(sizes[index], symbols)), *lifetimes[index]) for index in group]
        offsets = dict(zip(group, plan_offsets(buffers, alignment)[0]))
        for index in group:
            first, end = lifetimes[index]
            above[index] = (
                *below,
                *(
                    other
                    for other in group
                    if lifetimes[other][0] < end
                    and first < lifetimes[other][1]
                    and offsets[other] < offsets[index]
                ),
            )
        below.extend(group)
    planned = tuple(
        ArrayPlan(name, size, lifetime, below)
        for (_, name, _), size, lifetime, below in zip(arrays, sizes, lifetimes, above)
    )
    return StoragePlan(storage.name, planned, unshared, alignment)


def _groups(
    storage: dace.StorageType, arrays: list[tuple[_Key, str, dace.data.Data]]
) -> list[list[int]]:
    """Which arrays may share bytes with each other. In code that one compiler sees as a whole, as it does on the
    host, bytes that change their type would have to rely on what each compiler makes of C++'s rules on aliasing."""
    if storage is dace.StorageType.GPU_Global:
        return [list(range(len(arrays)))]
    groups = collections.defaultdict(list)
    for index, (_, _, array) in enumerate(arrays):
        groups[array.dtype.to_string()].append(index)
    return list(groups.values())


def _upward(arrays: tuple[ArrayPlan, ...]) -> list[int]:
    """The arrays in an order in which those below come first."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(arrays)))
    graph.add_edges_from(
        (other, index) for index, array in enumerate(arrays) for other in array.above
    )
    return list(networkx.lexicographical_topological_sort(graph))


# How the program gets to know

_HELPERS: Final = """\
#ifndef WORKSLAB_PLANNED
#define WORKSLAB_PLANNED
#include <cstddef>
static inline size_t __workslab_max(size_t a, size_t b) { return a < b ? b : a; }
static inline size_t __workslab_pad(long long bytes, size_t to) {
  return bytes > 0 ? ((size_t)bytes + to - 1) / to * to : 0;
}
#endif
"""


def _macros(made: StoragePlan, members: list[str], alignment: int) -> str:
    """The two macros. Each stands where DaCe defines a function, and makes of it the function with the body that is
    wanted, followed by another name for DaCe's own body."""
    lines = []
    for index in _upward(made.arrays):
        array = made.arrays[index]
        size = sym2cpp(array.size)
        lines.append(f"const size_t s{index} = __workslab_pad((long long)({size}), {alignment});")
        lines.append(f"size_t o{index} = 0;")
        lines.extend(
            f"o{index} = __workslab_max(o{index}, o{other} + s{other});" for other in array.above
        )
    indices = range(len(made.arrays))
    total = ["size_t total = 0;", *(f"total = __workslab_max(total, o{i} + s{i});" for i in indices)]
    assign = [f"{member} = decltype({member})(ptr + o{i});" for i, member in enumerate(members)]
    unused = [f"(void)s{i};" for i in indices]

    def macro(function: str, result: str, body: list[str]) -> str:
        name = f"__dace_{function}_external_memory_{made.storage}"
        if function == "get":
            name = f"__dace_get_external_memory_size_{made.storage}"
        text = [
            f"#define {name}(...) {name}(__VA_ARGS__) {{",
            *(f"  {line}" for line in body),
            f"}} [[maybe_unused]] static {result} __workslab_unplanned{name}(__VA_ARGS__)",
        ]
        return " \\\n".join(text) + "\n"

    return macro("get", "size_t", [*lines, *total, "return total;"]) + macro(
        "set", "void", [*lines, *unused, *assign]
    )


def _generated_pairs(sdfg: dace.SDFG) -> dict[str, list[tuple[str, str]]]:
    """For each storage what DaCe's own function sets, in its order: an array's name, and the member of the state."""
    trial = dace.SDFG.from_json(json.loads(json.dumps(sdfg.to_json())))
    trial.fill_scope_connectors()
    frame = codegen.generate_code(trial, validate=False)[0].clean_code
    pairs: dict[str, list[tuple[str, str]]] = {}
    pattern = r"void __dace_set_external_memory_(\w+)\((.*?)\)\s*\{(.*?)\n\s*\}"
    for storage, _, body in re.findall(pattern, frame, flags=re.DOTALL):
        members = re.findall(r"(__state->__\d+_(\w+)) = decltype\(\1\)\(ptr \+ ", body)
        if len(members) == body.count("decltype("):
            pairs[storage] = [(name, member) for member, name in members]
    return pairs
