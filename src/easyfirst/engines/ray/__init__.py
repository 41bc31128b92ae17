"""Batches on a Ray cluster that is running already.

Every batch is an object in Ray's store; actors, one per CPU, keep what they made of it. Ray starts
a dead actor again and the driver gives its batches to the others meanwhile, so a lost worker costs
a reload and nothing else. Actors rather than tasks, because Ray sends a task to any process, and
what that process remembers is seldom what the task needs. Loaded only when asked for; needs the
'ray' extra.
"""

from easyfirst.engines.ray.engine import RayEngine, RayWorkers

__all__ = ["RayEngine", "RayWorkers"]
