"""How a notification leaves: one sender per kind of endpoint, and what came of it as a value."""
