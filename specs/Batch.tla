------------------------------- MODULE Batch -------------------------------
(* A batch that a process outside of any job streams in. Its root is blocked and unsealed meanwhile. When the process has not
   renewed its lease in time, the sweep seals the batch as it is and notes that it was aborted; the process may only have
   been slow, and goes on. *)
CONSTANTS
    Items,
    ChunkFenced   \* FALSE: the process renews its lease and then inserts, by two writes without a transaction

VARIABLES item, root, aborted, stream
vars == <<item, root, aborted, stream>>

Init == item = [i \in Items |-> "absent"] /\ root = "open" /\ aborted = FALSE /\ stream = "renew"

Renew == /\ stream = "renew" /\ stream' = IF root = "open" THEN "insert" ELSE "off"
         /\ UNCHANGED <<item, root, aborted>>
Insert(i) ==
    /\ stream = "insert" /\ item[i] = "absent"
    /\ IF ChunkFenced /\ root # "open" THEN stream' = "off" /\ UNCHANGED item
       ELSE stream' = "renew" /\ item' = [item EXCEPT ![i] = "live"]
    /\ UNCHANGED <<root, aborted>>
Seal == /\ stream \in {"renew", "insert"} /\ (\A i \in Items : item[i] # "absent") /\ stream' = "off"
        /\ root' = IF root = "open" THEN "sealed" ELSE root
        /\ UNCHANGED <<item, aborted>>
Die == stream # "off" /\ stream' = "off" /\ UNCHANGED <<item, root, aborted>>
\* A second process repeats the batch with the same id, and goes on.
Repeat == stream = "off" /\ root = "open" /\ stream' = "renew" /\ UNCHANGED <<item, root, aborted>>
Abort == root = "open" /\ root' = "sealed" /\ aborted' = TRUE /\ UNCHANGED <<item, stream>>
End(i) == item[i] = "live" /\ item' = [item EXCEPT ![i] = "ended"] /\ UNCHANGED <<root, aborted, stream>>
Release == root = "sealed" /\ (\A i \in Items : item[i] # "live") /\ root' = "released" /\ UNCHANGED <<item, aborted, stream>>

Next == Renew \/ Seal \/ Die \/ Repeat \/ Abort \/ Release \/ \E i \in Items : Insert(i) \/ End(i)
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
NeverEarly == root = "released" => \A i \in Items : item[i] # "live"
Complete == (root = "released" /\ ~aborted) => \A i \in Items : item[i] = "ended"
=============================================================================
