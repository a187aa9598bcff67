"""The archives of topics as a Parquet table: written by Spark, read again by `cns replay --from-table`."""

PAGE_MESSAGES = 500
"""The number of messages in one read of the service's store."""
