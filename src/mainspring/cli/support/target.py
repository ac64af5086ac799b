"""Finds the Scheduler that `package.module:attribute` names.

The current folder is importable, as it is for `python -m`. Every failure is a ConfigurationError with its own sentence.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from mainspring.cli.support.either_scheduler import Face
from mainspring.client.blocking import Scheduler as BlockingScheduler
from mainspring.client.scheduler import Scheduler
from mainspring.errors import ConfigurationError, MainspringError

DEFAULT_ATTRIBUTE = "scheduler"


def load(target: str, *, idle: bool = False) -> Face:
    """The scheduler that a target names. It must have handlers, unless it is to be `idle`."""
    module_name, attribute = _split(target)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found = _find(_import(module_name), attribute)
    if not isinstance(found, Scheduler | BlockingScheduler):
        raise ConfigurationError(
            f"{target!r} is not a Scheduler but {_a(found)}; name the Scheduler that your handlers are registered with."
        )
    face = Face(found)
    if face.inner.workers.handler_names == [] and not idle:
        raise ConfigurationError(
            f"The scheduler {target!r} has no handlers, so it cannot run any job; register one with "
            f'@{attribute}.job("name") in a module that {module_name!r} imports.'
        )
    return face


def _split(target: str) -> tuple[str, str]:
    module_name, _, attribute = target.partition(":")
    attribute = attribute or DEFAULT_ATTRIBUTE
    if module_name.endswith(".py") or "/" in module_name or os.sep in module_name:
        dotted = module_name.removesuffix(".py").replace(os.sep, "/").strip("./").replace("/", ".")
        raise ConfigurationError(f"{module_name!r} is a file name; name the module: {dotted}:{attribute}")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise ConfigurationError(f"{target!r} names no scheduler; write it as package.module:attribute")
    return module_name, attribute


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(_not_found(name, error.name)) from None
        raise _broken(name, error) from error
    except MainspringError as error:
        raise ConfigurationError(f"The module {name!r} cannot be used: {error}") from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _not_found(name: str, missing: str) -> str:
    parent, _, last = missing.rpartition(".")
    places = list(importlib.import_module(parent).__path__) if parent else [str(Path.cwd())]
    close = get_close_matches(last, [module.name for module in pkgutil.iter_modules(places)], 1)
    if close:
        return f"There is no module {missing!r}. Did you mean {'.'.join(filter(None, (parent, close[0])))!r}?"
    return f"There is no module {missing!r}; run the command in the folder that holds it, or install it."


def _broken(name: str, error: BaseException) -> ConfigurationError:
    """The ConfigurationError for an error inside a module, with its place."""
    what = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames[1:] else ""
    return ConfigurationError(
        f"The module {name!r} cannot be imported: {what}{where}; MAINSPRING_DEBUG=1 shows the whole traceback."
    )


def _find(module: ModuleType, attribute: str) -> Any:
    found: Any = module
    for step in attribute.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            raise ConfigurationError(_missing(module, attribute)) from None
    return found


def _missing(module: ModuleType, attribute: str) -> str:
    sentence = f"The module {module.__name__!r} has no {attribute!r}."
    schedulers = [name for name, value in vars(module).items() if isinstance(value, Scheduler | BlockingScheduler)]
    close = get_close_matches(attribute, schedulers or [name for name in dir(module) if name[0] != "_"], 1)
    if close or len(schedulers) == 1:
        return f"{sentence} Did you mean {module.__name__}:{(close or schedulers)[0]}?"
    if schedulers:
        return f"{sentence} Its schedulers are {', '.join(schedulers)}."
    return f"{sentence} It has no scheduler; create one with {DEFAULT_ATTRIBUTE} = Scheduler()"


def _a(thing: Any) -> str:
    kind = "class" if isinstance(thing, type) else type(thing).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
