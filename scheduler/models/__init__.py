"""The tables. Imported as a namespace: ``from scheduler import models`` and then ``models.Project``."""

from __future__ import annotations

from scheduler.models.alerts import Alert, AlertRule
from scheduler.models.assets import Asset, SealedSecret, WorkloadAsset
from scheduler.models.audit import AuditEntry
from scheduler.models.cluster import Cluster, Device, GpuFixedCost, GpuPrice, Node, NodePool
from scheduler.models.demo_day import DemoDay
from scheduler.models.drains import NodeDrain
from scheduler.models.emergency import EmergencyControl
from scheduler.models.estimates import StartEstimate
from scheduler.models.governance import IdlePolicy, Notification, ServeRequest
from scheduler.models.history import Decision, DecisionParty, WorkloadEvent
from scheduler.models.money import Budget, Statement
from scheduler.models.notices import Announcement, NoticeChannel, NoticeDelivery, NoticeSettings
from scheduler.models.progress import WorkloadProgress, WorkloadSeries
from scheduler.models.replay import QuotaReplay
from scheduler.models.requests import SentOnce
from scheduler.models.schedule import QuotaSchedule, QuotaScheduleRow
from scheduler.models.serving import (
    GatewayKey,
    GatewayUsage,
    InferenceService,
    ScalingPoint,
    ServiceLatency,
)
from scheduler.models.tenancy import Department, DepartmentQuota, Project, ProjectQuota
from scheduler.models.usage import (
    ActivityInterval,
    AllocationInterval,
    CapacityInterval,
    ComputeUse,
    QuotaHistory,
    ReportSchedule,
    SavedReport,
    UsageBlock,
    UsageRollup,
)
from scheduler.models.verification import (
    VerificationLine,
    VerificationResult,
    VerificationRun,
)
from scheduler.models.workload import Nomination, Replica, ReplicaDevice, Workload, with_devices

__all__ = [
    "ActivityInterval",
    "Alert",
    "AlertRule",
    "AllocationInterval",
    "Announcement",
    "Asset",
    "AuditEntry",
    "Budget",
    "CapacityInterval",
    "Cluster",
    "ComputeUse",
    "Decision",
    "DecisionParty",
    "DemoDay",
    "Department",
    "DepartmentQuota",
    "Device",
    "EmergencyControl",
    "GatewayKey",
    "GatewayUsage",
    "GpuFixedCost",
    "GpuPrice",
    "IdlePolicy",
    "InferenceService",
    "Node",
    "NodeDrain",
    "NodePool",
    "Nomination",
    "NoticeChannel",
    "NoticeDelivery",
    "NoticeSettings",
    "Notification",
    "Project",
    "ProjectQuota",
    "QuotaHistory",
    "QuotaReplay",
    "QuotaSchedule",
    "QuotaScheduleRow",
    "Replica",
    "ReplicaDevice",
    "ReportSchedule",
    "SavedReport",
    "ScalingPoint",
    "SealedSecret",
    "SentOnce",
    "ServeRequest",
    "ServiceLatency",
    "StartEstimate",
    "Statement",
    "UsageBlock",
    "UsageRollup",
    "VerificationLine",
    "VerificationResult",
    "VerificationRun",
    "Workload",
    "WorkloadAsset",
    "WorkloadEvent",
    "WorkloadProgress",
    "WorkloadSeries",
    "with_devices",
]
