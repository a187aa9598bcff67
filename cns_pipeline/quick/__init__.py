"""The figures of a report by DuckDB, without Java: the same as Spark's, from the same files."""
