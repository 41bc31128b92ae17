"""Spark DataFrames: partitions become batches, and stay on the executors.

Loaded only when a Spark frame is given; needs the 'spark' extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from easyfirst.contracts import Batch, HeldPartition, Vector
from easyfirst.sources.columns import Columns, columns_of_fit
from easyfirst.transforms import IDENTITY, TargetTransform

# Types that a fit can use as they are, and those that become doubles first.
FLOATS = ("float", "double")
OTHER_NUMBERS = ("tinyint", "smallint", "int", "bigint", "boolean")


class SparkSource:
    """The partitions of a Spark DataFrame; the arguments are those of `easyfirst.read_frame`.

    The rows are read twice: once to count them, once to keep them where they were read. So the
    frame must hold the same rows in the same partitions whenever Spark computes it. Tables in
    files do; after a shuffle (join, groupBy, repartition) the order within a partition may change
    from one reading to the next, and with it the last bits of a fit: sort within partitions,
    `cache()` or `checkpoint()` such a frame first.
    """

    def __init__(
        self,
        frame: Any,
        target: str,
        features: Sequence[str] | None = None,
        row_id: str | None = None,
        sample_weight: str | None = None,
    ) -> None:
        self.columns = Columns.choose(frame.columns, target, features, row_id, sample_weight)
        self.feature_names = self.columns.features
        self.frame = _numbers_of(frame, self.columns)

    def partitions(self) -> list[HeldPartition]:
        """Return one descriptor per partition of the frame that has rows."""
        return [
            HeldPartition((self.frame, part), _ReadPartition(self.columns, part, n_rows))
            for part, n_rows in self._rows_by_partition
        ]

    @cached_property
    def _rows_by_partition(self) -> list[tuple[int, int]]:
        """Count the rows of every partition, in the order of the partitions."""
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        # The hash needs every column, which keeps Spark from dropping some and thereby cutting
        # the rows into other partitions than those that will be read.
        content = F.max(F.xxhash64(*self.frame.columns))
        counted = self.frame.groupBy(F.spark_partition_id().alias("part")).agg(
            F.count(F.lit(1)).alias("n_rows"), content.alias("content")
        )
        counts = [(int(row["part"]), int(row["n_rows"])) for row in counted.collect()]
        if not counts:
            raise ValueError("the Spark DataFrame has no rows")
        return sorted(counts)


@dataclass(frozen=True)
class _ReadPartition:
    columns: Columns
    part: int
    n_rows: int

    def __call__(self, table: Any) -> Batch:
        if isinstance(table, tuple):
            raise TypeError(
                "the rows of a Spark DataFrame are fitted where they are: use engine='spark' or "
                "engine=SparkEngine(session)"
            )
        place = f"partition {self.part} of the Spark DataFrame"
        found = 0 if table is None else table.num_rows
        if found != self.n_rows:
            raise ValueError(
                f"{place} had {self.n_rows} rows when they were counted and {found} when they were "
                f"read: the frame changes from one computation to the next, so cache() or "
                f"checkpoint() it first"
            )
        return self.columns.batch(table.rename_columns(self.columns.names), place)


def predict(
    frame: Any,
    coef: Vector,
    intercept: float,
    names: Sequence[str] | None,
    transform: TargetTransform = IDENTITY,
) -> Any:
    """Return the frame with a column "prediction" more, not yet computed.

    The prediction is an expression of columns: executors compute it without Python, and Spark
    optimises it along with the rest of the query. A missing value gives a missing prediction.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    wanted = columns_of_fit(frame.columns, names, coef.size)
    terms = [
        frame[_quoted(name)].cast("double") * F.lit(value)
        for name, value in zip(wanted, coef.tolist(), strict=True)
    ]
    linear = _sum([*terms, F.lit(float(intercept))])
    if transform.name == "log":
        linear = F.exp(linear)
    elif transform.name == "sqrt":
        root = F.when(linear < 0.0, F.lit(0.0)).otherwise(linear)
        linear = root * root
    return frame.withColumn("prediction", linear)


def _sum(terms: Sequence[Any]) -> Any:
    """Add up in pairs: a chain of thousands of additions is too deep for Spark's optimiser."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return _sum(terms[:half]) + _sum(terms[half:])


def _numbers_of(frame: Any, columns: Columns) -> Any:
    """Return the needed columns alone, with numbers as floats; refuse what is not a number.

    They get plain names meanwhile: Spark takes dots and backticks in a name for syntax.
    """
    kinds = dict(frame.dtypes)
    chosen = []
    for place, name in enumerate(columns.names):
        column = frame[_quoted(name)]
        if name != columns.row_id and kinds[name] not in FLOATS:
            _require_number(name, kinds[name])
            column = column.cast("double")
        chosen.append(column.alias(f"column_{place}"))
    return frame.select(*chosen)


def _require_number(name: str, kind: str) -> None:
    if kind in OTHER_NUMBERS or kind.startswith("decimal"):
        return
    advice = "encode it first"
    if kind == "vector":
        advice = "take it apart first, with pyspark.ml.functions.vector_to_array and getItem"
    raise ValueError(f"column {name!r} of the Spark DataFrame holds {kind}, not numbers: {advice}")


def _quoted(name: str) -> str:
    """Return the name such that dots in it are not taken for access to fields."""
    return "`" + name.replace("`", "``") + "`"
