"""The figures of a report: one list of SQL statements for Spark and DuckDB."""
