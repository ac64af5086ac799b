"""OpenTelemetry and Sentry for `mainspring worker`, `serve` and `up`, switched on by the environment.

`MAINSPRING_OTEL` and `MAINSPRING_SENTRY` switch; everything else is in the standard variables of their SDKs, `OTEL_…`
and `SENTRY_…`. An SDK that the user's module has set up stays as it is, and a Scheduler that the module has
instrumented is not instrumented twice, but gets an SDK if the module has set up none. Worker processes import this
module; it imports an SDK only where it is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.errors import ConfigurationError

OTEL, SENTRY = "MAINSPRING_OTEL", "MAINSPRING_SENTRY"
_ON, _OFF, _SAME_TRACE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off"), "same-trace"
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_NEEDS_SDK = f"{OTEL} needs the OpenTelemetry SDK: pip install opentelemetry-sdk opentelemetry-exporter-otlp"


def switch_on(scheduler: Scheduler, environment: Mapping[str, str] = os.environ) -> None:
    """Instrument a Scheduler as the environment asks; ConfigurationError names what is wrong or missing."""
    traces = _choice(OTEL, environment, _SAME_TRACE)
    if traces and environment.get("OTEL_SDK_DISABLED", "").lower() != "true":
        _trace(scheduler, environment, same_trace=traces == _SAME_TRACE)
    if _choice(SENTRY, environment):
        _report(scheduler, environment)


def _choice(variable: str, environment: Mapping[str, str], *further: str) -> str | None:
    word = environment.get(variable, "").strip().lower()
    if word in _OFF:
        return None
    if word in (*_ON, *further):
        return word
    raise ConfigurationError(f"{variable} must be one of {', '.join(('1', '0', *further))}, not {word!r}.")


def _trace(scheduler: Scheduler, environment: Mapping[str, str], *, same_trace: bool) -> None:
    from mainspring.observability.otel import Tracing, instrument

    own = [one for one in core_of(scheduler).observers if isinstance(one, Tracing)]
    if not own or any(one.lacks_sdk for one in own):
        try:
            _set_up_sdk(environment)
        except ModuleNotFoundError as error:
            raise ConfigurationError(f"{_NEEDS_SDK} ({error.name} is missing)") from None
    if not own:
        instrument(scheduler, same_trace=same_trace)


def _set_up_sdk(environment: Mapping[str, str]) -> None:
    """Set up the SDK by its own variables, unless the user's module, or an agent, has done so."""
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import _internal as meters
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    own_traces = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    spans = None if own_traces else _exporter("traces", environment)
    if spans is not None:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(spans))
        trace.set_tracer_provider(provider)
    own_metrics = not isinstance(metrics.get_meter_provider(), meters._ProxyMeterProvider)
    numbers = None if own_metrics else _exporter("metrics", environment)
    if numbers is not None:
        metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(numbers)]))


def _exporter(signal: str, environment: Mapping[str, str]) -> Any:
    """The exporter that OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER names; None for "none"."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    name = environment.get(variable, "").strip() or "otlp"
    if name == "none":
        return None
    if name == "otlp":
        protocol = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or environment.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"
        )
        name = _PROTOCOLS.get(protocol.strip(), protocol)
    found = next(iter(entry_points(group=f"opentelemetry_{signal}_exporter", name=name)), None)
    if found is None:
        raise ConfigurationError(
            f"No package has the exporter {name!r} of {variable}: pip install opentelemetry-exporter-otlp, or set "
            f"{variable} to console or none."
        )
    return found.load()()


def _report(scheduler: Scheduler, environment: Mapping[str, str]) -> None:
    from mainspring.observability.sentry import Reporting, instrument

    _set_up_sentry(environment)
    if not any(isinstance(one, Reporting) for one in core_of(scheduler).observers):
        instrument(scheduler)


def _set_up_sentry(environment: Mapping[str, str]) -> None:
    """Set up the SDK by its own variables, unless the user's module has done so."""
    import sentry_sdk

    if not sentry_sdk.is_initialized():
        if not environment.get("SENTRY_DSN", "").strip():
            raise ConfigurationError(f"{SENTRY} needs SENTRY_DSN, the address of the project in Sentry.")
        sentry_sdk.init(traces_sample_rate=_rate("SENTRY_TRACES_SAMPLE_RATE", environment))


def _rate(variable: str, environment: Mapping[str, str]) -> float | None:
    """A share between 0 and 1. Sentry's SDK does not read this variable by itself."""
    text = environment.get(variable, "").strip()
    try:
        rate = float(text or 0)
    except ValueError:
        rate = -1
    if not 0 <= rate <= 1:
        raise ConfigurationError(f"{variable} must be a number between 0 and 1, not {text!r}.")
    return rate if text else None
