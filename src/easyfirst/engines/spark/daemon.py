"""Spark's server of Python workers, with everything loaded that a fit needs.

Each executor forks its Python workers from one process. Where that process has loaded easyfirst
already, a new worker, also one that replaces a dead one, is ready at once instead of after a
second or more. To use it, set `spark.python.daemon.module` to `easyfirst.engines.spark.daemon`
when the session is made.
"""

import importlib

LOADED = ("easyfirst.estimators", "easyfirst.engines.spark", "pandas", "pyarrow.parquet")

if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    importlib.import_module("pyspark.daemon").manager()
