"""The archives of topics as a Parquet table: written by Spark, read again by `cns replay --from-table`."""

PAGE_MESSAGES = 500
"""Messages of one read of the service's store."""
