"""A Slurm batch script as submissions: the ``#SBATCH`` directives that mean something here, the rest told."""

from __future__ import annotations

import re
import shlex
from difflib import get_close_matches

from tidegate.moving.found import Found, ImportRefused, Json, mebibytes, work_name

MOST_OF_ARRAY = 100
MOST_GRACE_S = 300
#: Short options, and those that take no value.
SHORT = {
    "A": "account", "a": "array", "b": "begin", "C": "constraint", "c": "cpus-per-task",
    "D": "chdir", "d": "dependency", "e": "error", "G": "gpus", "H": "hold", "i": "input",
    "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "N": "nodes", "n": "ntasks",
    "O": "overcommit", "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe",
    "t": "time", "w": "nodelist", "x": "exclude",
}  # fmt: skip
FLAGS = frozenset(
    {
        "hold",
        "no-kill",
        "no-requeue",
        "overcommit",
        "oversubscribe",
        "parsable",
        "requeue",
        "exclusive",
    }
)
#: What is known and means nothing here, with the reason.
IGNORED = {
    "output": "What it prints is kept for it: tidegate logs.",
    "error": "What it prints is kept for it: tidegate logs.",
    "time": "How long work may run is set by an admin for its project.",
    "qos": "Guarantees and priorities belong to projects.",
    "priority": "Write --priority; it is 1 to 1000 here.",
    "nice": "Write --priority.",
    "mail-type": "What you are told of is chosen on your account's page.",
    "mail-user": "Notices go to the address of your account.",
    "requeue": "Interrupted work always waits for its turn again.",
    "no-requeue": "Interrupted work always waits for its turn again; --not-preemptible keeps it running.",
    "exclusive": "Devices are not shared unless a share is asked for.",
    "oversubscribe": "Ask for a share of a GPU instead.",
    "constraint": "Choose nodes by their labels: node_labels.",
    "nodelist": "Nodes are chosen by the scheduler.",
    "exclude": "Nodes are chosen by the scheduler.",
    "dependency": "Work does not wait for other work: submit it when that has ended.",
    "begin": "It waits for its turn from now on.",
    "hold": "It waits for its turn from now on.",
    "input": "There is no standard input.",
    "licenses": "There are no licences to count.",
    "reservation": "There are no reservations: guarantees take their place.",
    "clusters": "It goes to the server that you are signed in to.",
    "comment": "There is no such field.",
    "wckey": "There is no such field.",
    "parsable": "Write -o json.",
    "no-kill": "A gang of which one node is lost starts again.",
    "overcommit": "CPU is what is asked for.",
    "open-mode": "What it prints is kept for it: tidegate logs.",
    "threads-per-core": "CPU is counted in cores.",
    "hint": "CPU is counted in cores.",
    "gpu-bind": "A replica sees exactly its own GPUs.",
    "gpu-freq": "Clocks are left as they are.",
    "distribution": "Replicas are placed by the scheduler.",
    "switches": "Replicas are placed by the scheduler.",
    "tmp": "Disk is not counted.",
    "get-user-env": "Work gets a clean environment; write --env.",
    "container-image": "Images are not run: define an environment.",
    "container-mounts": "Define data sources.",
}
_HANDLED = frozenset(
    {
        "job-name",
        "account",
        "partition",
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "cpus-per-task",
        "gpus",
        "gpus-per-node",
        "gpus-per-task",
        "gres",
        "mem",
        "mem-per-cpu",
        "mem-per-gpu",
        "signal",
        "export",
        "chdir",
        "array",
    }
)


def read(text: str) -> Found:
    """Return the submissions of a batch script: one, or one for each task of its array.

    Raises:
        ImportRefused: a directive that can't be read, or what can't run here.
    """
    found = Found(system="Slurm")
    options = _options(text)
    given = {name: value for name, value, _line in options}
    lines = {name: line for name, _value, line in options}
    for name, value, line in options:
        if name in IGNORED:
            found.leave(f"--{name}", value, IGNORED[name])
        elif name not in _HANDLED:
            near = get_close_matches(name, [*IGNORED, *_HANDLED], n=1)
            hint = f" Did you mean --{near[0]}?" if near else ""
            raise ImportRefused(f"There is no directive --{name}.{hint}", line=line)
    reader = _Reader(found, given, lines)
    submission = reader.submission(text)
    found.submissions = reader.tasks(submission)
    _note_script(text, found)
    return found


def is_script(text: str) -> bool:
    """Test whether a text is a batch script."""
    return re.search(r"(?m)^#SBATCH\b", text) is not None


def _options(text: str) -> list[tuple[str, str, int]]:
    """Return name, value and line of each directive; they end at the first command, as in Slurm."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH"):
            found += _of_line(line.removeprefix("#SBATCH"), number)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def _of_line(text: str, line: int) -> list[tuple[str, str, int]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise ImportRefused(
            f"The quotes of this directive don't match: {error}.", line=line
        ) from error
    if words == ["hetjob"]:
        raise ImportRefused(
            "Heterogeneous jobs have no equal here: submit each part by itself.", line=line
        )
    found = []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], word[1:]), word[2:]
            sign = "=" if value else ""
        else:
            raise ImportRefused(f"{word!r} is no directive.", line=line)
        if not sign and name not in FLAGS:
            if not words:
                raise ImportRefused(f"--{name} needs a value.", line=line)
            value = words.pop(0)
        found.append((name, value, line))
    return found


class _Reader:
    """Reads what was given into one submission."""

    def __init__(self, found: Found, given: dict[str, str], lines: dict[str, int]) -> None:
        self._found, self._given, self._lines = found, given, lines

    def submission(self, text: str) -> Json:
        nodes = self._nodes()
        tasks = self._tasks_a_node(nodes)
        made: Json = {
            "name": self._name(),
            "kind": "distributed" if nodes > 1 else "training",
            "command": ["bash", "-c", text],
            **self._gpu(tasks),
            **self._cpu(tasks),
        }
        if nodes > 1:
            made |= {"min_replicas": nodes, "max_replicas": nodes}
        made |= self._memory(made)
        made |= self._grace()
        made["env"] = self._env(nodes, tasks)
        for name, field in (("account", "project"), ("partition", "pool")):
            if name in self._given:
                made[field] = self._given[name]
                self._carry(name, f"{field}: {self._given[name]}")
        return made

    def tasks(self, submission: Json) -> list[Json]:
        """Return one submission for each task of an array; without one, the submission itself."""
        if "array" not in self._given:
            return [submission]
        text, sign, at_once = self._given["array"].partition("%")
        if sign:
            self._found.leave("--array", f"%{at_once}", "How many run at once is the scheduler's.")
        numbers = self._numbers(text)
        self._carry("array", f"{len(numbers)} workloads")
        made = []
        for number in numbers:
            name = f"{submission['name'][: 62 - len(str(number))]}-{number}"
            env = {**submission["env"], "SLURM_ARRAY_TASK_ID": str(number)}
            made.append({**submission, "name": name, "env": env})
        return made

    def _numbers(self, text: str) -> list[int]:
        found: list[int] = []
        for part in text.split(","):
            match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6}))?)?", part.strip())
            if match is None or match[3] == "0":
                raise self._refused("array", f"{part!r} is no task such as 3, or 0-9.")
            low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            if (high - low) // step >= MOST_OF_ARRAY:
                raise self._refused("array", f"Use at most {MOST_OF_ARRAY} tasks in one script.")
            found += range(low, high + 1, step)
        if not 1 <= len(set(found)) <= MOST_OF_ARRAY:
            raise self._refused("array", f"Use 1 to {MOST_OF_ARRAY} tasks in one script.")
        return sorted(set(found))

    def _name(self) -> str:
        return work_name(self._given.get("job-name", "sbatch"), self._found, of="--job-name")

    def _nodes(self) -> int:
        if "nodes" not in self._given:
            return 1
        low, _dash, high = self._given["nodes"].partition("-")
        count = self._whole("nodes", low)
        if high and high != low:
            self._found.leave("--nodes", f"up to {high}", "It begins with the least and stays so.")
        self._carry("nodes", f"min_replicas: {count}" if count > 1 else "one replica")
        return count

    def _tasks_a_node(self, nodes: int) -> int:
        """Return how many tasks share a node: what they ask for is added up in its one replica."""
        if "ntasks-per-node" in self._given:
            tasks = self._whole("ntasks-per-node", self._given["ntasks-per-node"])
            self._carry("ntasks-per-node", f"what {tasks} tasks ask for, in one replica")
            return tasks
        if "ntasks" not in self._given:
            return 1
        tasks = -(-self._whole("ntasks", self._given["ntasks"]) // nodes)
        self._carry("ntasks", f"what {tasks} tasks ask for, in one replica")
        return tasks

    def _gpu(self, tasks: int) -> Json:
        count = self._gpus_of_gres()
        for name, times in (("gpus-per-node", 1), ("gpus-per-task", tasks), ("gpus", 1)):
            if name in self._given:
                count = times * self._typed_count(name, self._given[name])
                self._carry(name, f"devices: {count}")
                if name == "gpus" and "nodes" in self._given:
                    count = -(
                        -count // self._whole("nodes", self._given["nodes"].partition("-")[0])
                    )
        return {"devices": count, "request_mgpu": 1000} if count else {"devices": 0}

    def _gpus_of_gres(self) -> int:
        count = 0
        for part in filter(None, self._given.get("gres", "").split(",")):
            kind, _colon, rest = part.partition(":")
            if kind == "gpu":
                count += self._typed_count("gres", rest or "1")
                self._carry("gres", f"devices: {count}")
            elif kind in ("shard", "mps"):
                raise self._refused(
                    "gres",
                    f"{part!r} is a share whose size only your Slurm knows. Use tidegate submit -g.",
                )
            else:
                self._found.leave("--gres", part, "Only GPUs are counted.")
        return count

    def _typed_count(self, name: str, text: str) -> int:
        """Return the count of "a100:2" or "2"."""
        model, colon, number = text.rpartition(":")
        if not colon and not number.isdigit():
            model, number = number, "1"
        if model:
            self._found.leave(f"--{name}", model, "Choose the model by its name here: gpu_models.")
        return self._whole(name, number)

    def _cpu(self, tasks: int) -> Json:
        if "cpus-per-task" not in self._given:
            return {"cpu_milli": 1000 * tasks} if tasks > 1 else {}
        milli = 1000 * tasks * self._whole("cpus-per-task", self._given["cpus-per-task"])
        self._carry("cpus-per-task", f"cpu_milli: {milli}")
        return {"cpu_milli": milli}

    def _memory(self, made: Json) -> Json:
        units = {
            "mem": 1,
            "mem-per-cpu": max(1, made.get("cpu_milli", 1000) // 1000),
            "mem-per-gpu": max(1, made["devices"]),
        }
        for name, times in units.items():
            if name not in self._given:
                continue
            if self._given[name] == "0":
                self._found.leave(f"--{name}", "0", "All memory of a node can't be asked for.")
                return {}
            line = self._lines[name]
            mib = times * mebibytes(self._given[name], of=f"--{name}", default="M", line=line)
            self._carry(name, f"memory_mib: {mib}")
            return {"memory_mib": mib}
        return {}

    def _grace(self) -> Json:
        if "signal" not in self._given:
            return {}
        match = re.fullmatch(r"(?:[BR]{1,2}:)?(\w+)(?:@(\d{1,6}))?", self._given["signal"])
        if match is None:
            raise self._refused("signal", "Write it such as TERM@60.")
        seconds = min(MOST_GRACE_S, int(match[2] or 60))
        self._carry("signal", f"grace_s: {seconds}")
        if match[1].upper().removeprefix("SIG") not in ("TERM", "15"):
            self._found.leave("--signal", match[1], "The signal to save is SIGTERM.")
        return {"grace_s": seconds}

    def _env(self, nodes: int, tasks: int) -> dict[str, str]:
        env = {
            "SLURM_JOB_NAME": self._given.get("job-name", "sbatch"),
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_NNODES": str(nodes),
            "SLURM_NTASKS": str(nodes * tasks),
        }
        if "cpus-per-task" in self._given:
            env["SLURM_CPUS_PER_TASK"] = self._given["cpus-per-task"]
        for pair in filter(None, self._given.get("export", "").split(",")):
            name, sign, value = pair.partition("=")
            if sign:
                env[name] = value
                self._carry("export", f"env: {name}")
            elif name != "NONE":
                self._found.leave(
                    "--export", name, "Work gets a clean environment: name its values."
                )
        if "chdir" in self._given:
            self._found.leave(
                "--chdir",
                self._given["chdir"],
                "Work begins in a folder of its own; name data sources.",
            )
        return env

    def _carry(self, name: str, becomes: str) -> None:
        self._found.carry(f"--{name}", self._given[name], becomes)

    def _whole(self, name: str, text: str) -> int:
        if not re.fullmatch(r"[1-9]\d{0,5}", text.strip()):
            raise self._refused(name, f"{text!r} is no whole number from 1 on.")
        return int(text)

    def _refused(self, name: str, message: str) -> ImportRefused:
        return ImportRefused(f"--{name}: {message}", line=self._lines.get(name, 0))


#: Commands of a script that are not here.
_USES = {
    r"(?m)^\s*(?:exec\s+)?(srun|mpirun)\b": "It is not there: a replica runs the script once.",
    r"(?m)^\s*(module)\s+load\b": "It has nothing to load: define an environment.",
}
_GIVEN = frozenset(
    {
        "SLURM_JOB_NAME",
        "SLURM_JOB_NUM_NODES",
        "SLURM_NNODES",
        "SLURM_NTASKS",
        "SLURM_CPUS_PER_TASK",
        "SLURM_ARRAY_TASK_ID",
    }
)


def _note_script(text: str, found: Found) -> None:
    """Note what the script itself uses and is not here."""
    for pattern, why in _USES.items():
        for name in dict.fromkeys(re.findall(pattern, text)):
            found.leave("script", name, why)
    for name in dict.fromkeys(re.findall(r"\$\{?(SLURM_\w+)", text)):
        if name not in _GIVEN:
            found.leave("script", f"${name}", "It is not set.")
