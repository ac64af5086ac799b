"""A flow: index a site. Crawl it, index each page in a job of its own, wait for a person, write a report.

    python examples/index_site.py

The handler `index-site` gives its slot back while it waits, for its children and for the signal. It is run again from
its top after each wait; what it has done is kept under the names of its steps and waits.
"""

import asyncio

from mainspring import Fail, JobContext, Scheduler

scheduler = Scheduler()
SITE = {"/": ["/about", "/news", "/old"], "/news": ["/news/1", "/news/2"]}


@scheduler.job("index-page", retry=2)
async def index_page(url: str) -> int:
    """Index one page, and return the number of its words."""
    if url == "/old":
        raise Fail("410 Gone")
    return 100 + len(url)


@scheduler.job("write-report")
async def write_report(site: str, pages: int, words: int, by: str) -> str:
    return f"{site}: {pages} pages, {words} words, approved by {by}"


def crawl(start: str) -> list[str]:
    """The addresses of all pages."""
    found = [start]
    for url in found:  # grows while it is read
        found += SITE.get(url, [])
    return found


@scheduler.job("index-site")
async def index_site(ctx: JobContext, site: str) -> str:
    urls = await ctx.step("crawl", crawl, "/")
    pages = await ctx.map("pages", index_page, ({"url": url} for url in urls), key="url", tolerate=0.2)
    words = 0
    async for page in pages.completed():
        words += page.result
    answer = await ctx.wait_for("approval", timeout="3d")
    if answer is None:
        raise Fail("no person has approved the index in three days")
    done = len(pages) - pages.failed
    report: str = await ctx.call(
        "report", write_report, {"site": site, "pages": done, "words": words, "by": answer["by"]}
    )
    return report


async def main() -> None:
    async with scheduler:
        job = await index_site.schedule(site="example.com")
        await scheduler.signal(job.id, "approval", {"by": "ann"}, id="click-17")
        done = await job.wait(timeout=60)
        print(done.state, done.result)
        flow = await scheduler.flows.get(job.id)
        for node in flow.nodes:
            print(node.name, *(f"{number} {state}" for state, number in sorted(node.counts.items())))


if __name__ == "__main__":
    asyncio.run(main())
