"""The report as one self-contained HTML page, with charts as inline SVG."""
