"""Rules that find faults in the documents of report, health job and audit, and state them in words."""
