------------------------------- MODULE Cancel -------------------------------
(* Cancelling a tree ends every member, also those that are born while it goes on.

   A tree of three levels: the root has the children "1".."Width", and each of these one child. A running job looks for
   the mark, then inserts a child; these are two steps, and a run that lost its claim does them, too. Cancelling a job marks
   it; passes then cancel what is pending, and ask what runs. An asked job ends at its next look or by itself; it is never
   put back.

   Faults, at most MaxFaults: "client" (the client dies after the mark), "pause" (the lease of a live run ends: the job is
   rescued, and ends as cancelled if it was asked), "crash" of a run. *)
EXTENDS Naturals, FiniteSets

CONSTANTS Width, MaxFaults, Faults,
          Mark,        \* cancelling leaves a mark; otherwise it is the client's one pass (mutant)
          Watch,       \* "kept": the sweep looks at a marked tree as long as its root is stored;
                       \* "quiet" (mutant): until it finds no live member
          Looks        \* a spawner looks for the mark before each insert

Jobs == {<<0, 0>>} \cup ((1..Width) \X (0..1))
Root == <<0, 0>>
Parent(j) == IF j[2] = 1 THEN <<j[1], 0>> ELSE Root
Live == {"pending", "running"}

VARIABLES job,     \* the state of each job
          asked,   \* running jobs whose cancellation was requested
          run,     \* what the run of a job does: "none", "look", "insert"; also after its claim is lost
          client,  \* "idle", "pass", "done"
          mark,    \* the mark on the root
          watch,   \* the sweep still looks at the tree
          faults

vars == <<job, asked, run, client, mark, watch, faults>>

Init == /\ job = [j \in Jobs |-> IF j = Root THEN "pending" ELSE "absent"]
        /\ asked = {}
        /\ run = [j \in Jobs |-> "none"]
        /\ client = "idle"
        /\ mark = FALSE
        /\ watch = FALSE
        /\ faults = 0

May(fault) == fault \in Faults /\ faults < MaxFaults

Start(j) == /\ job[j] = "pending" /\ run[j] = "none"
            /\ job' = [job EXCEPT ![j] = "running"]
            /\ run' = [run EXCEPT ![j] = "look"]
            /\ UNCHANGED <<asked, client, mark, watch, faults>>

(* A run looks at the mark of the root and at its own job. *)
Look(j) == /\ run[j] = "look"
           /\ run' = [run EXCEPT ![j] = IF Looks /\ (mark \/ j \in asked \/ job[j] # "running") THEN "stop" ELSE "insert"]
           /\ UNCHANGED <<job, asked, client, mark, watch, faults>>

Insert(j) == /\ run[j] = "insert"
             /\ \E k \in Jobs \ {Root} : /\ Parent(k) = j /\ job[k] = "absent"
                                          /\ job' = [job EXCEPT ![k] = "pending"]
             /\ run' = [run EXCEPT ![j] = "look"]
             /\ UNCHANGED <<asked, client, mark, watch, faults>>

(* The fenced end of a run; a run that lost its claim just stops. *)
End(j) == /\ run[j] # "none"
          /\ run[j] = "insert" => \A k \in Jobs \ {Root} : Parent(k) = j => job[k] # "absent"
          /\ run' = [run EXCEPT ![j] = "none"]
          /\ job' = IF job[j] = "running" THEN [job EXCEPT ![j] = IF j \in asked \/ run[j] = "stop" THEN "cancelled" ELSE "ended"]
                    ELSE job
          /\ UNCHANGED <<asked, client, mark, watch, faults>>

Crash(j) == /\ run[j] # "none" /\ May("crash") /\ faults' = faults + 1
            /\ run' = [run EXCEPT ![j] = "none"]
            /\ UNCHANGED <<job, asked, client, mark, watch>>

Rescue(j) == /\ job[j] = "running"
             /\ IF run[j] # "none" THEN May("pause") /\ faults' = faults + 1 ELSE UNCHANGED faults
             /\ job' = [job EXCEPT ![j] = IF j \in asked THEN "cancelled" ELSE "pending"]
             /\ UNCHANGED <<asked, run, client, mark, watch>>

Cancel == /\ client = "idle"
          /\ client' = "pass"
          /\ mark' = Mark
          /\ watch' = Mark
          /\ UNCHANGED <<job, asked, run, faults>>

CancelAll == /\ job' = [j \in Jobs |-> IF job[j] = "pending" THEN "cancelled" ELSE job[j]]
             /\ asked' = asked \cup {j \in Jobs : job[j] = "running"}

Pass == /\ client = "pass" /\ client' = "done" /\ CancelAll
        /\ UNCHANGED <<run, mark, watch, faults>>

ClientDies == /\ client = "pass" /\ May("client") /\ faults' = faults + 1 /\ client' = "done"
              /\ UNCHANGED <<job, asked, run, mark, watch>>

SweepIt == /\ watch
           /\ CancelAll
           /\ watch' = (Watch = "kept" \/ \E j \in Jobs : job[j] \in Live)
           /\ UNCHANGED <<run, client, mark, faults>>

RunStep(j) == Look(j) \/ Insert(j) \/ End(j)
FreeRescue(j) == Rescue(j) /\ faults' = faults

Next == \/ \E j \in Jobs : Start(j) \/ RunStep(j) \/ Crash(j) \/ Rescue(j)
        \/ Cancel \/ Pass \/ ClientDies \/ SweepIt

Spec == Init /\ [][Next]_vars
Fairly == /\ \A j \in Jobs : WF_vars(RunStep(j)) /\ WF_vars(FreeRescue(j))
          /\ WF_vars(Pass) /\ WF_vars(SweepIt)
FairSpec == Spec /\ Fairly

(* ---- what is promised ---- *)

(* A job is in one of the states of its life, and only a running one was asked. *)
Known == \A j \in Jobs : job[j] \in Live \cup {"absent", "ended", "cancelled"} /\ (j \in asked => job[j] # "absent")
(* A job that no worker happens to start is ended all the same, once its tree is cancelled. *)
AllEnd == (client # "idle") ~> [](\A j \in Jobs : job[j] \notin Live)
=============================================================================
