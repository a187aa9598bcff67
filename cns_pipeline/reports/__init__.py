"""Reports: their document, the files and the page made from it, and what it says in words."""
