"""A slow reference: the rules as plain loops over plain values, for small clusters only.

It shares no code with the core (only the snapshot's fields) and recomputes everything from the list of
what runs. Victim sets are tried one and all. Evictions complete at once. Consolidation, nominations and
reservations are not in it.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

from scheduler.core.vocabulary import Kind

UNBOUNDED = 2**53 - 1
INFINITE = Fraction(10**30)


class Reference:
    """``run()`` plays one cycle; afterwards ``running`` maps names to lists of (node, devices)."""

    def __init__(self, snapshot, policy, now_us):
        self.policy = policy
        self.now_us = now_us
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.departments = {each.id: each for each in snapshot.departments}
        self.projects = {each.id: each for each in snapshot.projects}
        self.workloads = {each.id: each for each in snapshot.workloads}
        #: Workload id to its replicas, each (node, devices, started at).
        self.running = {
            each.id: [
                (r.placement.node, r.placement.devices, r.started_at_us) for r in each.replicas
            ]
            for each in snapshot.workloads
        }
        self.at_first = {each.id: len(each.replicas) for each in snapshot.workloads}
        self.left_overs = {}
        self.fresh = set()
        self.bars = self.find_bars()

    # what is asked and held

    def device(self, node, index):
        return next(each for each in self.nodes[node].devices if each.index == index)

    def device_cost(self, workload, node, index):
        request = workload.request
        if request.gpu_memory_mib is None:
            return request.request_mgpu
        card = self.device(node, index).memory_mib
        return max(1, 1000 * request.gpu_memory_mib // card)

    def replica_mgpu(self, workload, place):
        return sum(self.device_cost(workload, place[0], index) for index in place[1])

    def cheapest_mgpu(self, workload):
        request = workload.request
        if not request.devices:
            return 0
        if request.gpu_memory_mib is None:
            return request.devices * request.request_mgpu
        costs = [
            max(1, 1000 * request.gpu_memory_mib // device.memory_mib)
            for node in self.matching(workload)
            for device in node.devices
            if device.healthy
            and (not workload.gpu_models or device.model in workload.gpu_models)
            and device.memory_mib
            and device.memory_mib >= request.gpu_memory_mib
        ]
        return request.devices * min(costs, default=1000)

    def matching(self, workload):
        return [
            node
            for node in self.nodes.values()
            if node.schedulable
            and all(node.labels.get(key) == value for key, value in workload.node_labels.items())
            and (workload.allowed_nodes is None or node.name in workload.allowed_nodes)
            and (
                not workload.gpu_models
                or any(device.model in workload.gpu_models for device in node.devices)
            )
        ]

    def held(self, queue, *, protected=False):
        total = 0
        for workload_id, places in self.running.items():
            workload = self.workloads[workload_id]
            project = self.projects[workload.project_id]
            if queue is not project and queue is not self.departments[project.department_id]:
                continue
            if protected and workload.preemptible:
                continue
            total += sum(self.replica_mgpu(workload, place) for place in places)
        return total

    def queues_of(self, workload):
        project = self.projects[workload.project_id]
        return project, self.departments[project.department_id]

    def passes_limits(self, workload, g):
        return all(
            not g or self.held(queue) + g <= limit_of(queue) for queue in self.queues_of(workload)
        )

    def passes_guarantees(self, workload, g):
        return (
            workload.preemptible
            or not g
            or all(
                self.held(queue, protected=True) + g <= queue.quota.quota_mgpu
                for queue in self.queues_of(workload)
            )
        )

    # fair share

    def find_bars(self):
        queues = [*self.departments.values(), *self.projects.values()]
        if not self.policy.fair_share_reclaim:
            return {queue_key(queue): queue.quota.quota_mgpu for queue in queues}
        shares = self.fair_shares()
        return {
            queue_key(queue): max(queue.quota.quota_mgpu, shares[queue_key(queue)])
            for queue in queues
        }

    def fair_shares(self):
        capacity = sum(
            1000
            for node in self.nodes.values()
            if node.schedulable
            for device in node.devices
            if device.healthy
        )
        demand, since = {}, {}
        for project in self.projects.values():
            lent = firm = 0
            waits = []
            for workload in self.workloads.values():
                if workload.project_id != project.id:
                    continue
                wanted = max(workload.min_replicas, workload.max_replicas)
                live = len(self.running[workload.id])
                amount = self.cheapest_mgpu(workload) * max(wanted, live)
                if workload.preemptible:
                    lent += amount
                else:
                    firm += amount
                if live < wanted:
                    waits.append(workload.submitted_at_us)
            bound = max(project.quota.quota_mgpu, self.held(project, protected=True))
            key = queue_key(project)
            demand[key] = min(limit_of(project), lent + min(firm, bound))
            since[key] = min(waits, default=None)
        for department in self.departments.values():
            parts = [
                queue_key(p) for p in self.projects.values() if p.department_id == department.id
            ]
            key = queue_key(department)
            demand[key] = min(limit_of(department), sum(demand[part] for part in parts))
            waits = [since[part] for part in parts if since[part] is not None]
            since[key] = min(waits, default=None)
        shares = share_out(capacity, list(self.departments.values()), demand, since)
        for department in self.departments.values():
            parts = [p for p in self.projects.values() if p.department_id == department.id]
            shares |= share_out(shares[queue_key(department)], parts, demand, since)
        return shares

    # placement

    def free(self):
        """Return free (mGPU, MiB) by device and free (CPU, memory) by node; None is plenty."""
        devices = {
            (node.name, device.index): [1000, device.memory_mib or 0]
            for node in self.nodes.values()
            for device in node.devices
        }
        hosts = {
            node.name: [
                10**18 if node.cpu_milli is None else node.cpu_milli,
                10**18 if node.memory_mib is None else node.memory_mib,
            ]
            for node in self.nodes.values()
        }
        for workload_id, places in self.running.items():
            for place in places:
                self.use(self.workloads[workload_id], place, devices, hosts)
        return devices, hosts

    def use(self, workload, place, devices, hosts):
        request = workload.request
        for index in place[1]:
            card = self.device(place[0], index).memory_mib or 0
            mgpu = self.device_cost(workload, place[0], index)
            mib = request.gpu_memory_mib
            devices[place[0], index][0] -= mgpu
            devices[place[0], index][1] -= (
                request.request_mgpu * card // 1000 if mib is None else mib
            )
        hosts[place[0]][0] -= request.cpu_milli
        hosts[place[0]][1] -= request.memory_mib

    def takes(self, workload, node, device, free):
        request = workload.request
        if not (device.healthy and node.schedulable):
            return False
        if workload.gpu_models and device.model not in workload.gpu_models:
            return False
        mgpu, mib = free[node.name, device.index]
        card = device.memory_mib or 0
        if request.gpu_memory_mib is None:
            return mgpu >= request.request_mgpu and mib >= request.request_mgpu * card // 1000
        if not card or card < request.gpu_memory_mib:
            return False
        cost = max(1, 1000 * request.gpu_memory_mib // card)
        return mgpu >= cost and mib >= request.gpu_memory_mib

    def places_for(self, workload, devices, hosts):
        """Yield every (node, devices) that takes one more replica."""
        request = workload.request
        for node in self.matching(workload):
            cpu, memory = hosts[node.name]
            if (request.cpu_milli and cpu < request.cpu_milli) or (
                request.memory_mib and memory < request.memory_mib
            ):
                continue
            able = [d.index for d in node.devices if self.takes(workload, node, d, devices)]
            for chosen in combinations(sorted(able), request.devices):
                yield (node.name, chosen, self.now_us)

    def room(self, workload):
        rooms = []
        for queue in self.queues_of(workload):
            rooms.append(limit_of(queue) - self.held(queue))
            if not workload.preemptible:
                rooms.append(queue.quota.quota_mgpu - self.held(queue, protected=True))
        return min(rooms)

    def can_host(self, workload, count):
        """Test whether some way of placing ``count`` replicas fits, checks included."""
        g = self.cheapest_mgpu(workload) * count
        if not (self.passes_limits(workload, g) and self.passes_guarantees(workload, g)):
            return False
        return self.fits_somehow(workload, count, self.room(workload))

    def fits_somehow(self, workload, count, room, least=None):
        if not count:
            return True
        devices, hosts = self.free()
        for place in self.places_for(workload, devices, hosts):
            if least is not None and place[:2] < least[:2]:
                continue  # replicas are alike: only orders that go up
            cost = self.replica_mgpu(workload, place)
            if workload.request.gpu_memory_mib is not None and cost > room:
                continue
            self.running[workload.id].append(place)
            fits = self.fits_somehow(workload, count - 1, room - cost, place)
            self.running[workload.id].pop()
            if fits:
                return True
        return False

    # order

    def request_of(self, workload):
        """Return (replicas, further) of what is asked for next, or None."""
        live = len(self.running[workload.id])
        if workload.kind is Kind.INFERENCE:
            return (1, live >= workload.min_replicas) if live < workload.max_replicas else None
        least = max(1, workload.min_replicas)
        if not live:
            return least, False
        return (1, True) if least <= live < workload.max_replicas else None

    def rank_queue(self, queue, workload, g):
        quota, held = queue.quota.quota_mgpu, self.held(queue)
        tail = (workload.submitted_at_us, queue.name)
        if not g or held + g <= quota:
            if not 0 < quota < UNBOUNDED:
                return (0, 0, 0, 0, *tail)
            return (0, Fraction(held + g, quota), Fraction(held, quota), 0, *tail)
        weight = queue.quota.weight_milli
        surplus = Fraction(held + g - quota, weight) if weight else 0
        return (1, -queue.quota.rank, 0 if weight else 1, surplus, *tail)

    def next_request(self, candidates):
        """Return the workload to try: department, project in it, best request of the project."""
        best_of = {}
        for project in self.projects.values():
            mine = [w for w in candidates if w.project_id == project.id]
            if not mine:
                continue
            first = min(mine, key=self.stand)
            speaking = [
                w
                for w in mine
                if self.passes_guarantees(w, self.cheapest_mgpu(w) * self.request_of(w)[0])
            ]
            speaker = min(speaking, key=self.stand) if speaking else None
            best_of[project.id] = (self.rank_or_last(project, speaker), speaker, first)
        by_department = {}
        for department in self.departments.values():
            mine = [
                best_of[p.id]
                for p in self.projects.values()
                if p.department_id == department.id and p.id in best_of
            ]
            if mine:
                _, speaker, first = min(mine, key=lambda entry: entry[0])
                by_department[department.id] = (self.rank_or_last(department, speaker), first)
        return min(by_department.values(), key=lambda entry: entry[0])[1]

    def rank_or_last(self, queue, speaker):
        if speaker is None:
            return (2, 0, 0, 0, 0, queue.name)
        g = self.cheapest_mgpu(speaker) * self.request_of(speaker)[0]
        return self.rank_queue(queue, speaker, g)

    def stand(self, workload):
        further = self.request_of(workload)[1]
        return (-workload.priority, further, workload.submitted_at_us, workload.name)

    # victims

    def is_interruptible(self, workload):
        places = self.running[workload.id]
        if not places or not workload.preemptible:
            return False
        since = min(place[2] for place in places)
        if workload.running_since_us is not None and workload.id not in self.fresh:
            since = workload.running_since_us
        return self.now_us - since >= self.policy.min_runtime_s * 1_000_000

    def takings(self, workload):
        """Return what may be taken of a workload: replica index sets; the empty one first."""
        places = self.running[workload.id]
        least = workload.min_replicas
        if workload.kind is not Kind.INFERENCE:
            least = max(1, least)
        spare = max(0, len(places) - least)
        sizes = {*range(spare + 1), len(places)}
        return [
            subset for size in sorted(sizes) for subset in combinations(range(len(places)), size)
        ]

    def pieces(self, workload, subset):
        """Return the victims in a taking: further replicas one by one, then the rest at once."""
        places = self.running[workload.id]
        amounts = [self.replica_mgpu(workload, places[at]) for at in subset]
        least = workload.min_replicas
        if workload.kind is not Kind.INFERENCE:
            least = max(1, least)
        spare = max(0, len(places) - least)
        if len(subset) <= spare:
            return [(amount, False) for amount in amounts]
        further = [(amount, False) for amount in amounts[:spare]]
        return [*further, (sum(amounts[spare:]), True)]

    def find_set(self, workload, count, pool, is_allowed):
        """Return the best set of victims out of ``pool`` ({workload id: indices}), or None."""
        options = [[(w.id, subset) for subset in self.takings(w)] for w in pool]
        working = []
        for combination in product(*options):
            taken = {workload_id: subset for workload_id, subset in combination if subset}
            if not taken:
                continue
            verdict = is_allowed(taken)
            if verdict is None or not self.works_without(workload, count, taken):
                continue
            working.append((taken, verdict))
        minimal = [
            (taken, straddles)
            for taken, straddles in working
            if not any(is_part(other, taken) for other, _ in working)
        ]
        rows = {w.id: self.row(w) for w in pool}
        return min(
            minimal, key=lambda entry: (entry[1], *self.price(entry[0], rows)), default=(None,)
        )[0]

    def works_without(self, workload, count, taken):
        before = {workload_id: list(self.running[workload_id]) for workload_id in taken}
        for workload_id, subset in taken.items():
            self.running[workload_id] = [
                place for at, place in enumerate(before[workload_id]) if at not in subset
            ]
        works = self.can_host(workload, count)
        self.running.update(before)
        return works

    def price(self, taken, rows):
        workloads = [self.workloads[workload_id] for workload_id in taken]
        wholes = sum(len(subset) == len(self.running[wid]) for wid, subset in taken.items())
        parts = [
            rows[workload_id]
            for workload_id, subset in taken.items()
            for _ in self.pieces(self.workloads[workload_id], subset)
        ]
        return (
            wholes,
            max(workload.priority for workload in workloads),
            sorted(parts),
            sum(
                self.replica_mgpu(self.workloads[wid], self.running[wid][at])
                for wid, subset in taken.items()
                for at in subset
            ),
            sum(self.lost(workload) for workload in workloads),
            sorted(-workload.submitted_at_us for workload in workloads),
            sorted(workload.name for workload in workloads),
            sorted(
                (self.running[wid][at][0], self.running[wid][at][1])
                for wid, subset in taken.items()
                for at in subset
            ),
        )

    def lost(self, workload):
        last = max(place[2] for place in self.running[workload.id])
        if workload.running_since_us is not None:
            last = max(last, workload.running_since_us)
        return max(0, self.now_us - last)

    def row(self, workload):
        project, department = self.queues_of(workload)
        row = []
        for queue in (department, project):
            weight = queue.quota.weight_milli
            surplus = INFINITE
            if weight:
                surplus = Fraction(self.held(queue) - queue.quota.quota_mgpu, weight)
            row += [queue.quota.rank, -surplus]
        return tuple(row)

    def may_reclaim(self, workload, g):
        """Return the rule for a set of victims: None not allowed, else whether one straddles."""
        project, own = self.queues_of(workload)
        held = {
            queue_key(queue): self.held(queue)
            for queue in (*self.projects.values(), *self.departments.values())
        }

        def verdict(taken):
            victims = [
                (self.workloads[workload_id], amount, is_rest)
                for workload_id, subset in taken.items()
                for amount, is_rest in self.pieces(self.workloads[workload_id], subset)
            ]
            if any(victim.project_id == project.id for victim, _, _ in victims):
                return None
            inside = sum(a for v, a, _ in victims if self.queues_of(v)[1] is own)
            crosses = any(self.queues_of(v)[1] is not own for v, _, _ in victims)
            if crosses and held[queue_key(own)] - inside + g > self.bars[queue_key(own)]:
                return None
            return self.best_order(victims, dict(held), own, {})

        return verdict

    def best_order(self, left, held, own, known):
        """Return whether the best order of taking ``left`` straddles; None where there is no order."""
        if not left:
            return False
        key = tuple((victim.id, amount, is_rest) for victim, amount, is_rest in left)
        if key not in known:
            known[key] = self.try_each_first(left, held, own, known)
        return known[key]

    def try_each_first(self, left, held, own, known):
        found = None
        for at, (victim, amount, is_rest) in enumerate(left):
            others = left[:at] + left[at + 1 :]
            if is_rest and any(other.id == victim.id for other, _, _ in others):
                continue  # its further replicas go before the rest of it
            project, department = self.queues_of(victim)
            measured = [project] if department is own else [project, department]
            if any(held[queue_key(q)] <= self.bars[queue_key(q)] for q in measured):
                continue
            after = dict(held)
            for queue in (project, department):
                after[queue_key(queue)] -= amount
            straddles = any(after[queue_key(q)] < self.bars[queue_key(q)] for q in measured)
            rest = self.best_order(others, after, own, known)
            if rest is not None and (found is None or found > (straddles or rest)):
                found = straddles or rest
        return found

    # the cycle

    def run(self):
        self.stop_broken_gangs()
        while self.run_pass():
            pass
        return self

    def stop_broken_gangs(self):
        for workload in self.workloads.values():
            live = len(self.running[workload.id])
            if workload.kind is not Kind.INFERENCE and 0 < live < workload.min_replicas:
                self.running[workload.id] = []

    def run_pass(self):
        changed, aside, victims = False, set(), set()
        while True:
            candidates = [
                workload
                for workload in self.workloads.values()
                if self.request_of(workload) is not None
                and workload.id not in aside
                and workload.id not in victims
            ]
            if not candidates:
                return changed
            workload = self.next_request(candidates)
            taken = self.attempt(workload)
            if taken is None:
                aside.add(workload.id)
            else:
                victims |= set(taken)
                aside.clear()
                changed = True

    def attempt(self, workload):
        """Return the ids of the victims where ``workload`` was started, else None."""
        count, _ = self.request_of(workload)
        if self.can_host(workload, count):
            self.start(workload, count)
            return ()
        g = self.cheapest_mgpu(workload) * count
        project, _ = self.queues_of(workload)
        running = [w for w in self.workloads.values() if self.is_interruptible(w)]
        if g and self.held(project) + g <= self.bars[queue_key(project)]:
            pool = [w for w in running if w.project_id != project.id]
            taken = self.find_set(workload, count, pool, self.may_reclaim(workload, g))
            if taken is not None:
                return self.interrupt(workload, count, taken)
        pool = [w for w in running if w.project_id == project.id and w.priority < workload.priority]
        taken = self.find_set(workload, count, pool, lambda taken: False)
        return None if taken is None else self.interrupt(workload, count, taken)

    def interrupt(self, workload, count, taken):
        for workload_id, subset in taken.items():
            places = self.running[workload_id]
            self.running[workload_id] = [p for at, p in enumerate(places) if at not in subset]
        self.start(workload, count)
        return tuple(taken)

    def start(self, workload, count):
        places = self.choose_places(workload, count)
        if not self.running[workload.id]:
            self.fresh.add(workload.id)
        self.running[workload.id] += places

    def choose_places(self, workload, count):
        """Place one replica after the other: the best place each time, else the cheapest card, else
        the devices with the most room.
        """
        budget = self.room(workload) if workload.request.gpu_memory_mib is not None else None
        for preference in (None, self.prefer_cheap, self.prefer_room):
            places = self.place_in_turn(workload, count, budget, preference)
            if places is not None:
                return places
        raise AssertionError("what can be hosted is hosted")

    def place_in_turn(self, workload, count, budget, preference):
        cheapest = self.cheapest_mgpu(workload)
        before = list(self.running[workload.id])
        left = budget
        for still in range(count - 1, -1, -1):
            devices, hosts = self.free()
            allowed = None
            if left is not None:
                allowed = left if preference else left - still * cheapest
            options = [
                (() if preference is None else preference(workload, place, devices),
                 self.rate(workload, place, devices, hosts), place)
                for place in self.ways(workload, devices, hosts, roomy=preference is not None)
                if allowed is None or self.replica_mgpu(workload, place) <= allowed
            ]  # fmt: skip
            if not options:
                self.running[workload.id] = before
                return None
            place = min(options)[2]
            left = None if left is None else left - self.replica_mgpu(workload, place)
            self.running[workload.id].append(place)
        placed = self.running[workload.id][len(before) :]
        self.running[workload.id] = before
        return placed

    def prefer_cheap(self, workload, place, devices):
        return (self.replica_mgpu(workload, place),)

    def prefer_room(self, workload, place, devices):
        return (-sum(self.device_room(workload, place[0], at, devices) for at in place[1]),)

    def device_room(self, workload, node, index, devices):
        mgpu, mib = devices[node, index]
        cost = self.device_cost(workload, node, index)
        card = self.device(node, index).memory_mib or 0
        need = workload.request.gpu_memory_mib
        need = workload.request.request_mgpu * card // 1000 if need is None else need
        return min(mgpu // cost, mib // need if need else 10**9)

    def ways(self, workload, devices, hosts, *, roomy):
        """Yield the ways that are considered: of each node every device, or one choice of several."""
        found = {}
        for place in self.places_for(workload, devices, hosts):
            found.setdefault(place[0], set()).update(place[1])
            if workload.request.devices <= 1:
                yield place
        if workload.request.devices <= 1:
            return
        for node, able in found.items():
            free = {at: devices[node, at][0] for at in able}
            if roomy:
                order = sorted(
                    able, key=lambda at: (-self.device_room(workload, node, at, devices), at)
                )
            elif self.policy.spread:
                order = sorted(able, key=lambda at: (-free[at], at))
            else:
                order = sorted(able, key=lambda at: (free[at] == 1000, free[at], at))
            yield (node, tuple(sorted(order[: workload.request.devices])), self.now_us)

    def rate(self, workload, place, devices, hosts):
        node, chosen, _ = place
        usable = [d.index for d in self.nodes[node].devices if self.is_usable(node, d)]
        free = {at: devices[node, at][0] for at in usable}
        here, total = sum(free[at] for at in chosen), sum(max(0, mgpu) for mgpu in free.values())
        first = min(chosen, default=0)
        if self.policy.spread:
            return (-here, -total, -hosts[node][0], first, node)
        request = workload.request
        whole = request.gpu_memory_mib is None and request.request_mgpu == 1000
        opened = 0 if whole else sum(free[at] == 1000 for at in chosen)
        before = self.waste(node, devices, hosts)
        self.running[workload.id].append(place)
        after = self.waste(node, *self.free())
        self.running[workload.id].pop()
        return (opened, after - before, here, total, hosts[node][0], first, node)

    def is_usable(self, node, device):
        return device.healthy and self.nodes[node].schedulable

    def waste(self, node, devices, hosts):
        """Return the free GPU of a node that the mix can't use, weighted by how often it is asked."""
        cards = [
            (device, devices[node, device.index][0])
            for device in self.nodes[node].devices
            if self.is_usable(node, device) and devices[node, device.index][0] > 0
        ]
        cpu_milli, memory_mib = hosts[node]
        free = sum(mgpu for _, mgpu in cards)
        mix = self.mix()
        asked = sum(count for _, count in mix)
        total = 2 * asked * sum(self.left_over(device, mgpu, mix) for device, mgpu in cards)
        for workload, count in mix:
            able = {
                device.index: (mgpu, mgpu // self.need(workload.request, device))
                for device, mgpu in cards
                if mgpu >= self.need(workload.request, device)
                and (not workload.gpu_models or device.model in workload.gpu_models)
            }
            room = sum(mgpu for mgpu, _ in able.values())
            filled = sum(
                able[device.index][1] * self.need(workload.request, device)
                for device, _ in cards
                if device.index in able
            )
            slots = sum(times for _, times in able.values())
            wanted = workload.request.devices
            fits = 0
            while (
                (fits + 1) * wanted <= slots
                and (fits + 1) * workload.request.cpu_milli <= cpu_milli
                and (fits + 1) * workload.request.memory_mib <= memory_mib
            ):
                fits += 1
            unusable = free - room if fits else free
            unfilled = free - (filled * fits * wanted // slots if fits else 0)
            total += 2 * count * (unusable + unfilled)
        return total + asked * max(0, free - self.fed(cpu_milli))

    def fed(self, cpu_milli):
        """Return the GPU that so much CPU feeds, a quarter more than at the ratio of all requests."""
        cpu = mgpu = 0
        for workload in self.workloads.values():
            wanted = max(workload.min_replicas, workload.max_replicas, self.at_first[workload.id])
            cpu += wanted * workload.request.cpu_milli
            mgpu += wanted * self.cheapest_mgpu(workload)
        return max(0, cpu_milli) * mgpu * 125 // (100 * cpu) if cpu else 10**18

    def left_over(self, device, mgpu, mix):
        """Return what stays free of a device that is filled from the mix in random order."""
        if device.memory_mib not in self.left_overs:
            takers = [(self.need(workload.request, device), count) for workload, count in mix]
            table = self.left_overs[device.memory_mib] = []
            for free in range(1001):
                kept = [(count, table[free - need]) for need, count in takers if need <= free]
                asked = sum(count for count, _ in kept)
                table.append(sum(count * left for count, left in kept) // asked if kept else free)
        return self.left_overs[device.memory_mib][mgpu]

    def need(self, request, device):
        if request.gpu_memory_mib is None:
            return request.request_mgpu
        card = device.memory_mib or 0
        if card < request.gpu_memory_mib:
            return 1001
        return max(1, 1000 * request.gpu_memory_mib // card)

    def mix(self):
        """Return [(a workload of the shape, replicas)]: the most frequent that make 95 in a hundred."""
        counts, samples = {}, {}
        for workload in self.workloads.values():
            request = workload.request
            if not request.devices:
                continue
            allowed = workload.allowed_nodes
            memory = request.gpu_memory_mib or 0
            key = (
                request.devices,
                0 if memory else request.request_mgpu,
                memory,
                request.cpu_milli,
                request.memory_mib,
                tuple(sorted(workload.node_labels.items())),
                None if allowed is None else tuple(sorted(allowed)),
                tuple(sorted(workload.gpu_models)),
            )
            wanted = max(workload.min_replicas, workload.max_replicas, self.at_first[workload.id])
            counts[key] = counts.get(key, 0) + wanted
            samples[key] = workload
        order = sorted((-count, repr(key), key) for key, count in counts.items() if count)
        total, covered, last, chosen = sum(counts.values()), 0, 0, []
        for negative, _, key in order:
            if covered * 100 >= total * 95 and -negative < last:
                break
            chosen.append((samples[key], -negative))
            covered, last = covered - negative, -negative
        return chosen


def limit_of(queue):
    quota = queue.quota
    return quota.limit_mgpu if quota.over_quota else quota.quota_mgpu


def queue_key(queue):
    return (type(queue).__name__, queue.id)


def is_part(less, more):
    """Test whether ``less`` is a proper part of ``more``."""
    return less != more and all(
        workload_id in more and set(subset) <= set(more[workload_id])
        for workload_id, subset in less.items()
    )


def share_out(total, queues, demand, since):
    share = {queue_key(q): min(q.quota.quota_mgpu, demand[queue_key(q)]) for q in queues}
    left = total - sum(share.values())
    for rank in sorted({q.quota.rank for q in queues}, reverse=True):
        for weighted in (True, False):
            group = [
                q for q in queues if q.quota.rank == rank and bool(q.quota.weight_milli) == weighted
            ]
            left -= pour(max(0, left), group, share, demand, since)
    return share


def pour(left, group, share, demand, since):
    """Pour ``left`` milli-GPU into ``group`` by weight; return what was poured."""
    level = {queue_key(q): Fraction(share[queue_key(q)]) for q in group}
    rest = Fraction(left)
    while rest > 0:
        open_ = [q for q in group if level[queue_key(q)] < demand[queue_key(q)]]
        if not open_:
            break
        total = sum(q.quota.weight_milli or 1 for q in open_)
        step = min(
            min(
                (demand[queue_key(q)] - level[queue_key(q)]) / (q.quota.weight_milli or 1)
                for q in open_
            ),
            rest / total,
        )
        for q in open_:
            level[queue_key(q)] += step * (q.quota.weight_milli or 1)
        rest -= step * total
    poured = left - rest
    whole = {key: value.numerator // value.denominator for key, value in level.items()}
    odd = poured - sum(whole[queue_key(q)] - share[queue_key(q)] for q in group)
    eldest = sorted(
        group,
        key=lambda q: (since[queue_key(q)] is None, since[queue_key(q)] or 0, q.name),
    )
    for q in eldest:
        key = queue_key(q)
        more = min(odd, demand[key] - whole[key])
        if whole[key] < level[key] or odd:
            whole[key] += int(more)
            odd -= int(more)
    for q in group:
        share[queue_key(q)] = whole[queue_key(q)]
    return int(poured)
