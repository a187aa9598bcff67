"""The synchronous client is what its generator makes of the asynchronous one."""

from __future__ import annotations

from deploy.sync_client import TARGET, generate


def test_it_is_generated_from_the_async_client() -> None:
    stored = {path.name: path.read_text() for path in sorted(TARGET.glob("*.py"))}
    assert stored == generate(), "run `make format`"
