"""Any file of another system: what it is, and what it turns into."""

from __future__ import annotations

from tidegate.moving import hierarchy, kubernetes, runai, slurm
from tidegate.moving.documents import kind_of, read_documents
from tidegate.moving.found import Found, ImportRefused


def read(text: str) -> Found:
    """Return what a batch script or a YAML file holds; nothing is asked of a server.

    Raises:
        ImportRefused: it is none of the files that are known, or something of it can't be read.
    """
    if slurm.is_script(text):
        return slurm.read(text)
    if text.startswith("#!"):
        raise ImportRefused("This script has no #SBATCH directives.", line=1)
    things = read_documents(text)
    of_quotas = [thing for thing in things if hierarchy.reads(thing)]
    if of_quotas and len(of_quotas) == len(things):
        return hierarchy.read(of_quotas)
    if of_quotas:
        raise ImportRefused("Quotas and work stand in one file. Import them one after the other.")
    found = Found(system="Run:ai" if runai.reads(things[0]) else "Kubernetes")
    for thing in things:
        if runai.reads(thing):
            found.submissions.append(runai.read(thing, found))
        elif kubernetes.reads(thing):
            found.submissions.append(kubernetes.KINDS[kind_of(thing)](thing, found))
        else:
            group, kind = kind_of(thing)
            raise ImportRefused(f"A {kind or 'document'} of {group or 'v1'} can't be carried over.")
    return found
