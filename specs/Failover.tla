----------------------------- MODULE Failover -----------------------------
(* The check of a fan-in while the primary of the replica set changes.

   The primary has writes that are not yet on a majority; a new primary may lack them. A deposed primary that has not
   noticed goes on answering reads, from its own data or from what it knows to be on a majority. The spawner goes on to its
   next write when a majority has the last one. Writes of a deposed primary come to nothing, so that they are left out. *)
EXTENDS Naturals

CONSTANTS
    Kids, MaxFailovers,
    Majority,   \* FALSE: a check reads data that a majority may not have
    Reads       \* "causal": the second read is not older than the first; "snapshot": both at one time; "apart": neither

VARIABLES
    db,         \* the data of the primary
    com,        \* the part of it that a majority has
    old,        \* the deposed primary: its data, and what it knows to be on a majority
    failovers, clock,
    check

vars == <<db, com, old, failovers, clock, check>>
Idle == [pc |-> "idle", at |-> 0, live |-> FALSE]

Init ==
    /\ db = [waiter |-> "running", kid |-> [k \in Kids |-> "absent"], at |-> 0]
    /\ com = db /\ old = [own |-> db, known |-> db] /\ failovers = 0 /\ clock = 0 /\ check = Idle

Set(new) == db' = [new EXCEPT !.at = clock + 1] /\ clock' = clock + 1

Spawn(k) == db.waiter = "running" /\ db.kid[k] = "absent" /\ Set([db EXCEPT !.kid[k] = "live"])
            /\ UNCHANGED <<com, old, failovers, check>>
Seal == db.waiter = "running" /\ (\A k \in Kids : com.kid[k] # "absent") /\ Set([db EXCEPT !.waiter = "blocked"])
        /\ UNCHANGED <<com, old, failovers, check>>
End(k) == db.kid[k] = "live" /\ Set([db EXCEPT !.kid[k] = "ended"]) /\ UNCHANGED <<com, old, failovers, check>>

Replicate == com # db /\ com' = db /\ UNCHANGED <<db, old, failovers, clock, check>>
\* The new primary has all that a majority has; whether it has more is chance.
Elect ==
    /\ failovers < MaxFailovers /\ failovers' = failovers + 1
    /\ old' = [own |-> db, known |-> com]
    /\ db' \in {db, com}
    /\ UNCHANGED <<com, clock, check>>

Views == IF Majority THEN {com, old.known} ELSE {db, old.own}
Live(view) == \E k \in Kids : view.kid[k] = "live"

ReadWaiter ==
    /\ check.pc = "idle"
    /\ \E view \in Views :
        /\ view.waiter = "blocked"
        /\ check' = [pc |-> IF Reads = "snapshot" THEN "write" ELSE "children", at |-> view.at,
                     live |-> Reads = "snapshot" /\ Live(view)]
    /\ UNCHANGED <<db, com, old, failovers, clock>>
ReadChildren ==
    /\ check.pc = "children"
    /\ \E view \in Views :
        /\ Reads = "causal" => view.at >= check.at
        /\ check' = [check EXCEPT !.pc = "write", !.live = Live(view)]
    /\ UNCHANGED <<db, com, old, failovers, clock>>
Write ==
    /\ check.pc = "write" /\ check' = Idle
    /\ IF ~check.live /\ db.waiter = "blocked" THEN Set([db EXCEPT !.waiter = "released"]) ELSE UNCHANGED <<db, clock>>
    /\ UNCHANGED <<com, old, failovers>>

Next == \/ Seal \/ Replicate \/ Elect \/ ReadWaiter \/ ReadChildren \/ Write
        \/ \E k \in Kids : Spawn(k) \/ End(k)
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
NeverEarly == com.waiter = "released" => \A k \in Kids : com.kid[k] = "ended"
NeverStuck == (com = db /\ db.waiter = "blocked" /\ check = Idle) => ENABLED ReadWaiter
=============================================================================
