"""How much is measured: everything a measurement may ask about the run it is part of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The sizes of a full run; `quick()` has those of a short one."""

    repeat: int = 3
    concurrency: int = 10
    bulk_jobs: int = 30_000
    single_jobs: int = 400
    drain_jobs: int = 30_000
    floor_jobs: int = 15_000
    others: int = 1_000_000
    in_line: int = 100_000
    prunable: int = 1_000_000
    pickups: int = 300
    idle_seconds: float = 25.0
    idle_settle: float = 5.0
    idle_future_jobs: int = 100_000
    schedules: int = 100_000
    burst: int = 2_000
    missed: int = 1_000_000
    cron_questions: int = 100_000
    webhooks: int = 5_000
    dashboard_jobs: int = 1_000_000
    dashboard_schedules: int = 10_000
    dashboard_asks: int = 9
    soak_jobs: int = 50_000
    soak_seconds: float = 600.0
    fan_in: int = 100_000
    small_fan_ins: int = 300
    chains: int = 1_000
    chain_steps: int = 100
    graphs: int = 10
    graph_nodes: int = 1_000
    suspended: int = 10_000
    suspended_seconds: float = 60.0
    largest_map: int = 1_000_000
    profile: str | None = None


def quick(repeat: int, concurrency: int, profile: str | None) -> Options:
    return Options(
        repeat=repeat,
        concurrency=concurrency,
        bulk_jobs=20_000,
        single_jobs=200,
        drain_jobs=8_000,
        floor_jobs=5_000,
        others=100_000,
        in_line=20_000,
        prunable=100_000,
        pickups=60,
        idle_seconds=4.0,
        idle_settle=2.0,
        idle_future_jobs=20_000,
        schedules=20_000,
        cron_questions=20_000,
        webhooks=1_000,
        dashboard_jobs=50_000,
        dashboard_schedules=3_000,
        dashboard_asks=3,
        soak_jobs=20_000,
        soak_seconds=60.0,
        fan_in=10_000,
        small_fan_ins=60,
        chains=20,
        chain_steps=20,
        graphs=2,
        graph_nodes=200,
        suspended=1_000,
        suspended_seconds=15.0,
        largest_map=0,
        profile=profile,
    )
