"""The reason of a job that failed in Spark, in one line: texts as Spark 4 and py4j give them, shortened."""

from __future__ import annotations

import pytest

from cns_pipeline.session import reason_of

CALL = """An error occurred while calling o6264.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/out. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:774)
"""
FULL = """Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
\tat org.apache.hadoop.fs.RawLocalFileSystem.write(RawLocalFileSystem.java:250)
Caused by: java.io.IOException: No space left on device
\t... 41 more
"""
BATCH = """[STREAM_FAILED] Query [id = 1] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error \
occurred in the user provided function in foreach batch sink. Reason: An exception was raised by the Python Proxy. \
Return Message: Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CALL + FULL, "java.io.IOException: No space left on device"),
        (f"{BATCH}py4j.protocol.Py4JJavaError: {CALL}{FULL}", "java.io.IOException: No space left on device"),
        (
            f"{BATCH}OSError: [Errno 28] No space left on device\n\nSQLSTATE: 39000",
            "OSError: [Errno 28] No space left on device",
        ),
        (CALL, CALL.splitlines()[1].removeprefix(": ")),
        ("[PATH_NOT_FOUND] Path does not exist: /x.\nJVM stacktrace:", "[PATH_NOT_FOUND] Path does not exist: /x."),
        ("", "Exception"),
    ],
)
def test_the_reason_of_a_failed_job_is_its_cause(text: str, reason: str) -> None:
    assert reason_of(Exception(text)) == reason
