"""Redis: addresses, clients, pipelines and Sentinels."""
