"""The archives of topics as a Parquet table: written by Spark, read again by `cns replay --from-table`."""
