"""`mainspring keys`: keys for encrypted data and for the audit log."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.support.logs import logged
from mainspring.store.privacy.keyring import new_key

keys = typer.Typer(
    help="Keys for encrypted job data and for the audit log.", no_args_is_help=True, add_completion=False
)


@keys.callback()
def _keys() -> None:
    pass


@keys.command()
@logged
def new(
    key_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The key's id; without it, a random one.")
    ] = None,
) -> None:
    """Print a new key with its id, for MAINSPRING_KEYS or the file of MAINSPRING_KEYS_FILE, or for the audit log:
    MAINSPRING_AUDIT_KEYS or the file of MAINSPRING_AUDIT_KEYS_FILE.

    Keep it as safe as the data: values that are encrypted with a lost key are lost.
    """
    print(new_key(key_id))
