"""Celery's queues: a worker takes only the tasks of its roles."""

from __future__ import annotations

from collections.abc import Sequence

from cns_common.worker_roles import WorkerRole

TASKS = "cns-tasks"
"""The queue of the role maintenance, to which all tasks go."""


def queues_of(roles: Sequence[WorkerRole]) -> list[str]:
    """The queues that a worker consumes. Celery wants at least one; nothing is sent to those of the other roles."""
    return [TASKS if role is WorkerRole.MAINTENANCE else f"cns-{role}" for role in roles]
