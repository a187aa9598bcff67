"""Distributed traces: W3C trace contexts, and spans that are exported by OTLP. Off unless CNS_OTEL_ENDPOINT is set."""
