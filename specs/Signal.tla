------------------------------- MODULE Signal -------------------------------
(* A handler waits for signals of one name, one after another, and each signal is taken once.

   The sender stores the signal, then compares-and-sets blocked -> pending. The handler looks, suspends with a fenced write,
   and its worker looks again. Taking a signal is the fenced write of the step, which keeps the signal's id: a signal whose id
   is in a kept step is taken. At the end of a round (Continue) the steps are forgotten; before that the handler marks the
   signals that they have taken. A sender repeats a signal whose reply was lost, under the same id.

   Faults, together at most MaxFaults: "crash" of a run, "pause" (the lease of a live run ends), "sender" (a sender dies after
   its first write), "blind" (the worker dies between the suspension and its second look). *)
EXTENDS Naturals, FiniteSets

CONSTANTS Signals,     \* ids of the signals that are sent
          Steps,       \* how many signals the handler waits for
          Rounds,      \* the handler begins a new round after each step
          Runs, MaxFaults, Faults,
          Sweep,       \* blocked jobs are looked at now and then
          SecondLook,  \* the worker looks again after the suspension
          StoreFirst,  \* the sender stores before it compares-and-sets
          Take,        \* "step"; "delete" (mutant: the signal is removed, then the step is kept)
          Mark         \* signals are marked as taken before their steps are forgotten

VARIABLES job,      \* the stored document: state, token, rev, step
          kept,     \* the ids in the kept steps of this round
          stored,   \* the signals in the collection
          marked,   \* those of them that are marked as taken
          run,      \* runs of the handler: token (0 is none), pc, the signal that the run found
          sender,   \* "start", "first" (one write is done), "done"; for each signal
          again,    \* signals that were sent a second time
          eyes,     \* a worker that still has to look again after its suspension: the rev of it; 0 is none
          faults, taken, spurious

vars == <<job, kept, stored, marked, run, sender, again, eyes, faults, taken, spurious>>

NoSignal == "none"
NoRun == [token |-> 0, pc |-> "idle", found |-> NoSignal]

Init == /\ job = [state |-> "pending", token |-> 0, rev |-> 0, step |-> 1]
        /\ kept = {}
        /\ stored = {}
        /\ marked = {}
        /\ run = [r \in Runs |-> NoRun]
        /\ sender = [s \in Signals |-> "start"]
        /\ again = {}
        /\ eyes = 0
        /\ faults = 0
        /\ taken = [s \in Signals |-> 0]
        /\ spurious = FALSE

May(fault) == fault \in Faults /\ faults < MaxFaults
Free == stored \ (kept \cup marked)
Holds(r) == job.state = "running" /\ job.token = run[r].token

(* ---- the handler ---- *)

Claim(r) == /\ job.state = "pending" /\ run[r] = NoRun
            /\ job' = [job EXCEPT !.state = "running", !.token = @ + 1, !.rev = @ + 1]
            /\ run' = [run EXCEPT ![r] = [token |-> job.token + 1, pc |-> "look", found |-> NoSignal]]
            /\ UNCHANGED <<kept, stored, marked, sender, again, eyes, faults, taken, spurious>>

Look(r) == /\ run[r].pc = "look"
           /\ IF Free = {}
              THEN run' = [run EXCEPT ![r].pc = "suspend"] /\ UNCHANGED stored
              ELSE \E s \in Free :
                     /\ run' = [run EXCEPT ![r].pc = "take", ![r].found = s]
                     /\ stored' = IF Take = "delete" THEN stored \ {s} ELSE stored
           /\ UNCHANGED <<job, kept, marked, sender, again, eyes, faults, taken, spurious>>

(* The step is kept, with the id of the signal, by a write that carries the fence. *)
TakeIt(r) == /\ run[r].pc = "take"
             /\ IF Holds(r)
                THEN /\ kept' = kept \cup {run[r].found}
                     /\ taken' = [taken EXCEPT ![run[r].found] = @ + 1]
                     /\ run' = [run EXCEPT ![r].pc = "next", ![r].found = NoSignal]
                ELSE /\ run' = [run EXCEPT ![r] = NoRun]
                     /\ UNCHANGED <<kept, taken>>
             /\ UNCHANGED <<job, stored, marked, sender, again, eyes, faults, spurious>>

(* The handler marks the signals of its kept steps. A run that lost its claim marks what is taken, too: no harm. *)
MarkTaken(r) == /\ run[r].pc = "next" /\ Rounds /\ Mark /\ ~(kept \subseteq marked)
                /\ marked' = marked \cup kept
                /\ UNCHANGED <<job, kept, stored, run, sender, again, eyes, faults, taken, spurious>>

GoOn(r) == /\ run[r].pc = "next" /\ ((Rounds /\ Mark) => kept \subseteq marked)
           /\ IF Holds(r)
              THEN /\ job' = [job EXCEPT !.rev = @ + 1, !.step = @ + 1, !.state = IF job.step = Steps THEN "ended" ELSE @]
                   /\ kept' = IF Rounds THEN {} ELSE kept
                   /\ run' = [run EXCEPT ![r] = IF job.step = Steps THEN NoRun ELSE [@ EXCEPT !.pc = "look"]]
              ELSE run' = [run EXCEPT ![r] = NoRun] /\ UNCHANGED <<job, kept>>
           /\ UNCHANGED <<stored, marked, sender, again, eyes, faults, taken, spurious>>

(* A resumed handler finds the step of its wait kept, if an earlier run got so far. *)
Replay(r) == /\ run[r].pc = "look" /\ Holds(r) /\ Cardinality(kept) >= IF Rounds THEN 1 ELSE job.step
             /\ run' = [run EXCEPT ![r].pc = "next"]
             /\ UNCHANGED <<job, kept, stored, marked, sender, again, eyes, faults, taken, spurious>>

Suspend(r) == /\ run[r].pc = "suspend"
              /\ run' = [run EXCEPT ![r] = NoRun]
              /\ IF Holds(r)
                 THEN /\ job' = [job EXCEPT !.state = "blocked", !.rev = @ + 1]
                      /\ eyes' = IF SecondLook THEN job.rev + 1 ELSE 0
                 ELSE UNCHANGED <<job, eyes>>
              /\ UNCHANGED <<kept, stored, marked, sender, again, faults, taken, spurious>>

Crash(r) == /\ run[r].token > 0 /\ May("crash") /\ faults' = faults + 1
            /\ run' = [run EXCEPT ![r] = NoRun]
            /\ UNCHANGED <<job, kept, stored, marked, sender, again, eyes, taken, spurious>>

Rescue == /\ job.state = "running"
          /\ IF \E r \in Runs : Holds(r) THEN May("pause") /\ faults' = faults + 1 ELSE UNCHANGED faults
          /\ job' = [job EXCEPT !.state = "pending", !.rev = @ + 1]
          /\ UNCHANGED <<kept, stored, marked, run, sender, again, eyes, taken, spurious>>

(* ---- waking the job ---- *)

Wake == /\ job' = [job EXCEPT !.state = "pending", !.rev = @ + 1]
        /\ spurious' = (spurious \/ Free = {})

LookAgain == /\ eyes > 0 /\ eyes' = 0
             /\ IF Free # {} /\ job.state = "blocked" /\ job.rev = eyes THEN Wake ELSE UNCHANGED <<job, spurious>>
             /\ UNCHANGED <<kept, stored, marked, run, sender, again, faults, taken>>

Blind == /\ eyes > 0 /\ May("blind") /\ faults' = faults + 1 /\ eyes' = 0
         /\ UNCHANGED <<job, kept, stored, marked, run, sender, again, taken, spurious>>

SweepIt == /\ Sweep /\ job.state = "blocked" /\ Free # {} /\ Wake
           /\ UNCHANGED <<kept, stored, marked, run, sender, again, eyes, faults, taken>>

(* The compare-and-set does not look at the signals: it may wake a job whose signal is taken already. *)
Set == IF job.state = "blocked" THEN job' = [job EXCEPT !.state = "pending", !.rev = @ + 1] ELSE UNCHANGED job

Send(s) == \/ /\ sender[s] = "start"
              /\ sender' = [sender EXCEPT ![s] = "first"]
              /\ IF StoreFirst THEN stored' = stored \cup {s} /\ UNCHANGED job ELSE Set /\ UNCHANGED stored
              /\ UNCHANGED <<kept, marked, run, again, eyes, faults, taken, spurious>>
           \/ /\ sender[s] = "first"
              /\ sender' = [sender EXCEPT ![s] = "done"]
              /\ IF StoreFirst THEN Set /\ UNCHANGED stored ELSE stored' = stored \cup {s} /\ UNCHANGED job
              /\ UNCHANGED <<kept, marked, run, again, eyes, faults, taken, spurious>>

SendAgain(s) == /\ sender[s] = "done" /\ s \notin again /\ May("sender") /\ faults' = faults + 1
                /\ again' = again \cup {s}
                /\ sender' = [sender EXCEPT ![s] = "start"]
                /\ UNCHANGED <<job, kept, stored, marked, run, eyes, taken, spurious>>

SenderDies(s) == /\ sender[s] = "first" /\ StoreFirst /\ May("sender") /\ faults' = faults + 1
                 /\ sender' = [sender EXCEPT ![s] = "done"]
                 /\ UNCHANGED <<job, kept, stored, marked, run, again, eyes, taken, spurious>>

RunStep(r) == Claim(r) \/ Replay(r) \/ (Look(r) /\ ~ENABLED Replay(r)) \/ TakeIt(r) \/ MarkTaken(r) \/ GoOn(r) \/ Suspend(r)
FreeRescue == Rescue /\ faults' = faults

Next == \/ \E r \in Runs : RunStep(r) \/ Crash(r)
        \/ Rescue \/ LookAgain \/ Blind \/ SweepIt
        \/ \E s \in Signals : Send(s) \/ SendAgain(s) \/ SenderDies(s)

Spec == Init /\ [][Next]_vars
Fairly == /\ \A r \in Runs : WF_vars(RunStep(r))
          /\ WF_vars(FreeRescue) /\ WF_vars(LookAgain) /\ WF_vars(SweepIt)
          /\ \A s \in Signals : WF_vars(Send(s))
FairSpec == Spec /\ Fairly

(* ---- what is promised ---- *)

OnceTaken == \A s \in Signals : taken[s] <= 1
(* The sweep and the second look wake a job for a signal that is free; otherwise they would wake it for ever. *)
NotSpurious == ~spurious
(* Enough signals were sent: the handler gets to its end. *)
Ends == <>(job.state = "ended")
=============================================================================
