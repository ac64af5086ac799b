------------------------------- MODULE Graph -------------------------------
(* A declared graph of jobs: it is laid out, checked, and retried while checks go on.

   Layout: a node with predecessors is inserted blocked and unsealed, a node without is inserted pending; a node is sealed
   after its predecessors are there. The layout may run any number of times, late runs too.

   A check reads the node (r1), looks for a live predecessor (r2) and for a bad one (r3), and compares-and-sets: run, or
   cancelled because of the bad one. A cancelled node is a bad predecessor of the next.

   Retrying the flow resets the failed nodes, and the nodes that were cancelled because of them. A failed predecessor that is
   pending again breaks what a check relies on: that a decision stays true once it is true. So a retry
   lays the nodes out again (Retry = "held"): behind the failed nodes it first unseals the blocked ones, then turns the
   cancelled ones to blocked and unsealed, then resets the failed ones, then seals. Two processes do this (the client, and
   the sweep that continues after it), either may die.

   The mutants of Retry: "plain" resets the failed nodes, then turns the cancelled ones to blocked, and leaves
   blocked ones alone; "touch" does the same, and gives a new revision to blocked ones; "mixed" is "held" with its first two
   steps as one, in any order of the nodes.

   The other cure is a check that reads all at one time (Reads = "snapshot"). Then a retry may turn the nodes in their order
   (Retry = "ordered": a node after its predecessors, with a new revision for blocked ones), and a single failed job
   may be retried by itself (Singles), which holds nothing. *)
EXTENDS Naturals, FiniteSets

CONSTANTS Shape,      \* "chain": a, b, c; "diamond": a before b and c, both before d
          Checkers, Retriers, MaxFails,
          SealLast,   \* a node is sealed after its predecessors are inserted
          LiveRead,   \* "after" r1; "before" it (mutant)
          Reads,      \* "apart": r1, r2, r3 one after the other; "snapshot": at one time
          Singles,    \* how many failed nodes are retried one by one, beside a retry of the flow
          Guarded,    \* the layout seals only nodes that nothing has changed since their insert
          Retry

Before == CASE Shape = "chain" -> [a |-> {}, b |-> {"a"}, c |-> {"b"}]
            [] Shape = "diamond" -> [a |-> {}, b |-> {"a"}, c |-> {"a"}, d |-> {"b", "c"}]
Nodes == DOMAIN Before
Behind(some) == LET step(set) == {n \in Nodes : Before[n] \cap set # {}}
                    one == step(some) two == step(one) three == step(two)
                IN one \cup two \cup three

VARIABLES node,   \* the stored document of each node: state, sealed, rev
          check,  \* the checkers: pc, the node, its rev, and what they saw
          mark,   \* the mark of the retry: whether it is there, and the failed nodes with their revisions
          tries,  \* the retriers: pc, and the nodes that they have been through
          fails, singles, retried, early, lost

vars == <<node, check, mark, tries, fails, singles, retried, early, lost>>

NoCheck == [pc |-> "idle", node |-> "a", rev |-> 0]
Absent == [state |-> "absent", sealed |-> FALSE, rev |-> 0]
NoMark == [on |-> FALSE, failed |-> {}]

Init == /\ node = [n \in Nodes |-> Absent]
        /\ check = [c \in Checkers |-> NoCheck]
        /\ mark = NoMark
        /\ tries = [t \in Retriers |-> [pc |-> "idle", done |-> {}]]
        /\ fails = 0
        /\ singles = 0
        /\ retried = FALSE
        /\ early = FALSE
        /\ lost = FALSE

State(n) == node[n].state
Live == {"blocked", "pending", "running"}
Bad == {"failed", "cancelled"}
Set(n, state, sealed) == node' = [node EXCEPT ![n] = [state |-> state, sealed |-> sealed, rev |-> @.rev + 1]]

(* ---- the layout ---- *)

Insert(n) == /\ State(n) = "absent"
             /\ node' = [node EXCEPT ![n].state = IF Before[n] = {} THEN "pending" ELSE "blocked",
                                     ![n].sealed = (Before[n] = {})]
             /\ UNCHANGED <<singles, check, mark, tries, fails, retried, early, lost>>

Seal(n) == /\ State(n) = "blocked" /\ ~node[n].sealed
           /\ Guarded => node[n].rev = 0
           /\ SealLast => \A p \in Before[n] : State(p) # "absent"
           /\ Set(n, "blocked", TRUE)
           /\ UNCHANGED <<singles, check, mark, tries, fails, retried, early, lost>>

(* ---- the nodes ---- *)

Start(n) == /\ State(n) = "pending" /\ Set(n, "running", TRUE)
            /\ UNCHANGED <<singles, check, mark, tries, fails, retried, early, lost>>

Complete(n) == /\ State(n) = "running" /\ Set(n, "completed", TRUE)
               /\ UNCHANGED <<singles, check, mark, tries, fails, retried, early, lost>>

Fail(n) == /\ State(n) = "running" /\ fails < MaxFails /\ Set(n, "failed", TRUE) /\ fails' = fails + 1
           /\ UNCHANGED <<singles, check, mark, tries, retried, early, lost>>

(* ---- the check ---- *)

Held(n) == \E p \in Before[n] : State(p) \in Live
Waits(n) == State(n) = "blocked" /\ node[n].sealed

IsBad(n) == \E p \in Before[n] : State(p) \in Bad

ReadNode(c, n) == /\ check[c].pc = "idle" /\ LiveRead = "after" /\ Waits(n)
                  /\ Reads = "snapshot" => ~Held(n)
                  /\ check' = [check EXCEPT ![c] = [pc |-> IF Reads = "apart" THEN "live" ELSE IF IsBad(n) THEN "cancel" ELSE "run",
                                                    node |-> n, rev |-> node[n].rev]]
                  /\ UNCHANGED <<singles, node, mark, tries, fails, retried, early, lost>>

ReadLive(c) == /\ check[c].pc = "live"
               /\ check' = [check EXCEPT ![c] = IF Held(@.node) THEN NoCheck ELSE [@ EXCEPT !.pc = "bad"]]
               /\ UNCHANGED <<singles, node, mark, tries, fails, retried, early, lost>>

LiveFirst(c, n) == /\ check[c].pc = "idle" /\ LiveRead = "before" /\ Before[n] # {} /\ ~Held(n)
                   /\ check' = [check EXCEPT ![c] = [NoCheck EXCEPT !.pc = "node", !.node = n]]
                   /\ UNCHANGED <<singles, node, mark, tries, fails, retried, early, lost>>

NodeLast(c) == /\ check[c].pc = "node"
               /\ check' = [check EXCEPT ![c] = IF Waits(@.node) THEN [@ EXCEPT !.pc = "bad", !.rev = node[check[c].node].rev]
                                                 ELSE NoCheck]
               /\ UNCHANGED <<singles, node, mark, tries, fails, retried, early, lost>>

ReadBad(c) == /\ check[c].pc = "bad"
              /\ check' = [check EXCEPT ![c].pc = IF IsBad(check[c].node) THEN "cancel" ELSE "run"]
              /\ UNCHANGED <<singles, node, mark, tries, fails, retried, early, lost>>

Decide(c) == LET n == check[c].node IN
             /\ check[c].pc \in {"cancel", "run"}
             /\ check' = [check EXCEPT ![c] = NoCheck]
             /\ IF Waits(n) /\ node[n].rev = check[c].rev
                THEN /\ Set(n, IF check[c].pc = "run" THEN "pending" ELSE "cancelled", TRUE)
                     /\ early' = (early \/ (check[c].pc = "run" /\ \E p \in Before[n] : State(p) # "completed"))
                ELSE UNCHANGED <<node, early>>
             /\ UNCHANGED <<singles, mark, tries, fails, retried, lost>>

(* ---- retrying ---- *)

Failed == {n \in Nodes : State(n) = "failed"}

(* The mark is one write on the root, after the layout. It says what had failed by then. *)
Ask == /\ ~retried /\ Failed # {}
       /\ \A n \in Nodes : State(n) # "absent" /\ (State(n) = "blocked" => node[n].sealed)
       /\ retried' = TRUE
       /\ mark' = [on |-> TRUE, failed |-> {<<n, node[n].rev>> : n \in Failed}]
       /\ UNCHANGED <<singles, node, check, tries, fails, early, lost>>

Resets == {pair[1] : pair \in mark.failed}
Todo(t) == CASE tries[t].pc \in {"open", "hold", "seal", "turn"} -> Behind(Resets) \ tries[t].done
             [] OTHER -> Resets \ tries[t].done
Through(t, n) == tries' = [tries EXCEPT ![t].done = @ \cup {n}]

Begin(t) == /\ tries[t].pc = "idle" /\ mark.on
            /\ tries' = [tries EXCEPT ![t] = [pc |-> CASE Retry = "held" -> "open" [] Retry = "mixed" -> "hold" [] OTHER -> "reset",
                                            done |-> {}]]
            /\ UNCHANGED <<singles, node, check, mark, fails, retried, early, lost>>

Open(t) == /\ tries[t].pc = "open"
           /\ \E n \in Todo(t) :
                /\ Through(t, n)
                /\ IF Waits(n) THEN Set(n, "blocked", FALSE) ELSE UNCHANGED node
           /\ UNCHANGED <<singles, check, mark, fails, retried, early, lost>>

Hold(t) == /\ tries[t].pc = "hold"
           /\ \E n \in Todo(t) :
                /\ Through(t, n)
                /\ IF State(n) = "cancelled" \/ Waits(n) THEN Set(n, "blocked", FALSE) ELSE UNCHANGED node
           /\ UNCHANGED <<singles, check, mark, fails, retried, early, lost>>

Reset(t) == /\ tries[t].pc = "reset"
            /\ \E n \in Todo(t) :
                 /\ Through(t, n)
                 /\ IF State(n) = "failed" /\ <<n, node[n].rev>> \in mark.failed THEN Set(n, "pending", TRUE) ELSE UNCHANGED node
            /\ UNCHANGED <<singles, check, mark, fails, retried, early, lost>>

SealAgain(t) == /\ tries[t].pc = "seal"
                /\ \E n \in Todo(t) :
                     /\ Through(t, n)
                     /\ IF State(n) = "blocked" /\ ~node[n].sealed THEN Set(n, "blocked", TRUE) ELSE UNCHANGED node
                /\ UNCHANGED <<singles, check, mark, fails, retried, early, lost>>

Turn(t) == /\ tries[t].pc = "turn"
           /\ \E n \in Todo(t) :
                /\ Retry = "ordered" => Before[n] \cap Todo(t) = {}
                /\ Through(t, n)
                /\ IF State(n) = "cancelled" \/ (Retry # "plain" /\ Waits(n)) THEN Set(n, "blocked", TRUE) ELSE UNCHANGED node
           /\ UNCHANGED <<singles, check, mark, fails, retried, early, lost>>

Holds == Retry \in {"held", "mixed"}
After(pc) == CASE pc = "open" -> "hold"
               [] pc = "hold" -> "reset"
               [] pc = "reset" -> IF Holds THEN "seal" ELSE "turn"
               [] OTHER -> "end"

GoOn(t) == /\ tries[t].pc \notin {"idle", "end"} /\ Todo(t) = {}
           /\ tries' = [tries EXCEPT ![t] = [pc |-> After(@.pc), done |-> {}]]
           /\ mark' = IF After(tries[t].pc) = "end" THEN [mark EXCEPT !.on = FALSE] ELSE mark
           /\ UNCHANGED <<singles, node, check, fails, retried, early, lost>>

RetryOne(n) == /\ State(n) = "failed" /\ singles < Singles /\ singles' = singles + 1
               /\ Set(n, "pending", TRUE)
               /\ UNCHANGED <<check, mark, tries, fails, retried, early, lost>>

(* One of the two processes may die; the other one continues. *)
Die(t) == /\ tries[t].pc \notin {"idle", "end"} /\ ~lost /\ lost' = TRUE
          /\ \E other \in Retriers : other # t
          /\ tries' = [tries EXCEPT ![t] = [pc |-> "end", done |-> {}]]
          /\ UNCHANGED <<singles, node, check, mark, fails, retried, early>>

(* A process that was late has unsealed a node of a retry that is over: the sweep seals it. *)
SealLeft(n) == /\ Holds /\ retried /\ ~mark.on /\ State(n) = "blocked" /\ ~node[n].sealed
               /\ Set(n, "blocked", TRUE)
               /\ UNCHANGED <<singles, check, mark, tries, fails, retried, early, lost>>

CheckStep(c) == (\E n \in Nodes : ReadNode(c, n) \/ LiveFirst(c, n)) \/ ReadLive(c) \/ NodeLast(c) \/ ReadBad(c) \/ Decide(c)
RetryStep(t) == Begin(t) \/ Open(t) \/ Hold(t) \/ Reset(t) \/ SealAgain(t) \/ Turn(t) \/ GoOn(t)
NodeStep(n) == Insert(n) \/ Seal(n) \/ Start(n) \/ Complete(n)

Next == \/ \E n \in Nodes : NodeStep(n) \/ Fail(n) \/ RetryOne(n) \/ SealLeft(n)
        \/ \E c \in Checkers : CheckStep(c)
        \/ Ask \/ \E t \in Retriers : RetryStep(t) \/ Die(t)

Spec == Init /\ [][Next]_vars
Fairly == /\ \A n \in Nodes : WF_vars(NodeStep(n)) /\ WF_vars(SealLeft(n))
          /\ \A c \in Checkers : \A n \in Nodes : SF_vars(ReadNode(c, n)) /\ WF_vars(CheckStep(c))
          /\ \A t \in Retriers : WF_vars(RetryStep(t))
FairSpec == Spec /\ Fairly

(* ---- what is promised ---- *)

(* A node runs after all its predecessors have completed. *)
NeverEarly == ~early
Quiet == /\ \A n \in Nodes : State(n) \notin Live \cup {"absent"}
         /\ ~mark.on
(* Once all is quiet, a node is cancelled only because a node failed and was not retried since. *)
Settled == Quiet => ((\E n \in Nodes : State(n) = "cancelled") => Failed # {})
(* Every node ends. *)
AllEnd == <>[]Quiet
=============================================================================
