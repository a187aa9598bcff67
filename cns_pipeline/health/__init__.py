"""The health of endpoints: judged against daily history, for people and for workers."""
