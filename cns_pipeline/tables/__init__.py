"""Tables of Parquet batches: what a manifest names is in the table, whatever else is below its directory."""
