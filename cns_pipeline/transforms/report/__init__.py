"""The frames of the report. Cells are counts by hour, topic and target, small enough to add up in many ways."""
