"""Endpoint protocols: a module for each, and the table that names them."""
