"""The report as one self-contained HTML page: no file but itself, charts as inline SVG."""
