"""03: diffusion by GT4Py, with a halo exchange on a stream of its own between two steps.

Needs GT4Py with DaCe and a C++ compiler. The streams are the host's here; on a GPU the lease orders real ones.
"""

import gt4py.next as gtx
import numpy as np

import workslab
from workslab.gt4py import make_dace_backend

SIDE, STEPS = 40, 20

I = gtx.Dimension("I")  # noqa: E741
J = gtx.Dimension("J")
Field = gtx.Field[gtx.Dims[I, J], gtx.float64]


@gtx.field_operator
def laplacian(f: Field) -> Field:
    return f(I + 1) + f(I - 1) + f(J + 1) + f(J - 1) - 4.0 * f


@gtx.field_operator
def diffused(f: Field) -> Field:
    return f - 0.01 * laplacian(laplacian(f))


@gtx.program
def diffuse(f: Field, out: Field, n: gtx.int32):
    diffused(f, out=out, domain={I: (2, n - 2), J: (2, n - 2)})


def exchange_halo(values):
    """What neighbours would send: here both sides are periodic."""
    values[:2], values[-2:] = values[-4:-2], values[2:4]
    values[:, :2], values[:, -2:] = values[:, -4:-2], values[:, 2:4]


def lap(f):
    """The same with numpy, to compare."""
    return f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2] - 4 * f[1:-1, 1:-1]


def main():
    config = workslab.BackendConfig(workspace_size="4MiB")
    backend = make_dace_backend(config=config)
    (workspace,) = backend.external_workspace.values()
    allocator = workslab.ExternalWorkspaceAllocator("host")
    communication = allocator.create_stream(0)
    # The exchange has a buffer of its own in the same slab, which no program's transients reach.
    buffer = workspace.reserve("halo", SIDE * SIDE * 8)

    start = np.random.default_rng(0).random((SIDE, SIDE))
    exchange_halo(start)
    want = start.copy()
    fields = [gtx.as_field([I, J], start), gtx.as_field([I, J], start)]
    program = diffuse.with_backend(backend)
    for step in range(STEPS):
        now, then = fields[step % 2], fields[(step + 1) % 2]
        program(now, then, np.int32(SIDE), offset_provider={})
        with workspace.lease(communication):
            packed = np.from_dlpack(buffer)[: SIDE * SIDE * 8].view(np.float64).reshape(SIDE, SIDE)
            packed[:] = then.ndarray
            exchange_halo(packed)
            then.ndarray[:] = packed
        want[2:-2, 2:-2] -= 0.01 * lap(lap(want))
        exchange_halo(want)

    found = fields[STEPS % 2].asnumpy()
    error = abs(found - want).max()
    print(f"{STEPS} steps, largest difference from numpy {error:.1e}")
    print(workspace.statistics())
    assert error < 1e-12


# GT4Py compiles in processes of their own, which read this file again.
if __name__ == "__main__":
    main()
