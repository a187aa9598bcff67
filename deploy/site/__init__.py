"""The documentation as a site: its pages, their links, and the reference that is generated from the code.

`python -m deploy.site` writes what MkDocs builds from; `make site` builds it.
"""
