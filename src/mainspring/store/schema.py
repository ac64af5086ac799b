"""The collections, every field in them, and the names of the indexes (`store/index_definitions.py` defines these).

With the default name, the collections are `jobs`, `jobs.keys`, `jobs.workers`, `jobs.locks`, `jobs.gates`,
`jobs.controls`, `jobs.schedules`, `jobs.ledger`, `jobs.calendars`, `jobs.redrives`, `jobs.operations`, `jobs.alerts`,
`jobs.alert_rules`, `jobs.access`, `jobs.sessions`, `jobs.secrets`, `jobs.replies`, `jobs.service`, `jobs.audit`,
`jobs.audit.head`, `jobs.stats` and `jobs.signals`.

Stored names are short where they occur in every document or index: `line` is a wait list (docs/explain/glossary.md),
`seq` a sequence, `rev` the revision, and `sealed` lists the ids of encryption keys. An encrypted value is a document
with `__sealed__`, `kid` (the id of its key), `n` and `c`: see model/privacy/encrypted_values.py.

## jobs: one document per job

| field         | type            | meaning |
|---------------|-----------------|---------|
| _id           | ObjectId/string | the job's id; a string of 24 hex digits is always meant as the ObjectId |
| v             | int             | layout of this document (1); missing on a raw insert that has not been adopted yet |
| name          | string          | which handler runs it |
| data          | document        | the handler's arguments |
| data_v        | int             | the version of the handler that the data is written for; 1 when missing |
| queue         | string          | the queue that it is claimed from |
| priority      | int 1..10       | 1 first |
| asked_priority, aged_at | int, date | the priority it was scheduled with, and when waiting moved it up from there |
| state         | string          | pending, running, completed, failed, cancelled, expired, blocked |
| ready         | true            | only on pending jobs that may be claimed: the claim's index |
| waiting_for   | document        | why a pending job is not ready: by, note, since |
| line          | string          | the gate on whose wait list it is; only on pending jobs that are not ready |
| seq           | string          | the sequence it belongs to |
| run_at        | date            | not before |
| created_at    | date            | |
| rev           | int             | rises with every write that changes what a claim would read; the claim compares it |
| token         | int             | the fence: rises by one with every claim, for ever |
| tries         | int             | attempts used in this round: raised by the claim, lowered by snooze and release |
| attempts      | array           | of each: n, token, outcome, worker, run_at, started_at, ended_at, error, log |
| attempts_cut  | int             | how many older attempts were dropped from that array |
| last_failure_at | date          | when an attempt last failed after which the job was given another |
| tags          | array           | |
| retry         | document        | attempts, delay, backoff, max_delay, jitter; the handler's policy when missing |
| timeout       | double          | seconds an attempt may take; the handler's when missing |
| guarantee     | string          | at_least_once, at_most_once or exactly_once; the handler's when missing |
| expires_at    | date            | not to be started after |
| start_within  | double          | seconds after run_at within which it must be started |
| start_by      | date            | the earlier of both, kept up to date with run_at |
| dedupe_key    | string          | where it has a namespace, that and \\x1f come before the key |
| dedupe_until  | date            | the end of its dedupe window; it is kept until then |
| burst         | document        | of a debounced job: at, when its burst began, and the token then; mark, of a bulk |
| parent_id     | string          | the job whose handler scheduled this one |
| schedule_id, scheduled_for | string, date | the schedule and firing that made this job |
| tracked       | true            | its schedule depends on its end |
| ahead         | true            | while running: claimed ahead, and not known to have been started |
| suspect       | true / "ahead"  | it was running, or claimed ahead, when its worker died; it runs in another process |
| claim, worker, claimed_at, lease_until | | while running: the claim's id, its worker, since and until when |
| max_attempts  | int             | how often it may be tried, noted by the last claim for a rescue |
| once          | true            | its guarantee is at most once: noted by the last claim for a rescue |
| cancel        | document        | a request to stop a running job: at, reason |
| steps         | array           | per finished step of its handler: name, at, attempt, result |
| progress      | document        | percent, note |
| stack         | document        | where its handler was when that was last asked: at, token, text |
| snoozes       | array           | the last snoozes, of each: token, run_at, started_at, at, until, reason |
| log, log_cut  | array, int      | the attempt's last lines, and how many came before; its entry has both at its end |
| result, result_note, error, finished_at | | how it ended |
| edited_at     | date            | when it was last changed by hand |
| sealed        | array           | the ids of the keys that its data, result and steps are encrypted with |
| fingerprint   | string          | of a dead letter: a hash of its error, the same for the same cause |
| redrive       | string          | the redrive that has run it again last |
| requests      | array           | the last requests with an id, and operations, that changed it: none does so twice |
| mapped        | document        | adopted through a field map: state and worker, as the other program reads; at |
| trace         | document        | the trace context of the call that stored it, where traces are on: text by key |
| alert         | true            | it is an alert about dead letters; its own failure causes no alert |
| flow          | string          | of a member of a flow: the id of the flow's root |
| root          | true            | it is the root of a flow: its handler has waited, or it is a declared flow |
| node          | string          | of a member: the names of the waits below the root, with "/" between |
| label         | string          | the user's name for it, beside that of its handler: of a webhook, a declared flow |
| before        | array           | of a predecessor: the waits that it holds back: the waiting job's id, "#", a name |
| waits         | document        | of a job that waits, or did so last: see below |
| spawned       | true            | its handler has made children: its cancellation concerns the jobs below it |
| check_at      | date            | when the sweep looks at it again: it is blocked, or has cancel_tree or retry_tree |
| because       | string          | of a job that was cancelled or skipped: the job whose end decided that |
| after, refs   | array           | of a node: its predecessors: node, job; results in its data: at, job, path|
| round         | int             | the number of the round, from 2 on, that `Continue` or a repetition began |
| cancel_tree, retry_tree | document | a cancellation, or retry, of the jobs below it that is under way: at, reason |

`waits` has ids (the waits, as in `before`), and in the same order total (the number of predecessors), tolerate (how
many may end badly) and fail_fast; signals (names), until, since, when (success, done, failure: of a declared node),
sealed (all predecessors exist), deleted (predecessors that were deleted by hand: wait, job), past (earlier waits whose
predecessors failed: id, total), timers (waits for signals that end at a time: wait, until), aborted (of a batch whose
maker died), retried (it was put back by the retry of its flow, and is not sealed yet).

## jobs.signals: one document per signal to a job

| _id | the job's id, the signal's name and the signal's id, with "/" between | job | the job's id |
| name, payload | the signal's name and its value | at | when it was stored | taken | true: a step of its job has it |

## jobs.keys: one document per dedupe key in force

| _id | the key | job | the id of the job it stands for | until | end of a stated window | at | when it was taken |
| round | changes whenever its ended job is run again | returning | while that is under way |

## jobs.workers: one document per live worker process

| _id, host, pid, queues, handlers, concurrency, running, started_at, beat_at, lease_until, version |
| schema | the version of the documents that it writes (model/schema_versions.py); 1 when missing |
| release | the name of the release of the program whose handlers it has, where that is set |
| limits, breakers | declared in its code: scope, target and the rules; explanations of other processes use them |
| memory, lag_ms | bytes in use by its process; the longest wait of a callback for its event loop since the last beat |
| slots | the jobs that it runs, the oldest 50: job, name, queue, since, gates (the limits whose slots each holds) |
| busy | how many jobs it runs, by queue: queue, n |
| drain | a request to claim no more, finish and end: at, reason, actor; ended, when it has finished |
| versions | of its handlers, where they are not of the first: name, version; of all of them where it takes any name |
| defaults | of its handlers, where any is declared: name, queue, priority, guarantee, encrypt (true, or paths) |
| | a process without the handler stores its jobs by them |
| asks | the running jobs whose stacks it is asked for: job, token, at; it takes them off |
| described | of its handlers: name, description (of its docstring), schema (JSON Schema of the data, as text) |

## jobs.locks: which worker does a chore for which one is enough, or claims from the head of a busy queue

| _id | "chores", "aging", "lines" (dissolving them), "prune" (finished jobs), "zones" (following them), "indexes"
(making them; only while it lasts), or "head:" and the queue | owner | until |

A lock only saves work: everything is safe when several processes do it. Three documents are exceptions: "archive"
tells until when finished jobs are deleted only by processes that have an archive hook; "audit" is the ticket line of
processes that append to the audit log at the same time: last, the last number that was taken, and done, the last number
whose turn is over; and "schema" is the version of all documents: version, minimum (the oldest version of a library that
may use the database), at, and walk, how far a migration is: step, after (an id), seen, changed, alone (no earlier
worker was alive since its beginning).

## jobs.gates: one document per gate in use; a job has to pass its gates before it runs

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | string   | the gate: its kind, then what it is for, with a key's value where it has one |
| grants        | array    | w, a worker; n, how many slots it has taken, or starts of a rate; at, since when |
| limit, full   | int, true | the limit at the last taking; nothing was left by it |
| tokens, at, opens | double, date, date | of a rate: the starts that are saved, as of when; when the next one is |
| line          | true     | it has a wait list |
| rev           | int      | rises whenever jobs join the wait list; ending the list compares it |
| open_at       | date     | jobs wait here, and there may be room from then on |
| opened_for    | any      | of a sequence: the id of the job that was first when a chore opened the gate |
| group, served | string, int | of a key in round robin: its group, and how many of its jobs were claimed |
| first         | int      | of a key in round robin: no job on its list is more urgent than this priority |
| keep_until    | date     | when it may be deleted if no worker uses it |

The kinds: "c" for limits (jobs at once) and "r" for rates, then "name" or "queue" and which one; "s" for a sequence;
"f" for a key in round robin; "p" for a pause and "b" for a breaker, then their targets.

## jobs.controls: one document per pause, limit and breaker that was set at run time

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | string   | kind, scope and target with colons between, then queue, key and value where there are any |
| kind          | string   | pause, limit (one that overrides what is declared) or breaker |
| scope, target | string   | what it is for: name or queue, and which one |
| key, value    | string, any | of a pause or a breaker: only of jobs that have this value at this place in their data |
| queue         | string   | of a name's breaker: only of its jobs in this queue |
| concurrency, rate | document | of a limit: the values; a missing one counts as declared |
| state         | string   | of a breaker: closed, open, half_open |
| since, open_until | date | of a breaker: when it came into that state; until when it is open (missing: until closed) |
| open_for      | double   | of a breaker: for how many seconds it opens again when a probe fails |
| rule          | document | of a breaker: errors, window, minimum, open_for, as declared by the last worker |
| counts, step  | array, int | of a breaker: good and bad ends by parts of the window, and a part's milliseconds |
| good, bad     | int      | of a breaker: their sums |
| story         | array    | of a breaker: its last ten changes of state: at, state, reason, actor |
| last_failure  | document | of a breaker: the last failed attempt that it counted: at, error (the type), job |
| change_id     | string   | of a breaker: the call that made the last change of its state |
| keep_until    | date     | of a breaker with a key: when it may be forgotten, if it is closed then |
| reason, actor, at | string, string, date | the reason, the caller and the time of the change |
| told          | date     | when it was changed; wakes the workers that listen |

## jobs.redrives: one document per redrive: retrying or discarding many dead letters

| field         | type     | meaning |
|---------------|----------|---------|
| _id, kind     | string   | its id; retry or discard |
| state         | string   | running, done, cancelled |
| selection     | document | which dead letters: name, queue, tag, error, fingerprint, since, until, text, or ids |
| edit          | document | the changes to the data of each: set, remove |
| cutoff        | date     | only dead letters from before it are part of the redrive |
| cursor        | document | how far it is: at and id of the last one looked at; or place, in the ids |
| batch         | array    | the dead letters in hand: _id, and key where it has one |
| matched, done, skipped | int | how many there were at the start; are dealt with; were left alone |
| skips         | array    | the first of those that were left alone: job, reason |
| rev           | int      | rises with every step, each of which compares it |
| stepped_at    | date     | when the last step was made |
| started_at, finished_at, actor, reason | | |

## jobs.operations: one document per operation: one verb on many jobs

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | string   | its id; the jobs that it has changed have it among their `requests` |
| verb          | string   | retry, cancel, run, delete, set_priority or move |
| filter        | document | which jobs: the conditions of a search (model/views/search.py), data, without |
| ids, named    | array, int | in place of a filter: the ids of the jobs, and how many there are |
| priority, queue | int, string | the new value, of set_priority and of move |
| scope         | document | the scope of its creator: queues, prefixes; empty: everything |
| state         | string   | waiting, running, completed, cancelled, failed |
| open          | true     | while a worker has something to do for it |
| count, capped | int, bool | how many jobs were meant when it was created; true: at least so many |
| cutoff        | date     | only jobs that were made by then are meant; of ended ones, those that had ended by then |
| cursor        | document | how far it is: walk, state, after, found; or place, in the ids |
| batch         | array    | the jobs in hand: _id, key where it has one, stray, secret |
| next          | document | the cursor behind the batch |
| changed, skipped, refused | int | how many jobs were changed; did not match any more; the verb does not work on |
| reasons       | array    | the first of those that were left alone: job, refused, reason |
| error         | string   | why it failed, or does not get on |
| rev           | int      | rises with every step, each of which compares it |
| created_at, starts_at, started_at, stepped_at, finished_at | date | |
| actor, reason | string   | its creator, and why |

`data` in the filter is an array of path and values; `without` has the names of jobs of which a value that the filter
asks for is not shown, so that they are not meant.

## jobs.alerts: one document per handler that is told of dead letters

| _id | the handler's name | since | from when on | at | dead letters before it were reported |
| rev | rises with every decision | making | the summary that is being made: start, end, count, groups, tail |
| told_at | when the last summary was made | tail | marks of the youngest dead letters in it, 8 bytes each |

## jobs.schedules: one document per schedule

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | string   | the schedule's id |
| v, rev        | int      | layout; rises with every decision and change, each of which compares it |
| job | document | name, data, data_v, sealed, queue, priority, retry, guarantee, timeout, tags, start_within |
| rule, start_at, end_at, jitter, calendars | | when it fires; calendars: name and rev of each |
| since         | date     | from when on these times are in force |
| eras          | array    | the times that were in force before, for the ledger |
| misfire, misfire_grace, misfire_limit, start_deadline, overlap, max_runs, pause_after | | its policies |
| cursor        | date     | every firing up to this nominal time has been decided |
| next_at, due_at | date   | the next firing's nominal time, and with jitter |
| fire_at       | date     | when to look at it: due_at, or sooner; missing when there is nothing to come |
| decision_id   | string   | the pass that stored the last decision; at first, the creating call |
| making        | document | the part of it that is not done: jobs, rows, cancels, releases, forgets; then |
| live, queued  | array    | its runs that are still going, and those that wait for them (job, after) |
| runs, failures, last | int, int, document | jobs made; failed in a row; the last firing (at, job) |
| paused        | document | at, reason, actor |
| zones         | string   | the zones it depends on, with a fingerprint of their rules |
| declared      | document | declared in code: app, and print, a fingerprint of the declaration |
| requests      | array    | the last skips by hand that had an id: none is carried out twice |
| told          | date     | when a person or a program changed it; wakes the workers that listen |
| created_at, updated_at | date | |

## jobs.ledger: the outcomes of firings that cannot be computed

| _id | the firing's id, a span's, or the job's | schedule_id |
| at, until | the firing, or the first and the last of a span |
| span | true where it is one | outcome | late, skipped, missed, backfilled, triggered, on_time |
| reason, late_by, job, actor, count |

A backfill is there too: outcome "backfill", with window (start, end), which, cursor, made, done, actor.

## jobs.calendars: one document per calendar, and one per earlier revision of it

| _id | the name, or the name, "@" and the revision | name, rev, calendar, updated_at, actor |
| past | true on earlier revisions | deleted | true on what is left of a deleted calendar: its rev |

## jobs.access: one document per API key, revoked ones included

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | string   | the key's id: the middle part of its text |
| v             | int      | layout |
| name, role    | string   | its owner's name for it; viewer, operator or admin |
| hash          | string   | SHA-256 of the secret; the secret itself is nowhere |
| queues, prefixes | array | its scope; missing: everything |
| old_hash, old_until | string, date | the secret before the last rotation, and until when it counts |
| expires_at, revoked_at, rotated_at, last_used_at | date | the last use to the minute |
| requests      | array    | the last rotations that had an id: none is carried out twice |
| created_at, actor | date, string | |

## jobs.sessions: one document per session that was closed before its end

| _id | a hash of the session | until | when it would have ended, and this document goes |

## jobs.secrets: one document per secret

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | string   | its name |
| v, rev        | int      | layout; rises with every write, each of which compares it |
| version       | int      | how many values it has had |
| value         | document | the value, encrypted |
| old, old_until | document, date | the value before, encrypted, and until when requests are signed with it, too |
| origins       | array    | where webhooks may send it: "https://api.example.com", or "*" alone; nowhere if missing |
| queues, prefixes | array, array | queues, and beginnings of names, of the jobs that may use it; all if missing |
| created_at, updated_at, actor | date, date, string | |

## jobs.alert_rules: one document per alert rule, with the state of its alert

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | string   | the rule's id |
| v, rev        | int      | layout; rises with every write, each of which compares it |
| name, kind    | string   | for readers; dead_letters, schedule_missed, queue_late, no_worker or breaker_open |
| to            | array    | its destinations: type, and data, that of the job that sends, without the message |
| queues, prefixes | array, array | queues, and beginnings of names, that it is about; all if missing |
| after, group_window, within, repeat_every | double | seconds |
| threshold     | int      | how many dead letters of one cause count |
| send_resolved, enabled | bool | |
| queue         | string   | the queue of the jobs that send; that of webhooks or mail if missing |
| silence       | document | until, reason, actor, at |
| state         | document | episode, since, told_at, gathering_since: see model/alerts/episode.py |
| state.subjects | array   | of each: key, text, since, told, gone_at |
| state.messages | int     | how many messages there were; the ids of their jobs follow from it |
| state.outbox  | array    | messages whose jobs are perhaps not stored: number, kind, at, since, episode, subjects |
| state.jobs    | array    | the ids of the jobs that sent the last messages |
| created_at, updated_at, actor | date, date, string | |

## jobs.replies: one document per Idempotency-Key that came with a request, for a day

| _id | a hash of the caller and its key | print | a hash of the request | seed | the id of the thing it makes |
| at | when it was first asked | status, body | the answer, once it is known; of a bulk, how many lines it had |

Each line of a bulk that was stored has one too: _id is the bulk's seed, a colon and the line's number; seed its job.

## jobs.service: secrets of the HTTP service that all its processes share, each made when it is first needed

| _id | "sealing": cursors and places in the stream of events, which callers bring back, are encrypted with it |
| secret, at | 32 bytes; when they were made |

## jobs.audit: the audit log, one document per change; rows are only ever added

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | int      | the row's number: 1, 2, 3 without gaps |
| id            | string   | random; with an Idempotency-Key, the request's seed |
| at            | date     | never before that of the row before |
| actor, address | string  | the caller, and its address |
| action, target | string  | the change, and the thing that was changed |
| before, after | string   | the thing before and after, as JSON, redacted and cut |
| key           | string   | the id of the key that the hash was made with; null where there was none |
| prev, hash    | string   | the hash of the row before; of this one and of that, with a key an HMAC |

## jobs.audit.head: one document, "head": n, hash and at of the last row; with a key, key (its id) and mac

## jobs.stats: how many attempts began and ended, one document per minute and worker; later per span of time

| field         | type     | meaning |
|---------------|----------|---------|
| _id           | document | per: worker (a minute of one), minute, part (five minutes), hour or day; at; worker |
| total         | document | the counts of all attempts, see below |
| kinds         | document | by a hash of both: queue, name, and the counts of their attempts |
| oldest        | document | by a hash of it: queue, and for how many ms a job of it was seen to have been due |

Counts are started, completed, failed, retried, cancelled, snoozed, lost; duration_ms and lateness_ms, in sum of those
that ended and of those that began; bins and waits, how many took and waited how long, by the place of their bin.

Two kinds of documents are exceptions. Where per is "marks", there is only one: it has the instants up to which the
spans of each length are complete (minute, part, hour, day) and minutes were deleted (pruned), and the versions of
workers that were seen. Where per is "version", the id has at, when a version of workers was first seen, and version.

Failures are counted by their fingerprint: per is "group", at an hour, and the id has queue, print (the fingerprint) and
worker; failed has the number. They are kept for two days.
"""

from __future__ import annotations

from typing import Any

from mainspring.config.field_map import FieldMap
from mainspring.model.jobs.job import BLOCKED, CANCELLED, EXPIRED, FAILED, PENDING, RUNNING

Document = dict[str, Any]
"""A document of MongoDB: a stored one, a filter, an update, or a stage of a pipeline."""
Expression = Any
"""An expression of MongoDB, such as `$$NOW`; under a manual clock, a literal."""

LAYOUT = 1
SCHEMA = "schema"
"""The document of `jobs.locks` that has the version of the database."""
# Part of every update that changes what a claim would read.
BUMP = {"rev": {"$add": ["$rev", 1]}}
LIVE = (PENDING, RUNNING)
NOT_ENDED = (BLOCKED, PENDING, RUNNING)
BADLY_ENDED = (FAILED, CANCELLED, EXPIRED)

# Without this hint the planner may prefer the index of a state to the given ids, and scan all running jobs.
BY_ID = "_id_"

CLAIM, LEASE, FINISHED_INDEX, RAW, START_BY, CANCEL, WAITING_FOR, WAITING_BY_QUEUE, SCHEDULE = (
    "claim",
    "lease",
    "finished",
    "inserted",
    "start_by",
    "cancel",
    "waiting_for",
    "waiting_by_queue",
    "schedule",
)
LINE, SEQ, GOING, OPEN, HOLDERS, BY_FAIRNESS, UNUSED = (
    "line",
    "seq",
    "going",
    "open_lines",
    "holders",
    "in_turn",
    "unused",
)
DUE, CALENDARS, ZONES, DECLARED, CREATED = "due", "calendars", "zones", "declared", "created"
FIRINGS, SPANS, OLD = "firings", "spans", "old"
DEAD, GROUPED, UNDER_WAY, STARTED = "dead", "grouped", "under_way", "started"
OPEN_OPERATIONS = "open"
SEALED = "sealed"
FAILURES = "failures"
BEFORE, BEFORE_BADLY, CHECK, FLOW, FLOW_ENDED, ROOTS, SIGNALS, SENT = (
    "before",
    "before_badly",
    "check",
    "flow",
    "flow_ended",
    "roots",
    "signals",
    "sent",
)
COUNTED = "counted"
PAUSED_SCHEDULES, BROKEN = "paused", "broken"
BEAT_AT, HANDLERS = "beat_at", "handlers"
AUDIT_ACTOR, AUDIT_TARGET = "actor", "target"
KEPT_BY_NAME, KEPT_BY_QUEUE = "kept_by_name", "kept_by_queue"
# An answer is kept for a day after the request.
REPLIES_KEPT = 86_400


def mapped_index(map: FieldMap) -> str:
    """The index that finds jobs that were adopted through a field map and are out of step."""
    return f"mapped_{map.status}"


def mapped_inserts_index(map: FieldMap) -> str:
    """The index of raw inserts by the fields that a field map tells them apart by."""
    return f"inserted_{map.status}_{map.name}"
