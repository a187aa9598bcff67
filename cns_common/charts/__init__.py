"""Static charts as SVG: of the report, the pages and the lab."""
