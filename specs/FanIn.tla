------------------------------- MODULE FanIn -------------------------------
(* A handler spawns children and waits for them; its own job is the waiter. There is no counter: the waiter goes on when it is
   suspended and no live child names its wait.

   The handler inserts its children under computed ids, looks, and suspends with ONE fenced write, which also seals the
   wait. A check is done by any process at any time: read the waiter (r1), look for a live child (r2), for fail_fast count the
   bad ones (r3), and compare-and-set. The handler runs again from the top after each release and each rescue; a wait that it
   has passed is kept as a step by a fenced write.

   A wait stands for one name in one round of the handler; after the last one the handler ends. A child is <<wait, number>>;
   number 0 is a child that a live sibling adds while it runs.

   Faults, together at most MaxFaults: "crash" of a run, "pause" (the lease of a live run ends), "back" (a child is retried
   or rescued), "death" of a checker, "lost" (the process that ended a child dies before its check), "depose" (a primary
   is deposed, and answers reads with its old data for ever). *)
EXTENDS Naturals, FiniteSets

CONSTANTS Waits, Base, Runs, Checkers, MaxFaults, Faults,
          Tolerate,     \* how many children may end badly
          FailFast,     \* a wait is decided by more bad children than that, while others live
          Growth,       \* "none", "live" (by a child that runs), "late" (mutant: by a child that has ended)
          Sweep,        \* blocked jobs are checked now and then, without an event
          SealLast,     \* the handler suspends after its last insert
          LiveRead,     \* "after" r1; "before" it (mutant)
          Cas,          \* "rev" (state and revision), "state" (mutant), "none" (mutant)
          WaitIds,      \* "own": each wait has an id of its own; "shared" (mutant): the round is no part of it
          CancelFirst,  \* fail_fast cancels the siblings before the compare-and-set
          Causal,       \* the reads of a check are one causally consistent session
          Majority      \* reads see only what a majority has

Kids == (1..Waits) \X (IF Growth = "none" THEN 1..Base ELSE 0..Base)

VARIABLES job,       \* the stored document of the waiter: state, token, rev, wait
          run,       \* the runs of its handler, late ones too: token (0 is none), pc, wait
          kid,       \* the state of each child
          asked,     \* the children whose cancellation was requested
          check,     \* the checkers: pc, and what they saw
          due,       \* a check was triggered and not begun yet
          old,       \* what a deposed primary shows
          faults, releases, early, wrong

vars == <<job, run, kid, asked, check, due, old, faults, releases, early, wrong>>

Live == {"pending", "running"}
Bad == {"failed", "cancelled"}
Own(w) == {k \in Kids : k[1] = w}
Named(w) == IF WaitIds = "own" THEN Own(w) ELSE Kids
Spawned(w) == {k \in Own(w) : k[2] > 0}
LiveOf(kids, w) == {k \in Named(w) : kids[k] \in Live}
BadOf(kids, w) == {k \in Named(w) : kids[k] \in Bad}
TooBad(kids, w) == Cardinality(BadOf(kids, w)) > Tolerate
Quick(kids, w) == FailFast /\ TooBad(kids, w)

NoRun == [token |-> 0, pc |-> "idle", wait |-> 1]
NoCheck == [pc |-> "idle", rev |-> 0, wait |-> 1, held |-> TRUE, newer |-> FALSE]
NoOld == [known |-> FALSE]

Init == /\ job = [state |-> "pending", token |-> 0, rev |-> 0, wait |-> 1]
        /\ run = [r \in Runs |-> NoRun]
        /\ kid = [k \in Kids |-> "absent"]
        /\ asked = {}
        /\ check = [c \in Checkers |-> NoCheck]
        /\ due = FALSE
        /\ old = NoOld
        /\ faults = 0
        /\ releases = [w \in 1..Waits |-> 0]
        /\ early = FALSE
        /\ wrong = FALSE

May(fault) == fault \in Faults /\ faults < MaxFaults
Triggered == ~Sweep

(* ---- the handler ---- *)

Holds(r) == job.state = "running" /\ job.token = run[r].token
Claim(r) ==
  /\ job.state = "pending" /\ run[r] = NoRun
  /\ job' = [job EXCEPT !.state = "running", !.token = @ + 1, !.rev = @ + 1]
  /\ run' = [run EXCEPT ![r] = [token |-> job.token + 1, pc |-> "spawn", wait |-> job.wait]]
  /\ UNCHANGED <<kid, asked, check, due, old, faults, releases, early, wrong>>

(* Not fenced: a run that lost its claim inserts, too. *)
Spawn(r, k) ==
  /\ run[r].pc = "spawn" /\ k \in Spawned(run[r].wait) /\ kid[k] = "absent"
  /\ kid' = [kid EXCEPT ![k] = "pending"]
  /\ UNCHANGED <<job, run, asked, check, due, old, faults, releases, early, wrong>>

Inserted(w) == \A k \in Spawned(w) : kid[k] # "absent"

(* What a read may show. A deposed primary shows old children to a session that does not order its reads. A read of
   what no majority has shows the end of a child that is rolled back afterwards. *)
Views(newer) ==
  {kid} \cup (IF old.known /\ (~Causal \/ ~newer) THEN {old.kid} ELSE {})
        \cup (IF Majority THEN {} ELSE {[kid EXCEPT ![k] = "completed"] : k \in {k \in Kids : kid[k] = "running"}})

(* The handler looks itself before it suspends, in the session of its inserts. *)
Look(r) ==
  /\ run[r].pc = "spawn" /\ Holds(r) /\ (SealLast => Inserted(job.wait))
  /\ \E seen \in Views(TRUE) :
       LET goes == LiveOf(seen, job.wait) = {} \/ Quick(seen, job.wait)
       IN /\ run' = [run EXCEPT ![r].pc = IF goes /\ Inserted(job.wait) THEN "pass" ELSE "suspend"]
          /\ wrong' = (wrong \/ (goes /\ Inserted(job.wait) /\ ~Quick(kid, job.wait)
                                   /\ \E k \in Own(job.wait) : kid[k] \in Live))
  /\ UNCHANGED <<job, kid, asked, check, due, old, faults, releases, early>>

(* Seal and suspend: one fenced write. *)
Suspend(r) ==
  /\ run[r].pc = "suspend"
  /\ run' = [run EXCEPT ![r] = NoRun]
  /\ IF Holds(r)
     THEN /\ job' = [job EXCEPT !.state = "blocked", !.rev = @ + 1]
          /\ due' = Triggered
     ELSE UNCHANGED <<job, due>>
  /\ UNCHANGED <<kid, asked, check, old, faults, releases, early, wrong>>

CancelLive(w) ==
  /\ kid' = [k \in Kids |-> IF k \in Own(w) /\ kid[k] = "pending" THEN "cancelled" ELSE kid[k]]
  /\ asked' = asked \cup {k \in Own(w) : kid[k] = "running"}

(* The wait is passed: kept as a step, with the number of bad children. With fail_fast the handler cancels those that live
   before it says so. *)
Pass(r) ==
  /\ run[r].pc = "pass"
  /\ IF Holds(r)
     THEN /\ job' = [job EXCEPT !.wait = @ + 1, !.rev = @ + 1, !.state = IF job.wait = Waits THEN "ended" ELSE @]
          /\ run' = [run EXCEPT ![r] = IF job.wait = Waits THEN NoRun ELSE [@ EXCEPT !.pc = "spawn", !.wait = @ + 1]]
          /\ wrong' = (wrong \/ TooBad(kid, job.wait) # (Cardinality({k \in Own(job.wait) : kid[k] \in Bad}) > Tolerate))
          /\ CancelLive(job.wait)
     ELSE /\ run' = [run EXCEPT ![r] = NoRun]
          /\ UNCHANGED <<job, kid, asked, wrong>>
  /\ UNCHANGED <<check, due, old, faults, releases, early>>

Lost(r) == /\ run[r].token > 0 /\ ~Holds(r)
           /\ run' = [run EXCEPT ![r] = NoRun]
           /\ UNCHANGED <<job, kid, asked, check, due, old, faults, releases, early, wrong>>

Crash(r) == /\ run[r].token > 0 /\ May("crash") /\ faults' = faults + 1
            /\ run' = [run EXCEPT ![r] = NoRun]
            /\ UNCHANGED <<job, kid, asked, check, due, old, releases, early, wrong>>

Rescue == /\ job.state = "running"
          /\ IF \E r \in Runs : Holds(r) THEN May("pause") /\ faults' = faults + 1 ELSE UNCHANGED faults
          /\ job' = [job EXCEPT !.state = "pending", !.rev = @ + 1]
          /\ UNCHANGED <<run, kid, asked, check, due, old, releases, early, wrong>>

(* ---- the children ---- *)

Start(k) == /\ kid[k] = "pending" /\ kid' = [kid EXCEPT ![k] = "running"]
            /\ UNCHANGED <<job, run, asked, check, due, old, faults, releases, early, wrong>>

End(k) == /\ kid[k] = "running"
          /\ \E s \in {"completed", "failed"} \cup (IF k \in asked THEN {"cancelled"} ELSE {}) :
               kid' = [kid EXCEPT ![k] = s]
          /\ due' = Triggered
          /\ UNCHANGED <<job, run, asked, check, old, faults, releases, early, wrong>>

(* A retry and a rescue expect that no cancellation was requested. *)
Back(k) == /\ kid[k] = "running" /\ k \notin asked /\ May("back") /\ faults' = faults + 1
           /\ kid' = [kid EXCEPT ![k] = "pending"]
           /\ UNCHANGED <<job, run, asked, check, due, old, releases, early, wrong>>

Grow(k) == LET new == <<k[1], 0>> IN
           /\ Growth # "none" /\ k[2] > 0 /\ k \notin asked /\ kid[new] = "absent"
           /\ kid[k] = "running" \/ (Growth = "late" /\ kid[k] = "completed")
           /\ kid' = [kid EXCEPT ![new] = "pending"]
           /\ early' = (early \/ releases[k[1]] > 0)
           /\ UNCHANGED <<job, run, asked, check, due, old, faults, releases, wrong>>

(* ---- the check ---- *)

Begins == Sweep \/ due

ReadWaiter(c) ==
  /\ check[c].pc = "idle" /\ LiveRead = "after" /\ Begins
  /\ due' = FALSE
  /\ \E stale \in IF old.known THEN BOOLEAN ELSE {FALSE} :
       LET seen == IF stale THEN old.job ELSE job IN
       IF seen.state = "blocked"
       THEN check' = [check EXCEPT ![c] = [pc |-> "live", rev |-> seen.rev, wait |-> seen.wait, held |-> TRUE,
                                            newer |-> old.known /\ ~stale]]
       ELSE ~Sweep /\ UNCHANGED check
  /\ UNCHANGED <<job, run, kid, asked, old, faults, releases, early, wrong>>

Decide(c, held, bad) == IF bad THEN (IF CancelFirst THEN "cancel" ELSE "cas-cancel") ELSE IF held THEN "idle" ELSE "cas"

ReadLive(c) ==
  /\ check[c].pc = "live"
  /\ \E seen \in Views(check[c].newer) :
       LET held == LiveOf(seen, check[c].wait) # {} IN
       check' = [check EXCEPT ![c].held = held,
                              ![c].pc = IF FailFast /\ held THEN "bad" ELSE Decide(c, held, FALSE)]
  /\ UNCHANGED <<job, run, kid, asked, due, old, faults, releases, early, wrong>>

ReadBad(c) ==
  /\ check[c].pc = "bad"
  /\ \E seen \in Views(check[c].newer) :
       check' = [check EXCEPT ![c].pc = Decide(c, check[c].held, TooBad(seen, check[c].wait))]
  /\ UNCHANGED <<job, run, kid, asked, due, old, faults, releases, early, wrong>>

(* The mutant: children first, then the waiter. *)
LiveFirst(c) ==
  /\ check[c].pc = "idle" /\ LiveRead = "before" /\ Begins /\ job.state \in {"running", "blocked"}
  /\ check' = [check EXCEPT ![c] = [NoCheck EXCEPT !.pc = "waiter", !.wait = job.wait,
                                                   !.held = LiveOf(kid, job.wait) # {}]]
  /\ due' = FALSE
  /\ UNCHANGED <<job, run, kid, asked, old, faults, releases, early, wrong>>

WaiterLast(c) ==
  /\ check[c].pc = "waiter"
  /\ check' = [check EXCEPT ![c].rev = job.rev,
                            ![c].pc = IF job.state = "blocked" /\ ~check[c].held THEN "cas" ELSE "idle"]
  /\ UNCHANGED <<job, run, kid, asked, due, old, faults, releases, early, wrong>>

CancelSiblings(c) ==
  /\ check[c].pc \in {"cancel", "cancel-last"}
  /\ CancelLive(check[c].wait)
  /\ check' = [check EXCEPT ![c] = IF @.pc = "cancel" THEN [@ EXCEPT !.pc = "cas"] ELSE NoCheck]
  /\ UNCHANGED <<job, run, due, old, faults, releases, early, wrong>>

Matches(c) == CASE Cas = "rev" -> job.state = "blocked" /\ job.rev = check[c].rev
                [] Cas = "state" -> job.state = "blocked"
                [] OTHER -> job.state # "ended"

Release(c) ==
  /\ check[c].pc \in {"cas", "cas-cancel"}
  /\ check' = [check EXCEPT ![c] = IF @.pc = "cas-cancel" THEN [@ EXCEPT !.pc = "cancel-last"] ELSE NoCheck]
  /\ IF Matches(c)
     THEN /\ job' = [job EXCEPT !.state = "pending", !.rev = @ + 1]
          /\ releases' = [releases EXCEPT ![job.wait] = @ + 1]
          /\ early' = (early \/ ~Inserted(job.wait)
                         \/ (~(FailFast /\ Cardinality({k \in Own(job.wait) : kid[k] \in Bad}) > Tolerate)
                               /\ \E k \in Own(job.wait) : kid[k] \in Live))
     ELSE UNCHANGED <<job, releases, early>>
  /\ UNCHANGED <<run, kid, asked, due, old, faults, wrong>>

Die(c) == /\ check[c].pc # "idle" /\ May("death") /\ faults' = faults + 1
          /\ check' = [check EXCEPT ![c] = NoCheck]
          /\ UNCHANGED <<job, run, kid, asked, due, old, releases, early, wrong>>

Forget == /\ due /\ May("lost") /\ faults' = faults + 1 /\ due' = FALSE
          /\ UNCHANGED <<job, run, kid, asked, check, old, releases, early, wrong>>

Depose == /\ ~old.known /\ May("depose") /\ faults' = faults + 1
          /\ old' = [known |-> TRUE, job |-> job, kid |-> kid]
          /\ UNCHANGED <<job, run, kid, asked, check, due, releases, early, wrong>>

RunStep(r) == Claim(r) \/ (\E k \in Kids : Spawn(r, k)) \/ Look(r) \/ Suspend(r) \/ Pass(r) \/ Lost(r)
CheckStep(c) == ReadWaiter(c) \/ ReadLive(c) \/ ReadBad(c) \/ LiveFirst(c) \/ WaiterLast(c) \/ CancelSiblings(c) \/ Release(c)
FreeRescue == Rescue /\ faults' = faults

Next == \/ \E r \in Runs : RunStep(r) \/ Crash(r)
        \/ Rescue
        \/ \E k \in Kids : Start(k) \/ End(k) \/ Back(k) \/ Grow(k)
        \/ \E c \in Checkers : CheckStep(c) \/ Die(c)
        \/ Forget \/ Depose

Spec == Init /\ [][Next]_vars
Fairly == /\ WF_vars(\E r \in Runs : RunStep(r)) /\ WF_vars(FreeRescue)
          /\ \A k \in Kids : WF_vars(Start(k) \/ End(k))
          /\ \A c \in Checkers : WF_vars(CheckStep(c))
FairSpec == Spec /\ Fairly

(* ---- what is promised ---- *)

Once == \A w \in 1..Waits : releases[w] <= 1
NeverEarly == ~early
(* A wait is passed on the end of its own children, and on nothing else. *)
Right == ~wrong
(* After a release by fail_fast, each child that lives has been told to stop. *)
Told == \A w \in 1..Waits : (releases[w] > 0 /\ \A c \in Checkers : check[c].pc = "idle") =>
          \A k \in Own(w) : kid[k] \in Live => k \in asked
(* No stuck end. *)
Ends == <>(job.state = "ended")
=============================================================================
