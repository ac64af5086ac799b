"""How a flow or a batch ended, in words."""

from mainspring.model.flows.verdict import NodeEnd, batch_verdict, flow_verdict


def test_a_flow_completes_if_every_node_completed_or_was_skipped() -> None:
    assert flow_verdict([NodeEnd("a", "completed"), NodeEnd("b", "cancelled", "Skipped: no", skipped=True)]) is None


def test_a_flow_that_failed_names_the_first_causes_and_counts_the_rest() -> None:
    ends = [
        NodeEnd("a", "failed", "ValueError: no"),
        NodeEnd("b", "expired"),
        NodeEnd("c", "cancelled", "Cancelled: x", because="id-of-a"),
        NodeEnd("d", "deleted"),
        NodeEnd("e", "cancelled", "Skipped: x", skipped=True, because="id-of-a"),
    ]
    assert flow_verdict(ends) == (
        "3 nodes ended badly: 'a' failed (ValueError: no); 'b' expired; 'd' was deleted. "
        "1 more was cancelled because of that."
    )


def test_a_flow_in_which_no_node_failed_names_the_job_because_of_which_nodes_were_cancelled() -> None:
    cancelled = NodeEnd("b", "cancelled", "Cancelled: x", because="id-of-added")
    assert flow_verdict([NodeEnd("a", "completed"), cancelled]) == (
        "1 node was cancelled because the job id-of-added had ended badly."
    )


def test_a_flow_whose_nodes_completed_fails_by_a_job_that_a_node_has_added() -> None:
    ends = [NodeEnd("a", "completed"), NodeEnd("b", "cancelled", "Skipped: no", skipped=True)]
    assert flow_verdict(ends, 1) is None  # the skipped one
    assert flow_verdict(ends, 2, [("id-of-added", "ValueError: no")]) == (
        "1 job that its nodes have added ended badly. The first is id-of-added: ValueError: no"
    )


def test_a_long_list_of_nodes_is_cut() -> None:
    told = flow_verdict([NodeEnd(f"n{number}", "failed") for number in range(12)])
    assert (
        told is not None and told.startswith("12 nodes") and "'n9' failed; and 2 more." in told and "'n10'" not in told
    )


def test_a_batch_says_how_many_jobs_ended_badly_and_whether_it_is_whole() -> None:
    summary = {"total": 1000, "failed": 2, "aborted": False}
    told = batch_verdict(summary, [("id-7", "ValueError: no")])
    assert told == "2 of its 1,000 jobs ended badly. The first is id-7: ValueError: no"
    assert "died before the last one" in batch_verdict({"total": 5, "failed": 0, "aborted": True}, [])
