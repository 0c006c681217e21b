"""A program of GT4Py that the tests compile, and what numpy makes of it."""

import gt4py.next as gtx
import numpy as np

SIDE = 20

I = gtx.Dimension("I")  # noqa: E741
J = gtx.Dimension("J")
Field = gtx.Field[gtx.Dims[I, J], gtx.float64]


@gtx.field_operator
def lap(f: Field) -> Field:
    return f(I + 1) + f(I - 1) + f(J + 1) + f(J - 1) - 4.0 * f


@gtx.field_operator
def lap_of_lap_of_lap(f: Field) -> Field:
    return lap(lap(lap(f)))


@gtx.program
def smooth(f: Field, out: Field, n: gtx.int32):
    lap_of_lap_of_lap(f, out=out, domain={I: (3, n - 3), J: (3, n - 3)})


def numpy_lap(f):
    return f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2] - 4 * f[1:-1, 1:-1]


def smoothed(backend, times=1, side=SIDE):
    """Runs the program on memory of the backend's device, and compares with numpy."""
    f = gtx.as_field([I, J], np.random.default_rng(1).integers(0, 9, (side, side)).astype(float), allocator=backend)
    out = gtx.zeros({I: side, J: side}, dtype=gtx.float64, allocator=backend)
    program = smooth.with_backend(backend)
    for _ in range(times):
        program(f, out, np.int32(side), offset_provider={})
    want = numpy_lap(numpy_lap(numpy_lap(f.asnumpy())))
    assert (out.asnumpy()[3:-3, 3:-3] == want).all()
    return out
