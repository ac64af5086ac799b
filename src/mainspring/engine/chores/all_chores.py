"""The chores of a worker, in the order in which a round runs them. A new chore is added here."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore
from mainspring.engine.chores.flows.check_long_waits import CheckLongWaits
from mainspring.engine.chores.flows.check_waiting import CheckWaiting
from mainspring.engine.chores.jobs.adopt_raw_inserts import AdoptRawInserts
from mainspring.engine.chores.jobs.age_waiting import AgeWaiting
from mainspring.engine.chores.jobs.expire_late import ExpireLate
from mainspring.engine.chores.jobs.release_held import ReleaseHeld
from mainspring.engine.chores.jobs.report_foreign import ReportForeign
from mainspring.engine.chores.jobs.rescue_lost import RescueLost
from mainspring.engine.chores.jobs.return_unstarted import ReturnUnstarted
from mainspring.engine.chores.jobs.run_operations import RunOperations
from mainspring.engine.chores.jobs.run_redrives import RunRedrives
from mainspring.engine.chores.jobs.send_dead_letter_alerts import SendDeadLetterAlerts
from mainspring.engine.chores.jobs.sync_mapped_jobs import SyncMappedJobs
from mainspring.engine.chores.limits.audit_slots import AuditSlots
from mainspring.engine.chores.limits.dissolve_wait_lists import DissolveWaitLists
from mainspring.engine.chores.limits.reclaim_slots import ReclaimSlots
from mainspring.engine.chores.limits.repair_wait_lists import RepairWaitLists
from mainspring.engine.chores.limits.return_unused_slots import ReturnUnusedSlots
from mainspring.engine.chores.upkeep.convert_earlier_documents import ConvertEarlierDocuments
from mainspring.engine.chores.upkeep.evaluate_alerts import EvaluateAlerts
from mainspring.engine.chores.upkeep.flush_progress import FlushProgress
from mainspring.engine.chores.upkeep.flush_statistics import FlushStatistics
from mainspring.engine.chores.upkeep.log_audit_head import LogAuditHead
from mainspring.engine.chores.upkeep.prune_records import PruneRecords
from mainspring.engine.chores.upkeep.refresh_cluster_view import RefreshClusterView
from mainspring.engine.chores.upkeep.refresh_timezones import RefreshTimezones
from mainspring.engine.chores.upkeep.reload_keys import ReloadKeys
from mainspring.engine.chores.upkeep.roll_up_statistics import RollUpStatistics

CHORES: tuple[type[Chore], ...] = (
    FlushProgress,
    ReturnUnstarted,
    RefreshClusterView,
    RescueLost,
    AdoptRawInserts,
    ReportForeign,
    SyncMappedJobs,
    ExpireLate,
    CheckWaiting,
    CheckLongWaits,
    ReleaseHeld,
    PruneRecords,
    AgeWaiting,
    RefreshTimezones,
    ReloadKeys,
    ReturnUnusedSlots,
    ReclaimSlots,
    AuditSlots,
    RepairWaitLists,
    DissolveWaitLists,
    SendDeadLetterAlerts,
    RunRedrives,
    RunOperations,
    FlushStatistics,
    RollUpStatistics,
    LogAuditHead,
    ConvertEarlierDocuments,
    EvaluateAlerts,
)

# Chores that go by the clock of the database.
BY_THE_CLOCK = ("expire_late", "age_waiting", "run_operations", "check_waiting", "evaluate_alerts")

# Chores after which jobs may be due, or at their end, that were not before.
MAKES_JOBS_DUE = (
    *("rescue_lost", "adopt_raw_inserts", "expire_late", "check_waiting", "release_held", "dissolve_wait_lists"),
    *("repair_wait_lists", "send_dead_letter_alerts", "run_redrives", "run_operations"),
)
