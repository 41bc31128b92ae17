"""Batches on a Dask cluster: loaded by tasks that Dask can run again, worked on where they are.

Each batch is the result of a load task, never data pushed from the driver to a worker, so a dead
worker costs a reload and nothing else. A step is one task and one reply per worker, whatever the
number of its batches. `workers.py` is the driver's side, `tasks.py` what runs on the workers.
Loaded only when asked for; needs the 'dask' extra.
"""

from easyfirst.engines.dask.engine import DaskEngine

__all__ = ["DaskEngine"]
