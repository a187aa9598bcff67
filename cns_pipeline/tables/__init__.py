"""Tables of Parquet batches: a table has the files that its manifest names, and no others."""
