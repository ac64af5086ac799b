"""The settings of the service: the values in force and their sources, the versions, the database and its indexes."""

from __future__ import annotations

import os
import platform
from dataclasses import fields
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from pydantic import SecretStr

from mainspring.api.dependencies import Admin
from mainspring.api.settings import ServiceSettings
from mainspring.api.wire.base import Answer, jsonable
from mainspring.api.wire.settings import DatabaseOut, EncryptionOut, SettingOut, SettingsOut
from mainspring.config.field_map import FieldMap
from mainspring.config.settings import Settings

router = APIRouter(tags=["settings"])

_HIDDEN = "[set]"


@router.get("/api/settings", summary="Get the settings of the service")
async def get_settings(caller: Admin) -> Answer[SettingsOut]:
    """Return the settings in force in the process that answers, where each comes from, the versions of the parts, the
    database with its indexes, and the ids of the encryption keys. Secrets are not shown. Settings are changed in the
    environment, by options of the command, or in code."""
    caller.check_everything()
    ids = await caller.backend.key_ids()
    return Answer(
        data=SettingsOut(
            version=version("mainspring"),
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            access="local" if caller.principal.key is None else "key",
            database=DatabaseOut.of(await caller.backend.database_facts()),
            encryption=EncryptionOut.of(ids),
            service=_of_service(caller.service.settings),
            scheduler=_of_scheduler(caller.scheduler.settings),
        )
    )


def _of_service(settings: ServiceSettings) -> list[SettingOut]:
    found = []
    for name, field in ServiceSettings.model_fields.items():
        variables = [str(one) for one in getattr(field.validation_alias, "choices", [])]
        used = next((one for one in variables if one in os.environ), None)
        value = getattr(settings, name)
        changed = name in settings.model_fields_set and value != field.default
        found.append(
            SettingOut(
                name=name,
                value=_HIDDEN if isinstance(value, SecretStr) else jsonable(value),
                source="environment" if changed and used else "program" if changed else "default",
                variable=used or next(iter(variables), None),
            )
        )
    return found


def _of_scheduler(settings: Settings) -> list[SettingOut]:
    usual = Settings()
    return [
        SettingOut(
            name=one.name,
            value=_plain(getattr(settings, one.name)),
            source="default" if getattr(settings, one.name) == getattr(usual, one.name) else "program",
            variable=None,
        )
        for one in fields(Settings)
    ]


def _plain(value: Any) -> Any:
    return {one.name: getattr(value, one.name) for one in fields(value)} if isinstance(value, FieldMap) else value
