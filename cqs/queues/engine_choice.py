"""The engine that keeps a queue, the engine's own attributes, and what a queue may require of its engine.

All three are extensions, given as attributes of CreateQueue. The options of an engine are known to it alone: queues of
other engines do not have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from cns_common.errors import RequestError
from cqs.engines.contract import Capabilities
from cqs.engines.options import EngineOption
from cqs.queues.attributes import ENGINE, REQUIRES, refused_value, required_of
from cqs.queues.model import Queue

E = TypeVar("E")

Options = Mapping[str, EngineOption]


def engine_named(engines: Mapping[str, E], name: str) -> E:
    """The engine for a new queue. Raises RequestError if it does not run here."""
    engine = engines.get(name)
    if engine is None:
        raise refused_value(ENGINE, f"This service runs {_listed(sorted(engines))}.")
    return engine


def check_capabilities(name: str, capabilities: Capabilities, attributes: Mapping[str, str], *, fifo: bool) -> None:
    """Raise RequestError if a queue with these attributes needs more than its engine can do."""
    if fifo and not capabilities.fifo:
        raise refused_value(ENGINE, f"The engine {name} has no FIFO queues.")
    check_required(capabilities, attributes)
    check_delay(capabilities, attributes)


def check_required(capabilities: Capabilities, attributes: Mapping[str, str]) -> None:
    """Raise RequestError if `Requires` names what the queue's engine does not have."""
    has = {"exact-counts": capabilities.exact_counts, "fair": capabilities.fair}
    for required in required_of(attributes):
        if not has[required]:
            raise refused_value(REQUIRES, f"The queue's engine has no {required.replace('-', ' ')}.")


def check_delay(capabilities: Capabilities, attributes: Mapping[str, str]) -> None:
    """Raise RequestError for a `DelaySeconds` that is longer than the queue's engine can delay a message."""
    delay_s_max = capabilities.max_delay_ms // 1000
    if int(attributes.get("DelaySeconds", 0)) > delay_s_max:
        raise refused_value("DelaySeconds", f"The queue's engine delays messages by at most {delay_s_max} seconds.")


def without_engine(given: Mapping[str, str], options: Options) -> dict[str, str]:
    """The given attributes that do not belong to the engine."""
    return {name: text for name, text in given.items() if name != ENGINE and name not in options}


def check_options(given: Mapping[str, str], options: Options) -> dict[str, str]:
    """The given options of the engine, normalised. Raises RequestError for a text that is no value of its option."""
    return {name: _check(options[name], text) for name, text in given.items() if name in options}


def options_of_new(given: Mapping[str, str], options: Options) -> dict[str, str]:
    """The options to store: those given, and the others that cannot be changed. A later version with another default
    does not change what a queue was made with."""
    fixed = {name: option.default for name, option in options.items() if not option.live}
    return {**fixed, **check_options(given, options)}


def check_option_changes(queue: Queue, given: Mapping[str, str], options: Options) -> dict[str, str]:
    """The changes of SetQueueAttributes. Raises RequestError for one that CreateQueue alone sets, the engine included;
    the value that it has already may be given."""
    if given.get(ENGINE, queue.engine) != queue.engine:
        raise refused_value(ENGINE, "A queue keeps the engine that it was created with.")
    changes = check_options(given, options)
    current = current_options(queue, options)
    for name, text in changes.items():
        if not options[name].live and text != current[name]:
            raise refused_value(name, "It is set by CreateQueue and cannot be changed.")
    return changes


def current_options(queue: Queue, options: Options) -> dict[str, str]:
    """All options of the queue's engine, set or default."""
    return {**{name: option.default for name, option in options.items()}, **queue.options}


def first_different_option(queue: Queue, given: Mapping[str, str], options: Options) -> str | None:
    """The name of an option whose given value differs from the queue's; None if there is none."""
    current = current_options(queue, options)
    return next((name for name, text in check_options(given, options).items() if text != current[name]), None)


def _check(option: EngineOption, text: str) -> str:
    try:
        return option.check(text)
    except ValueError as error:
        raise _refused_option(option, str(error)) from None


def _refused_option(option: EngineOption, reason: str) -> RequestError:
    sentence = f"{reason[:1].upper()}{reason[1:]}"
    return refused_value(option.name, sentence if sentence.endswith(".") else f"{sentence}.")


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"the engines {', '.join(most)} and {last}" if most else f"the engine {last}"
