"""Rules that find faults in the documents of the report, the health job and the audit, and say them in words."""
