"""Values by name: the body of a request or a response, the arguments of a verb, facts that are reported."""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]
