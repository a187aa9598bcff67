"""Large sets of filtered subscriptions, each with a message that exactly ten of them match by different policies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cns.filters.limits import FilterLimits
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Filter, Scope
from cns.filters.parser import read_filter

MATCHING = 10
ANY = FilterLimits(keys=100, complexity=1_000_000)

Policy = dict[str, Any]


class Mix(msgspec.Struct, frozen=True):
    """Policies by number: ten of them name each place. The message names one place."""

    name: str
    policy: Callable[[int, int], Policy]
    attributes: dict[str, tuple[str, str]] | None = None
    body: Policy | None = None

    @property
    def scope(self) -> Scope:
        return Scope.ATTRIBUTES if self.body is None else Scope.BODY

    def policies(self, numbers: range) -> Iterator[Filter]:
        for number in numbers:
            yield read_filter(json.dumps(self.policy(*divmod(number, MATCHING))), self.scope, limits=ANY)[1]

    def message_values(self) -> MessageValues:
        found = attribute_values(self.attributes or {}) if self.body is None else body_values(json.dumps(self.body))
        assert found is not None
        return found


def _exact(place: int, copy: int) -> Policy:
    return {"store": [f"s{place}", f"own-{place}-{copy}"]}


def _two_exact(place: int, copy: int) -> Policy:
    return {"a": [f"a{place % 100}"], "b": [f"b{place // 100}", f"own-{copy}"]}


def _many_values(place: int, copy: int) -> Policy:
    """The first value of each list differs between policies; many policies share the others."""
    noise = [f"noise-{(place + k * 7) % 500}" for k in range(10)]
    return {"a": [f"a{place % 100}", *noise], "b": [f"b{place // 100}", f"own-{copy}", *noise]}


def _prefix(place: int, copy: int) -> Policy:
    return {"sku": [{"prefix": f"part-{place}-{'x' * copy}"}]}


def _suffix(place: int, copy: int) -> Policy:
    return {"sku": [{"suffix": f"{'x' * copy}-{place}-part"}]}


def _no_case(place: int, copy: int) -> Policy:
    return {"sku": [{"equals-ignore-case": f"Part-{place}"}, f"own-{copy}"]}


def _wildcard(place: int, copy: int) -> Policy:
    return {"path": [{"wildcard": f"/shop/{place}/*.jpg"}], "kind": ["photo", f"own-{copy}"]}


def _range(place: int, copy: int) -> Policy:
    """Each range overlaps with nine others."""
    least = place * MATCHING + copy
    return {"price": [{"numeric": [">=", least, "<", least + MATCHING]}]}


def _box(place: int, copy: int) -> Policy:
    north, east = place // 100, place % 100 + copy / 20
    return {
        "latitude": [{"numeric": [">=", north, "<", north + 1]}],
        "longitude": [{"numeric": [">", east - 0.5, "<", east + 0.5]}],
    }


def _above(place: int, copy: int) -> Policy:
    return {"load": [{"numeric": [">", place * MATCHING + copy]}]}


def _above_in_zone(place: int, copy: int) -> Policy:
    """Each zone has a hundred policies."""
    return {"load": [{"numeric": [">", place % 10 * 10 + copy]}], "zone": [f"z{place // 10}"]}


def _anything_but(place: int, copy: int) -> Policy:
    return {"kind": [{"anything-but": ["draft", f"own-{copy}"]}], "store": [f"s{place}"]}


def _or(place: int, copy: int) -> Policy:
    return {"kind": ["sale", f"own-{copy}"], "$or": [{"store": [f"s{place}"]}, {"owner": [{"prefix": f"o{place}-"}]}]}


def _nested(place: int, copy: int) -> Policy:
    return {"order": {"customer": {"id": [place]}, "total": [{"numeric": [">=", copy]}]}, "kind": ["sale"]}


def _array(place: int, copy: int) -> Policy:
    """Two of its neighbours' have the colour in one member of the message's array, the part in another."""
    colour = "red" if place % 2 or copy < 2 else "green"
    return {"items": {"sku": [f"part-{place}"], "colour": [colour, f"own-{copy}"]}}


def _cidr(place: int, copy: int) -> Policy:
    return {"source": [{"cidr": f"10.{place // 256}.{place % 256}.0/{24 + copy % 4}"}, f"own-{copy}"]}


def _own_keys(place: int, copy: int) -> Policy:
    return {f"key-{place}": [{"exists": True}], "kind": ["sale", f"own-{copy}"]}


def _all_operators(place: int, copy: int) -> Policy:
    """Policies that ask for the same message in different ways and orders."""
    asked = {
        "store": [[f"s{place}"], [{"prefix": f"s{place}"}], [{"anything-but": f"s{place + 1}"}]],
        "total": [[{"numeric": [">=", place, "<", place + 1]}], [{"numeric": ["<", place + 1]}], [{"exists": True}]],
        "owner": [[{"equals-ignore-case": f"O{place}"}], [{"suffix": f"o{place}"}], [f"o{place}", f"own-{copy}"]],
    }
    return {path: ways[(place // 3**k + copy) % 3] for k, (path, ways) in enumerate(asked.items())} | {
        "id": [place, f"own-{copy}"]
    }


MIXES = [
    Mix("one exact key", _exact, {"store": ("String", "s17")}),
    Mix("two exact keys", _two_exact, {"a": ("String", "a17"), "b": ("String", "b0")}),
    Mix("many values", _many_values, {"a": ("String", "a17"), "b": ("String", "b0")}),
    Mix("prefix", _prefix, {"sku": ("String", f"part-17-{'x' * MATCHING}")}),
    Mix("suffix", _suffix, {"sku": ("String", f"{'x' * MATCHING}-17-part")}),
    Mix("equals-ignore-case", _no_case, {"sku": ("String", "pART-17")}),
    Mix("wildcard", _wildcard, {"path": ("String", "/shop/17/shoe.jpg"), "kind": ("String", "photo")}),
    Mix("numeric range", _range, {"price": ("Number", "155")}),
    Mix("two numeric ranges", _box, {"latitude": ("Number", "0.5"), "longitude": ("Number", "17.225")}),
    Mix("numeric, one side", _above, {"load": ("Number", "10")}),
    Mix("numeric, one side, and exact", _above_in_zone, {"load": ("Number", "10"), "zone": ("String", "z1")}),
    Mix("anything-but and exact", _anything_but, {"kind": ("String", "sale"), "store": ("String", "s17")}),
    Mix("$or", _or, {"kind": ("String", "sale"), "store": ("String", "s0"), "owner": ("String", "none")}),
    Mix("nested keys", _nested, body={"kind": "sale", "order": {"customer": {"id": 17}, "total": 100}}),
    Mix(
        "arrays",
        _array,
        body={"items": [{"sku": "part-17", "colour": "red"}, {"sku": "part-18", "colour": "blue"}, {"sku": "other"}]},
    ),
    Mix("cidr", _cidr, {"source": ("String", "10.0.17.5")}),
    Mix("keys of their own", _own_keys, {"key-17": ("String", ""), "kind": ("String", "sale"), "more": ("String", "")}),
    Mix(
        "all operators",
        _all_operators,
        {
            "id": ("Number", "17"),
            "store": ("String", "s17"),
            "total": ("Number", "17"),
            "owner": ("String", "o17"),
        },
    ),
]
