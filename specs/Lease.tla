------------------------------- MODULE Lease -------------------------------
(* A job is run by at most one claim that counts.

   A worker claims a pending job: the job gets the next token and a lease. The worker renews the lease, or is paused and
   does not. After the lease, any worker rescues the job: it is pending again, under the same token. A worker that wakes up
   late still believes in its claim; its writes carry the token (the fence) and the state that they expect.

   Fenced = FALSE drops the token and the state from the write that ends a job. *)
EXTENDS Naturals

CONSTANTS Workers, Jobs, MaxToken, MaxNow, Lease, Fenced

VARIABLES job,    \* the stored document of each job: state, token, until
          claim,  \* the token that a worker believes to hold for a job; 0 is none
          ends,   \* how many ends were stored for a job
          ended,  \* the token of the claim whose end was stored
          now     \* the clock of the server

vars == <<job, claim, ends, ended, now>>

Init == /\ job = [j \in Jobs |-> [state |-> "pending", token |-> 0, until |-> 0]]
        /\ claim = [w \in Workers |-> [j \in Jobs |-> 0]]
        /\ ends = [j \in Jobs |-> 0]
        /\ ended = [j \in Jobs |-> 0]
        /\ now = 0

Matches(w, j) == job[j].state = "running" /\ job[j].token = claim[w][j]

Claim(w, j) ==
  /\ job[j].state = "pending" /\ job[j].token < MaxToken
  /\ job' = [job EXCEPT ![j] = [state |-> "running", token |-> @.token + 1, until |-> now + Lease]]
  /\ claim' = [claim EXCEPT ![w][j] = job[j].token + 1]
  /\ UNCHANGED <<ends, ended, now>>

Renew(w, j) ==
  /\ claim[w][j] > 0 /\ Matches(w, j)
  /\ job' = [job EXCEPT ![j].until = now + Lease]
  /\ UNCHANGED <<claim, ends, ended, now>>

(* A renewal that does not match tells the worker that its claim is lost; a worker may also die. *)
Drop(w, j) ==
  /\ claim[w][j] > 0
  /\ claim' = [claim EXCEPT ![w][j] = 0]
  /\ UNCHANGED <<job, ends, ended, now>>

Rescue(j) ==
  /\ job[j].state = "running" /\ job[j].until < now
  /\ job' = [job EXCEPT ![j].state = "pending"]
  /\ UNCHANGED <<claim, ends, ended, now>>

Finish(w, j) ==
  /\ claim[w][j] > 0
  /\ claim' = [claim EXCEPT ![w][j] = 0]
  /\ IF Matches(w, j) \/ ~Fenced
     THEN /\ job' = [job EXCEPT ![j].state = "completed"]
          /\ ends' = [ends EXCEPT ![j] = @ + 1]
          /\ ended' = [ended EXCEPT ![j] = claim[w][j]]
     ELSE UNCHANGED <<job, ends, ended>>
  /\ UNCHANGED now

Tick == now < MaxNow /\ now' = now + 1 /\ UNCHANGED <<job, claim, ends, ended>>

Next == Tick \/ \E j \in Jobs : Rescue(j) \/ \E w \in Workers :
          Claim(w, j) \/ Renew(w, j) \/ Drop(w, j) \/ Finish(w, j)

Spec == Init /\ [][Next]_vars

(* One end is stored, and it is that of the last claim. *)
OneEnd == \A j \in Jobs : ends[j] <= 1 /\ (job[j].state = "completed" => ended[j] = job[j].token)
(* A worker whose claim counts is the only such worker. *)
OneHolder == \A j \in Jobs, v, w \in Workers :
               (claim[v][j] > 0 /\ claim[w][j] > 0 /\ Matches(v, j) /\ Matches(w, j)) => v = w
=============================================================================
