"""Refusals of a FilterPolicy, in AWS's words and with AWS's columns, and its stored form."""

from __future__ import annotations

import json
from ipaddress import ip_network

import pytest

from cns.filters.model import AllOf, AnyOf, AnythingBut, Cidr, Exact, Exists, Filter, Leaf, Scope, Suffix, Wildcard
from cns.filters.parser import compile_stored, read_filter
from cns_common.errors import RequestError

STORED = [  # the policy as given, the policy as stored
    ('{"a": ["x"]}', '{"a":["x"]}'),
    (' {\n"b" : [ 1 ,\t2 ], "a":[ { "prefix" : "x y" } ] }\r\n', '{"b":[1,2],"a":[{"prefix":"x y"}]}'),
    ('{"a":[1.50,1e3,-0,1E+2,0.10]}', '{"a":[1.50,1e3,-0,1E+2,0.10]}'),
    ('{"a":[12345678901234567890123456789012345678901234567890]}',) * 2,
    ('{"a":["\\u00e9\\ud83d\\ude00","\\u0041\\/\\n"]}', '{"a":["é\U0001f600","A/\\n"]}'),
    ('{"a":["x"],"b":["y"],"a":["z"]}', '{"a":["z"],"b":["y"]}'),
    ('{"a":[true,false,null,""]}',) * 2,
    ('{"$or":[{"a":["x"]},{"b":["y"]}]}',) * 2,
]


@pytest.mark.parametrize(("given", "kept"), STORED)
def test_policy_is_stored_compactly(given: str, kept: str) -> None:
    stored, read = read_filter(given, Scope.ATTRIBUTES)
    assert stored == kept
    assert compile_stored(stored, Scope.ATTRIBUTES) == read
    assert read_filter(stored, Scope.ATTRIBUTES) == (stored, read)


def test_compiled_form() -> None:
    text = (
        '{"a":["x",1.0,null,{"exists":true}],"$or":[{"b":{"c":[{"wildcard":"*y"}]}},'
        '{"b":{"$or":[{"d":[false]},{"e.f":[{"cidr":"10.0.0.7/8"}]}]}}]}'
    )
    inner = AnyOf(
        (
            AllOf((Leaf("b.d", (Exact("false"),)),)),
            AllOf((Leaf("b.e.f", (Cidr(ip_network("10.0.0.0/8")),)),)),
        )
    )
    root = AllOf(
        (
            Leaf("a", (Exact('"x'), Exact("1"), Exact("null"), Exists(True))),
            AnyOf((AllOf((Leaf("b.c", (Wildcard(("", "y")),)),)), AllOf((inner,)))),
        )
    )
    assert read_filter(text, Scope.BODY)[1] == Filter(Scope.BODY, root)


def of_key(conditions: str) -> str:
    return f'{{"key":[{conditions}]}}'


RECORDED = [  # recorded from AWS, with the column of its parser
    ('{"key":[["value"]]}', "Match value must be String, number, true, false, or null", 10),
    (of_key('{"wrong-operator":true}'), "Unrecognized match type wrong-operator", 31),
    (of_key('{"suffix":"value","prefix":"value2"}'), "Only one key allowed in match expression", 37),
    (of_key('{"suffix":100}'), "suffix match pattern must be a string", 22),
    (of_key('{"suffix":null}'), "suffix match pattern must be a string", 23),
    (of_key('{"suffix":[]}'), "suffix match pattern must be a string", 20),
    (of_key('{"suffix":["test","test2"]}'), "suffix match pattern must be a string", 20),
    ('{"key":{"suffix":"value"}}', '"suffix" must be an object or an array', 19),
    ('{"key":{"suffix":"value","prefix":"value"}}', '"suffix" must be an object or an array', 19),
    ('{"key":{"not-an-operator":"value"}}', '"not-an-operator" must be an object or an array', 28),
    ('{"key_a":"value_one"}', '"key_a" must be an object or an array', 11),
    (of_key('{"numeric":[]}'), "Invalid member in numeric match: ]", 22),
    (of_key('{"numeric":["operator"]}'), "Unrecognized numeric range operator: operator", 32),
    (of_key('{"numeric":[1,"<="]}'), "Invalid member in numeric match: 1", 22),
    (of_key('{"numeric":["=","000"]}'), "Value of equals must be numeric", 26),
    (of_key('{"numeric":[">="]}'), "Value of >= must be numeric", 26),
    (of_key('{"numeric":["<",100,">",10]}'), "Too many elements in numeric expression", 30),
    (of_key('{"numeric":[">=",1,">",2]}'), "Bad numeric range operator: >", 31),
    (of_key('{"numeric":[">",3,"<",1]}'), "Bottom must be less than top", 33),
    (of_key('{"numeric":[">",20,"<="]}'), "Value of <= must be numeric", 33),
    (of_key('{"numeric":[">",20,30]}'), "Bad value in numeric range: 30", 30),
    (of_key('{"numeric":[">",20,"test"]}'), "Bad numeric range operator: test", 34),
    (of_key('{"numeric":[">","20","<","30"]}'), "Value of > must be numeric", 26),
    (of_key('{"numeric":[">",20,"<","30"]}'), "Value of < must be numeric", 33),
    (of_key('{"numeric":[">",20,"<",30,"<",50]}'), "Too many terms in numeric range expression", 36),
    (of_key('{"exists":null}'), "exists match pattern must be either true or false.", 23),
    (of_key('{"exists":"no"}'), "exists match pattern must be either true or false.", 20),
    (of_key('{"anything-but":{"wrong-operator":null}}'), "Unsupported anything-but pattern: wrong-operator", 47),
    (of_key('{"anything-but":{"exists":false}}'), "Unsupported anything-but pattern: exists", 40),
    (of_key('{"anything-but":{"prefix":false}}'), "prefix match pattern must be a string", 40),
    (of_key('{"anything-but":{"cidr":"test"}}'), "Unsupported anything-but pattern: cidr", 34),
]


@pytest.mark.spec(
    "filter-text.prefix",
    "filter-text.location",
    "filter-text.value",
    "filter-text.unknown-type",
    "filter-text.one-key",
    "filter-text.prefix-string",
    "filter-text.object-or-array",
    "filter-text.numeric-operator",
    "filter-text.numeric-value",
    "filter-text.member",
    "filter-text.elements",
    "filter-text.range-operator",
    "filter-text.range-value",
    "filter-text.bottom",
    "filter-text.terms",
    "filter-text.exists",
    "filter-text.anything-but",
    "filter-op.anything-but-pattern",
    "filter-op.range",
)
@pytest.mark.parametrize(("text", "complaint", "column"), RECORDED)
@pytest.mark.parametrize("prefix", ["", "Attributes Reason: "])
def test_refusal_as_recorded(text: str, complaint: str, column: int, prefix: str) -> None:
    place = f'\n at [Source: (String)"{text}"; line: 1, column: {column}]'
    spaced = json.dumps(json.loads(text))  # AWS's complaint quotes the compact text, however the policy was spaced
    with pytest.raises(RequestError) as refused:
        read_filter(spaced, Scope.ATTRIBUTES, prefix)
    assert refused.value.code == "InvalidParameter"
    assert refused.value.message == f"Invalid parameter: {prefix}FilterPolicy: {complaint}{place}"


MIXED = "Inside anything but list, either all values are number or string, mixed type is not supported"
SCALARS = "Inside anything but list, start|null|boolean is not supported."
ONE_OR_MORE = "Value of anything-but must be an array or single string/number value."
ONE_KEY = "Only one key allowed in match expression"
TOO_MANY = "Too many elements in numeric expression"
RANGE = "Value must be between -1.0E9 and 1.0E9, inclusive"
NO_JSON = "failed to parse JSON."
OBJECTS = "Only JSON object is allowed in array of $or relationship."

REFUSED = [
    ('{"key":[]}', "Empty arrays are not allowed"),
    ('{"key":{}}', "Empty objects are not allowed"),
    ("5", "Filter is not an object"),
    ('"text"', "Filter is not an object"),
    ("null", "Filter is not an object"),
    ('[{"key":["a"]}]', "Filter is not an object"),
    ('{"key":5}', '"key" must be an object or an array'),
    ('{"key":null}', '"key" must be an object or an array'),
    (of_key("{}"), "Match expression name not found"),
    (of_key('{"prefix":5}'), "prefix match pattern must be a string"),
    (of_key('{"prefix":"a","prefiy":"b"}'), ONE_KEY),
    (of_key('{"prefix":{"suffix":"a"}}'), "Unsupported prefix pattern: suffix"),
    (of_key('{"suffix":{"wildcard":"a"}}'), "Unsupported suffix pattern: wildcard"),
    (of_key('{"prefix":{}}'), "Prefix expression name not found"),
    (of_key('{"suffix":{}}'), "Suffix expression name not found"),
    (of_key('{"prefix":{"equals-ignore-case":5}}'), "equals-ignore-case match pattern must be a string"),
    (of_key('{"prefix":{"equals-ignore-case":"a","b":1}}'), ONE_KEY),
    (of_key('{"prefix":{"equals-ignore-case":"a"},"b":1}'), ONE_KEY),
    (of_key('{"equals-ignore-case":["a"]}'), "equals-ignore-case match pattern must be a string"),
    (of_key('{"equals-ignore-case":"a","exists":true}'), ONE_KEY),
    (of_key('{"wildcard":["*a"]}'), "wildcard match pattern must be a string"),
    (of_key('{"wildcard":"a","exists":true}'), ONE_KEY),
    (of_key('{"wildcard":"a**"}'), "Consecutive wildcard characters at pos 2"),
    (of_key('{"wildcard":"a\\\\b"}'), "Invalid escape character at pos 2"),
    (of_key('{"wildcard":"a\\\\"}'), "Invalid escape character at pos 2"),
    (of_key('{"exists":true,"prefix":"a"}'), ONE_KEY),
    (of_key('{"exists":0}'), "exists match pattern must be either true or false."),
    (of_key('{"anything-but":null}'), ONE_OR_MORE),
    (of_key('{"anything-but":true}'), ONE_OR_MORE),
    (of_key('{"anything-but":[]}'), MIXED),
    (of_key('{"anything-but":["a",1]}'), MIXED),
    (of_key('{"anything-but":[null]}'), SCALARS),
    (of_key('{"anything-but":[["a"]]}'), SCALARS),
    (of_key('{"anything-but":[{"prefix":"a"}]}'), SCALARS),
    (of_key('{"anything-but":{}}'), "Anything-But expression name not found"),
    (of_key('{"anything-but":{"prefix":""}}'), "Null prefix/suffix not allowed"),
    (of_key('{"anything-but":{"prefix":["a",""]}}'), "Null prefix/suffix not allowed"),
    (of_key('{"anything-but":{"prefix":[1]}}'), "prefix match pattern must be a string"),
    (of_key('{"anything-but":{"suffix":["a",""]}}'), "Null prefix/suffix not allowed"),
    (of_key('{"anything-but":{"prefix":"a","suffix":"b"}}'), TOO_MANY),
    (of_key('{"anything-but":{"prefix":[]}}'), ONE_OR_MORE),
    (of_key('{"anything-but":"a","exists":true}'), TOO_MANY),
    (of_key('{"anything-but":{"prefix":"a"},"exists":true}'), TOO_MANY),
    (of_key('{"anything-but":1000000000.1}'), RANGE),
    (of_key('{"anything-but":{"wildcard":"**"}}'), "Consecutive wildcard characters at pos 1"),
    (of_key('{"numeric":5}'), "Value of numeric must be an array."),
    (of_key('{"numeric":{}}'), "Value of numeric must be an array."),
    (of_key('{"numeric":["=",1,2]}'), TOO_MANY),
    (of_key('{"numeric":["=",1],"exists":true}'), TOO_MANY),
    (of_key('{"numeric":["=",true]}'), "Value of equals must be numeric"),
    (of_key('{"numeric":["<=",1,">=",0]}'), TOO_MANY),
    (of_key('{"numeric":[">",1,"<",1]}'), "Bottom must be less than top"),
    (of_key('{"numeric":[">=",1,"<=",1.0]}'), "Bottom must be less than top"),
    (of_key('{"numeric":[">",1,"=",2]}'), "Bad numeric range operator: ="),
    (of_key('{"numeric":["!=",1]}'), "Unrecognized numeric range operator: !="),
    (of_key('{"numeric":[null]}'), "Invalid member in numeric match: null"),
    (of_key('{"numeric":["=",1000000000.00001]}'), RANGE),
    (of_key('{"numeric":["=",-1000000000.00001]}'), RANGE),
    (of_key('{"numeric":["<",1e999999999]}'), RANGE),
    (of_key('{"numeric":["<",1e99999999999999999999]}'), RANGE),
    (of_key('{"cidr":5}'), "prefix match pattern must be a string"),
    (of_key('{"cidr":"10.0.0.0/8","exists":true}'), ONE_KEY),
    (of_key('{"cidr":"10.0.0.0"}'), "Malformed CIDR, one '/' required"),
    (of_key('{"cidr":"10.0.0.0/8/8"}'), "Malformed CIDR, one '/' required"),
    (of_key('{"cidr":"10.0.0.0/a"}'), "Malformed CIDR, mask bits must be an integer"),
    (of_key('{"cidr":"10.0.0.0/"}'), "Malformed CIDR, mask bits must be an integer"),
    (of_key('{"cidr":"10.0.0.0/²"}'), "Malformed CIDR, mask bits must be an integer"),
    (of_key('{"cidr":"10.0.0.0/255.0.0.0"}'), "Malformed CIDR, mask bits must be an integer"),
    (of_key('{"cidr":"10.0.0.0/-1"}'), "Malformed CIDR, mask bits must not be negative"),
    (of_key('{"cidr":"10.0.0.0/32"}'), "IPv4 mask bits must be < 32"),
    (of_key('{"cidr":"10.0.0.0/99999999999"}'), "Malformed CIDR, mask bits must be an integer"),
    (of_key('{"cidr":"10.0.0.0/000000099"}'), "IPv4 mask bits must be < 32"),
    (of_key('{"cidr":"fe80::1%eth0/64"}'), "Nonstandard IP address: fe80::1%eth0"),
    (of_key('{"cidr":"2001:db8::/128"}'), "IPv6 mask bits must be < 128"),
    (of_key('{"cidr":"10.0.0/8"}'), "Nonstandard IP address: 10.0.0"),
    (of_key('{"cidr":"bad/8"}'), "Nonstandard IP address: bad"),
    (of_key('{"cidr":"/8"}'), "Nonstandard IP address: "),
    ('{"$or":{"a":["x"]}}', "It must be an Array followed with $or."),
    ('{"$or":["a","b"]}', OBJECTS),
    ('{"$or":[{"a":["x"]},5]}', OBJECTS),
    ('{"$or":[{"a":["x"]}]}', "There must have at least 2 Objects in $or relationship."),
    ('{"$or":[]}', "There must have at least 2 Objects in $or relationship."),
    ('{"$or":[{"a":["x"]},{}]}', "Empty objects are not allowed"),
    ('{"$or":[{"a":["x"]},{"numeric":["x"]}]}', "numeric is Ruler reserved fieldName which cannot be used inside $or."),
    ("", f"{NO_JSON} No content to map due to end-of-input\n at [Source: REDACTED "),
    ("{", f"{NO_JSON} Unexpected end-of-input: expected close marker for Object "),
    ('{"key":["a"]} x', f"{NO_JSON} Unrecognized token 'x': was expecting "),
    (
        "{'key':['a']}",
        f"{NO_JSON} Unexpected character (''' (code 39)): was expecting double-quote to start field name",
    ),
    ('{"key":["a",]}', f"{NO_JSON} Unexpected character (']' (code 93)): expected a valid value "),
    ("{} {}", f"{NO_JSON} Trailing token (of type START_OBJECT) found after value "),
    (of_key("NaN"), f"{NO_JSON} Non-standard token 'NaN': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"),
    (of_key("-Infinity"), f"{NO_JSON} Non-standard token '-Infinity': enable "),
    (of_key("01"), f"{NO_JSON} Invalid numeric value: Leading zeroes not allowed"),
    ("[1,]" + " " * 40_000, NO_JSON),
    (of_key('"\\ud800"'), f"{NO_JSON} A lone surrogate is not text"),
    (of_key('"\ud800"'), f"{NO_JSON} A lone surrogate is not text"),
    (of_key('"\n"'), f"{NO_JSON} Illegal unquoted character ((CTRL-CHAR, code 10)): has to be escaped "),
    ('{"\\udc00":["a"]}', f"{NO_JSON} A lone surrogate is not text"),
    ("[" * 5000 + "]" * 5000, f"{NO_JSON} Document nesting depth (1001) exceeds the maximum allowed (1000, "),
    ('{"a":' * 5000 + "[1]" + "}" * 5000, f"{NO_JSON} Document nesting depth (1001) exceeds "),
]


@pytest.mark.spec(
    "filter.form",
    "filter-text.empty-array",
    "filter-text.cidr-slash",
    "filter-text.cidr-bits",
    "filter-text.cidr-address",
    "filter-text.json",
    "filter-op.wildcard-runs",
    "filter-op.or-two",
    "filter-limit.numbers",
)
@pytest.mark.parametrize(("text", "complaint"), REFUSED)
def test_refusal(text: str, complaint: str) -> None:
    assert complaint_of(text, Scope.BODY).startswith(f"Invalid parameter: FilterPolicy: {complaint}")


@pytest.mark.parametrize(
    ("cidr", "complaint"),
    [
        ("10.0.0.0", "Malformed CIDR, one '/' required"),
        ("10.0.0.0/x", "Malformed CIDR, mask bits must be an integer"),
        ("10.0.0.0/-1", "Malformed CIDR, mask bits must not be negative"),
        ("10.0.0.0/32", "IPv4 mask bits must be < 32"),
        ("10.0/8", "Nonstandard IP address: 10.0"),
    ],
)
def test_networks_are_refused_without_a_place(cidr: str, complaint: str) -> None:
    """As recorded from AWS: these refusals have no ` at [Source…]` behind them."""
    refusal = complaint_of(of_key(f'{{"cidr":"{cidr}"}}'), Scope.ATTRIBUTES)
    assert refusal == f"Invalid parameter: FilterPolicy: {complaint}"


@pytest.mark.parametrize("prefix", ["", "Attributes Reason: "])
def test_a_text_that_is_not_json_as_recorded(prefix: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_filter("{invalidjson}", Scope.ATTRIBUTES, prefix)
    assert refused.value.message == (
        f"Invalid parameter: {prefix}FilterPolicy: failed to parse JSON. Unexpected character ('i' (code 105)): was "
        "expecting double-quote to start field name\n at [Source: REDACTED "
        "(`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 2]"
    )


ACCEPTED = [
    of_key('{"numeric":["=",1000000000]}'),
    of_key('{"numeric":["=",-1e9]}'),
    of_key('{"anything-but":[1000000000]}'),
    of_key("1000000000000"),  # values are compared with any number
    of_key("1e99999999999999999999"),
    of_key('{"prefix":""}'),
    of_key('{"cidr":"10.0.0.1/31"}'),
    of_key('{"cidr":"::1/127"}'),
    '{"numeric":["x"]}',
    '{"$or":[{"a":["x"]},{"b":["x"]}],"prefix":["x"]}',
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_acceptance(text: str) -> None:
    assert read_filter(text, Scope.ATTRIBUTES)[0] == text


def test_anything_but_takes_suffixes() -> None:
    (leaf,) = read_filter(of_key('{"anything-but":{"suffix":["a","b"]}}'), Scope.ATTRIBUTES)[1].root.parts
    assert leaf == Leaf("key", (AnythingBut((Suffix("a"), Suffix("b"))),))


def test_nesting_is_for_bodies() -> None:
    """AWS compiles a policy before it looks at the scope, and says this without the word FilterPolicy."""
    text = '{"object":{"key":[{"prefix":"auto-"}]}}'
    refusal = "Filter policy scope MessageAttributes does not support nested filter policy"
    assert complaint_of(text, Scope.ATTRIBUTES) == f"Invalid parameter: {refusal}"
    with pytest.raises(RequestError, match=f"Invalid parameter: Attributes Reason: {refusal}"):
        read_filter(text, Scope.ATTRIBUTES, "Attributes Reason: ")
    assert read_filter(text, Scope.BODY)[0] == text
    assert "suffix match" in complaint_of('{"object":{"key":[{"suffix":5}]}}', Scope.ATTRIBUTES)


def test_long_policy_is_shown_in_part() -> None:
    text = of_key('"' + "x" * 600 + '",[]')
    message = complaint_of(text, Scope.BODY)
    assert f'(String)"{text[:500]}"[truncated {len(text) - 500} chars]; line: 1, column: 613]' in message


def complaint_of(text: str, scope: Scope) -> str:
    with pytest.raises(RequestError) as refused:
        read_filter(text, scope)
    assert refused.value.code == "InvalidParameter"
    return refused.value.message
