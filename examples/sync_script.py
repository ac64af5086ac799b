"""The blocking face, for scripts and other code without an event loop.

python examples/sync_script.py
"""

from mainspring.sync import JobContext, Scheduler

scheduler = Scheduler()


@scheduler.job("resize")
def resize(ctx: JobContext, picture: str, width: int) -> str:
    ctx.progress(50, "half way")
    return f"{picture} is {width} pixels wide now"


def main() -> None:
    with scheduler:
        jobs = scheduler.schedule_bulk(
            {"name": "resize", "data": {"picture": f"{number}.png", "width": 640}} for number in range(3)
        )
        for job in jobs:
            print(scheduler.wait(job.id, timeout=30).result)
        print(len(list(scheduler.jobs(state="completed", name="resize", limit=3))), "completed")


if __name__ == "__main__":
    main()
