"""Several Redis servers: which of them has a queue's cache, and what is done when that changes. ADR 0023 has the
reasons."""
