"""`mainspring generate-key`: a key for encrypted data or for the audit log."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.terminal.output import print_json
from mainspring.store.privacy.keyring import new_key


def generate_key(
    key_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The key's id (default: a random one).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print a new key with its id, for MAINSPRING_KEYS or the file of MAINSPRING_KEYS_FILE, or for the audit log:
    MAINSPRING_AUDIT_KEYS or the file of MAINSPRING_AUDIT_KEYS_FILE.

    Store it as safely as the data: without the key, values that are encrypted with it are lost.
    """
    key = new_key(key_id)
    print_json({"id": key.partition(":")[0], "key": key}) if as_json else print(key)
