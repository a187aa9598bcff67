"""Reports: the document, the files and page made from it, and its findings in words."""
