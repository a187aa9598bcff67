"""LocalStack's pages, so that scripts and tools made for LocalStack work here unchanged."""
