"""GT4Py's DaCe backend with a workspace. Programs are compiled, so these tests take a while."""

import concurrent.futures
import gzip
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import workslab

pytest.importorskip("dace", reason="DaCe is not installed")
pytest.importorskip("gt4py.next", reason="GT4Py is not installed")

from gt4py._core import definitions as core_defs  # noqa: E402
from gt4py.next.program_processors.runners.dace import make_dace_backend as theirs  # noqa: E402
from stencils import smoothed  # noqa: E402

from workslab import gt4py as ours  # noqa: E402

VARIABLE = "ICON4PY_BACKEND_WORKSPACE_SIZE"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    for name in (VARIABLE, "WORKSLAB_WORKSPACE_SIZE", "WORKSLAB_PLATFORM"):
        monkeypatch.delenv(name, raising=False)


def config(size="1MiB"):
    return workslab.BackendConfig(workspace_size=size)


def test_a_program_runs_in_the_workspace():
    backend = ours.make_dace_backend(config=config())
    (workspace,) = backend.external_workspace.values()
    np.from_dlpack(workspace)[:] = 0xA5
    before = workspace.statistics()
    smoothed(backend, times=3)
    after = workspace.statistics()
    assert after["leases"] - before["leases"] == 3
    named = {program["name"]: program["leases"] for program in before["programs"]}
    (program,) = (program for program in after["programs"] if program["leases"] != named.get(program["name"], 0))
    assert "smooth" in program["name"]
    assert program["leases"] - named.get(program["name"], 0) == 3
    assert (np.from_dlpack(workspace) != 0xA5).any()


def test_the_workspace_of_gt4pys_own_backend_can_be_ours():
    memory = ours.external_workspace(config())
    assert list(memory) == [core_defs.DeviceType.CPU]
    mode = {"transient_memory_mode": ours.TransientMemoryMode.EXTERNAL}
    smoothed(theirs(gpu=False, external_workspace=memory, optimization_args=mode))


def test_without_a_size_it_is_gt4pys_own_backend(monkeypatch):
    assert ours.external_workspace() is None
    assert type(ours.make_dace_backend()) is type(theirs(gpu=False))
    with pytest.raises(ValueError, match=VARIABLE):
        ours.make_dace_backend(optimization_args={"transient_memory_mode": ours.TransientMemoryMode.EXTERNAL})
    monkeypatch.setenv(VARIABLE, "1048576")
    (workspace,) = ours.external_workspace().values()
    assert workspace.nbytes == 1 << 20
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(ValueError, match=VARIABLE):
        ours.make_dace_backend()


@pytest.mark.parametrize("mode", [mode for mode in ours.TransientMemoryMode if mode.name != "EXTERNAL"])
def test_another_mode_than_external_is_refused(mode):
    with pytest.raises(ValueError, match=mode.name):
        ours.make_dace_backend(config=config(), optimization_args={"transient_memory_mode": mode})


def test_what_contradicts_is_refused():
    with pytest.raises(ValueError, match="auto_optimize"):
        ours.make_dace_backend(config=config(), auto_optimize=False)
    with pytest.raises(TypeError, match="workspace is made here"):
        ours.make_dace_backend(config=config(), external_workspace={})
    with pytest.raises(ValueError, match="cuda"):
        ours.make_dace_backend(config=workslab.BackendConfig(workspace_size=1 << 20, platform="cuda"))
    with pytest.raises(ValueError, match="host"):
        ours.make_dace_backend(gpu=True, config=workslab.BackendConfig(workspace_size=1 << 20, platform="host"))


def test_a_workspace_that_is_too_small_says_so():
    allocator = workslab.ExternalWorkspaceAllocator("host")
    allocator.release(0)
    backend = ours.make_dace_backend(config=config("1KiB"))
    with pytest.raises(ValueError, match="1024"):
        smoothed(backend)
    del backend
    allocator.release(0)


def test_a_lease_that_the_thread_holds_will_do():
    backend = ours.make_dace_backend(config=config())
    (workspace,) = backend.external_workspace.values()
    with workspace.lease():
        smoothed(backend)


def test_threads_take_turns():
    backend = ours.make_dace_backend(config=config())
    smoothed(backend)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(smoothed, backend, 200) for _ in range(2)]:
            done.result()


#: A process of its own, since GT4Py reads its mode when it is imported. The spawned ones of its pool read this too.
IN_A_PROCESS = """
import test_gt4py as test

def main():
    backend = test.ours.make_dace_backend(config=test.config())
    (workspace,) = backend.external_workspace.values()
    test.np.from_dlpack(workspace)[:] = 0xA5
    test.smoothed(backend, times=3)
    assert workspace.statistics()["leases"] == 3
    assert (test.np.from_dlpack(workspace) != 0xA5).any()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("mode", ["serial", "thread", "process"])
def test_the_plan_goes_with_the_program_in_every_build_mode(tmp_path, mode):
    (tmp_path / "script.py").write_text(IN_A_PROCESS)
    environment = os.environ | {
        "GT4PY_BUILD_JOBS_MODE": mode,
        "GT4PY_BUILD_CACHE_LIFETIME": "persistent",
        "GT4PY_BUILD_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(pathlib.Path(__file__).parent),
    }

    def libraries():
        run = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert "WARNING" not in run.stderr and "calling thread" not in run.stderr
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")}

    built = libraries()
    assert built
    compiled = [gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("program.sdfgz")]
    assert any(b"workslab: transients planned" in sdfg for sdfg in compiled)
    assert libraries() == built, "the second process takes what the first one built"
