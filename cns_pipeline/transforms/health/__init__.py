"""The health of endpoints: their results in slots of time, compared with their history."""
