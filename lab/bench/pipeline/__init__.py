"""Measures the pipeline on made events: ingest, report and audit by Spark, beside DuckDB on the same files."""
