"""Health of endpoints: kept per day, judged, and told to people and to workers."""
