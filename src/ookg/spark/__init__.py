"""Vectors and answers for newcomers by the million, on the DataFrames of Apache Spark (docs/spark.md).

Only the command line, and users, import this. It needs the extra `spark`.
"""

from ookg.spark.frames import embed, predict

__all__ = ["embed", "predict"]
