"""What all tests have: an allocator of the host, whose workspaces are gone when the test ends."""

import gc
from collections.abc import Iterator

import pytest

import workslab


@pytest.fixture
def allocator() -> Iterator[workslab.ExternalWorkspaceAllocator]:
    made = workslab.ExternalWorkspaceAllocator("host")
    yield made
    gc.collect()
    for device in range(made.device_count):
        made.release(device)
