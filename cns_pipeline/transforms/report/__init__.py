"""The figures of a report, as one list of SQL statements for Spark and DuckDB."""
