"""The figures of a report by DuckDB, without Java: the same answers as Spark's, from the same files."""
