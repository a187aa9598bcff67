"""HTML and SVG as a tree of elements: text is escaped when the tree is written, wherever it came from."""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

Child = Element | str | None
Attribute = str | float | None

DOCTYPE = "<!DOCTYPE html>\n"


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Element:
    """Make an element. `class_` is the attribute `class`, `stroke_width` is `stroke-width`; None is left out."""
    element = Element(name, {_name(key): _text(value) for key, value in attributes.items() if value is not None})
    add(element, *children)
    return element


def add(element: Element, *children: Child) -> None:
    """Append elements and texts in their order."""
    for child in children:
        if isinstance(child, str):
            _append_text(element, child)
        elif child is not None:
            element.append(child)


def write_html(root: Element) -> str:
    return DOCTYPE + tostring(root, encoding="unicode", method="html") + "\n"


def _append_text(element: Element, text: str) -> None:
    if len(element):
        last = element[-1]
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")


def _text(value: str | float) -> str:
    """Coordinates have one digit after the point: a tenth of a pixel."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
