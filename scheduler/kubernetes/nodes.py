"""What a Kubernetes node has, and whether it is there: read from its capacity, labels and conditions."""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime
from decimal import Decimal

from scheduler.engines.base import DeviceInfo, JoinedNode, NodeInventory
from scheduler.engines.devices import DEFAULT_VIRTUAL_MEMORY_MIB, list_virtual_devices
from scheduler.kubernetes.link import Json
from scheduler.kubernetes.reading import at
from scheduler.kubernetes.terms import POOL, VIRTUAL_DEVICES

log = logging.getLogger(__name__)

GPU, SHARED_GPU = "nvidia.com/gpu", "nvidia.com/gpu.shared"
#: Written by HAMi's device plugin: the devices as they are, with their identifiers.
HAMI_DEVICES = "hami.io/node-nvidia-register"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
LONGEST_NAME = 63
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|[KMGTPE]i?|)")
_SHIFT = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_POWER = {"m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def quantity(text: str) -> Decimal:
    """Return what the API writes as ``500m``, ``16Gi`` or ``2``; 0 for what can't be read."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        return Decimal(0)
    number, suffix = Decimal(found[1]), found[2]
    return number.scaleb(_POWER[suffix]) if suffix in _POWER else number * 2 ** _SHIFT[suffix]


def is_ready(node: Json) -> bool:
    """Test whether the node's kubelet says that it is well, as far as Kubernetes has heard of late."""
    return _condition(node, "Ready").get("status") == "True"


def lost_since(node: Json) -> datetime | None:
    """Return since when it is not ready. Its last heartbeat may lie minutes before: not each is told."""
    ready = _condition(node, "Ready")
    return None if ready.get("status") == "True" else at(ready.get("lastTransitionTime"))


def is_out_of_service(node: Json) -> bool:
    """Test whether an administrator has said that the machine is off: its work can't be running."""
    taints = node.get("spec", {}).get("taints") or ()
    return any(taint.get("key") == OUT_OF_SERVICE for taint in taints)


def joined(node: Json) -> JoinedNode | None:
    """Return a node that an administrator gave to a pool, or None where it is not ours to use."""
    name, pool = node["metadata"]["name"], _labels(node).get(POOL)
    if pool is None:
        return None
    if len(name) > LONGEST_NAME:
        log.error("kubernetes.node.name_too_long", extra={"node": name})
        return None
    return JoinedNode(name=name, pool_name=pool, inventory=inventory(node))


def inventory(node: Json) -> NodeInventory:
    """Return CPU, memory and devices; stand-ins only where there is no GPU and a label lends some."""
    status = node.get("status", {})
    room = status.get("allocatable") or status.get("capacity") or {}
    return NodeInventory(
        hostname=node["metadata"]["name"],
        cpu_milli=int(quantity(room.get("cpu", "0")) * 1000),
        memory_mib=int(quantity(room.get("memory", "0"))) // 2**20,
        devices=_registered(node) or _counted(node, room) or _virtual(node),
    )


def _registered(node: Json) -> tuple[DeviceInfo, ...]:
    """Return the devices that HAMi's plugin registered; an ill one is left out."""
    text = (node["metadata"].get("annotations") or {}).get(HAMI_DEVICES, "")
    try:
        told = json.loads(text) if text else []
        return tuple(
            DeviceInfo(
                index=int(each.get("index", place)),
                uuid=str(each["id"]),
                model=str(each.get("type", "")).removeprefix("NVIDIA-"),
                memory_mib=int(each["devmem"]),
                virtual=False,
            )
            for place, each in enumerate(told)
            if each.get("health", True)
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        log.exception("kubernetes.node.hami_unreadable", extra={"node": node["metadata"]["name"]})
        return ()


def _counted(node: Json, room: Json) -> tuple[DeviceInfo, ...]:
    """Return as many devices as the device plugin offers, with what feature discovery says of them."""
    labels = _labels(node)
    offered = int(quantity(room.get(GPU, "0")) or quantity(room.get(SHARED_GPU, "0")))
    replicas = max(1, int(labels.get("nvidia.com/gpu.replicas", "1") or 1))
    count = int(labels.get("nvidia.com/gpu.count") or 0) if replicas > 1 else offered
    name = node["metadata"]["name"]
    return tuple(
        DeviceInfo(
            index=index,
            uuid=f"{name}/{index}",
            model=labels.get("nvidia.com/gpu.product", "NVIDIA").removesuffix("-SHARED"),
            memory_mib=int(labels.get("nvidia.com/gpu.memory") or 0),
            virtual=False,
        )
        for index in range(count if offered else 0)
    )


def _virtual(node: Json) -> tuple[DeviceInfo, ...]:
    text = _labels(node).get(VIRTUAL_DEVICES, "")
    if not text.isascii() or not text.isdigit():
        return ()
    return list_virtual_devices(
        count=int(text),
        memory_mib=DEFAULT_VIRTUAL_MEMORY_MIB,
        node_name=node["metadata"]["name"],
    )


def _labels(node: Json) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def _condition(node: Json, kind: str) -> Json:
    found = (c for c in node.get("status", {}).get("conditions") or () if c.get("type") == kind)
    return next(found, {})
