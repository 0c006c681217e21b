"""What the scripts beside it share: programs of icon4py's dynamical core, and arguments of the right types and shapes.

The grid is icon4py's simple one, or many of it side by side.
"""

import dataclasses
from importlib import import_module
from typing import Any

import gt4py.next as gtx
import numpy as np
from gt4py.next.type_system import type_specifications as ts
from icon4py.model.common.grid import simple

STENCILS = "icon4py.model.atmosphere.dycore.stencils"
#: The programs that a time step of the dynamical core calls, by the module that they are in.
PROGRAMS = {
    "compute_diagnostics_from_normal_wind": ("compute_diagnostics_from_normal_wind",),
    "compute_advection_in_vertical_momentum_equation": (
        "compute_advection_in_predictor_vertical_momentum",
        "compute_advection_in_corrector_vertical_momentum",
    ),
    "compute_advection_in_horizontal_momentum_equation": ("compute_advection_in_horizontal_momentum",),
    "compute_cell_diagnostics_for_dycore": (
        "compute_perturbed_quantities_and_interpolation",
        "compute_interpolation_and_nonhydro_buoy",
    ),
    "compute_edge_diagnostics_for_dycore_and_update_vn": (
        "compute_rho_theta_pgrad_and_update_vn",
        "apply_divergence_damping_and_update_vn",
    ),
    "compute_horizontal_velocity_quantities": (
        "compute_horizontal_velocity_quantities_and_fluxes",
        "compute_averaged_vn_and_fluxes",
    ),
    "vertically_implicit_dycore_solver": (
        "vertically_implicit_solver_at_predictor_step",
        "vertically_implicit_solver_at_corrector_step",
    ),
}
#: What a number means that is neither an index nor a size.
CHOICES = {"igradp_method": 3, "divdamp_order": 24}
#: What a program cannot do without: this one reads the level above the one that it writes, so icon4py begins at 1.
NEEDED = {"compute_interpolation_and_nonhydro_buoy": {"vertical_start": np.int32(1)}}


def chosen(parts, parser):
    """The programs whose name has one of the parts, all if there are none, as pairs of name and program."""
    names = [(module, name) for module, names in PROGRAMS.items() for name in names]
    found = [(module, name) for module, name in names if not parts or any(part in name for part in parts)]
    if not found:
        parser.error(f"no program has {' or '.join(parts)} in its name; there are {', '.join(n for _, n in names)}")
    return [(name, getattr(import_module(f"{STENCILS}.{module}"), name)) for module, name in found]


@dataclasses.dataclass(frozen=True)
class Grid:
    """Extents by the names of the dimensions, and GT4Py's offset provider."""

    sizes: dict
    tables: dict
    levels: int
    #: The backend on whose device the tables are, and the fields will be.
    allocator: Any


def grid(allocator, copies=1, levels=10):
    """Icon4py's simple grid, so many times; no copy has a neighbour in another one."""
    one = simple.simple_grid()
    sizes = {"Cell": one.num_cells, "Edge": one.num_edges, "Vertex": one.num_vertices}
    tables, lengths = {}, {"K": levels + 1} | {name: size * copies for name, size in sizes.items()}
    for name, table in one.connectivities.items():
        lengths[name] = table.ndarray.shape[1]
        shifts = np.arange(copies, dtype=np.int32) * sizes[table.codomain.value]
        shifted = np.where(table.ndarray < 0, table.ndarray, table.ndarray + shifts[:, None, None])
        values = shifted.reshape(-1, lengths[name]).astype(np.int32)
        tables[name] = gtx.as_connectivity(
            list(table.domain.dims), table.codomain, values, skip_value=table.skip_value, allocator=allocator
        )
    return Grid(lengths, tables, levels, allocator)


def field(random, name, of, grid):
    shape = [grid.sizes[dimension.value] for dimension in of.dims]
    kind = of.dtype.kind.name
    if kind == "BOOL":
        values = random.uniform(size=shape) > 0.5
    elif kind.startswith("FLOAT"):
        values = random.uniform(0.5, 1.5, shape)
    else:
        values = random.integers(0, grid.levels, shape).astype(np.int32)
        if "offset" in name:
            values -= np.arange(shape[-1], dtype=np.int32)  # from a level to any other
    return gtx.as_field(list(of.dims), values, allocator=grid.allocator)


def scalar(name, of, grid):
    kind = of.kind.name
    if kind == "BOOL":
        return "skip" not in name
    if kind.startswith("FLOAT"):
        return np.float64(0.5)
    if name in CHOICES:
        return np.int32(CHOICES[name])
    if "start" in name or "top" in name:
        return np.int32(0)
    if "edge" in name:
        return np.int32(grid.sizes["Edge"])
    if "cell" in name or "horizontal" in name:
        return np.int32(grid.sizes["Cell"])
    return np.int32(grid.levels if "vertical" in name or "surface" in name else 1)


def arguments(program, grid):
    """Values of the right types and shapes; the same whenever they are made."""
    random = np.random.default_rng(0)
    made = {}
    for parameter in program.past_stage.past_node.params:
        of, name = parameter.type, parameter.id
        if isinstance(of, ts.TupleType):
            made[name] = tuple(field(random, name, one, grid) for one in of.types)
        elif isinstance(of, ts.FieldType):
            made[name] = field(random, name, of, grid)
        else:
            made[name] = scalar(name, of, grid)
    return made | NEEDED.get(program.past_stage.past_node.id, {})


def arrays(values):
    """The arrays of all fields among arguments."""
    flat = []
    for value in values.values():
        flat.extend(value if isinstance(value, tuple) else [value])
    return [one.asnumpy() for one in flat if hasattr(one, "asnumpy")]
