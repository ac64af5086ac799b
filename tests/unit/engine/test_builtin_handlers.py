"""The handlers of flows, which every worker has and none lists."""

from mainspring.engine.handler import Handler
from mainspring.engine.handlers import Handlers
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.model.workers import WorkerStatus


async def other() -> None:
    return


def test_every_worker_asks_for_the_roots_of_flows_and_does_not_list_them() -> None:
    handlers = Handlers()
    handlers.add(Handler("mine", other))
    assert handlers.names == ["mine"]
    assert handlers.runnable == sorted(["mine", *FLOW_NAMES])
    assert all(handlers.get(name) is not None and handlers.takes(name, 1) for name in FLOW_NAMES)
    assert handlers.own("mainspring:flow") is None


def test_the_roots_of_flows_do_not_go_to_the_catch_all() -> None:
    handlers = Handlers(Handler("*", other))
    assert handlers.runnable is None
    for name in FLOW_NAMES:
        found = handlers.get(name)
        assert found is not None and found.function is not other


def test_every_worker_is_known_to_run_flows() -> None:
    assert all(WorkerStatus("w", handlers=("mine",)).handles(name) for name in FLOW_NAMES)
