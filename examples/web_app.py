"""A web application that leaves the work to workers. It needs nothing else; in Django and Flask it is no different.

The scheduler is made once, in a module, and used from whatever thread serves a request. The workers run elsewhere:

    mainspring worker examples.web_app:scheduler --processes 2

    python examples/web_app.py        makes two requests to itself, with a worker in the same process
"""

import json
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.util import setup_testing_defaults

from mainspring import JobNotFound
from mainspring.sync import Scheduler

scheduler = Scheduler()


@scheduler.job("generate-report")
def generate_report(kind: str) -> dict[str, Any]:
    return {"kind": kind, "pages": 12}


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """POST /reports/KIND schedules a report; GET /jobs/ID tells what became of it."""
    _, where, what = environ["PATH_INFO"].split("/", 2)
    status, answer = "404 Not Found", {}
    if environ["REQUEST_METHOD"] == "POST" and where == "reports":
        # A visitor that asks twice while the first job is on its way gets the same job.
        job = scheduler.schedule("generate-report", {"kind": what}, dedupe_key=f"report:{what}")
        status, answer = "202 Accepted", {"job": job.id}
    elif where == "jobs":
        try:
            job = scheduler.get_job(what)
            status, answer = "200 OK", {"state": job.state, "result": job.result}
        except JobNotFound as error:
            answer = {"error": str(error)}
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


def request(method: str, path: str) -> dict[str, Any]:
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path}
    setup_testing_defaults(environ)
    answer: dict[str, Any] = json.loads(b"".join(application(environ, lambda status, headers: print(status))))
    return answer


def main() -> None:
    with scheduler:
        job_id = request("POST", "/reports/finance")["job"]
        scheduler.wait(job_id, timeout=30)
        print(request("GET", f"/jobs/{job_id}"))


if __name__ == "__main__":
    main()
