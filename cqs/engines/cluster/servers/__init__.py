"""Several Redis servers: which of them has a queue's cache, and what is done when that changes. ADR 0037 has the
reasons."""
