"""Servers of language models that people use: their commands, readiness paths and start times.

Words in braces are filled in where the work starts: ``{name}``, ``{port}``, and ``{slice:0.93}``, which
is 93 % of the slice as a share of what the process sees as the card's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

USUAL_LENGTH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is to be served. ``path``: a folder or file of a data source, or a name of a hub."""

    path: str
    #: As requests call it: the workload's, whatever it is called in the end.
    name: str = "{name}"
    max_tokens: int = USUAL_LENGTH
    utilization_permille: int = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTemplate:
    """One server."""

    id: str
    label: str
    command: Callable[[Model], list[str]]
    readiness_path: str = "/health"
    start_timeout_s: int = 900


def _vllm(model: Model) -> list[str]:
    return [
        *("vllm", "serve", model.path, "--served-model-name", model.name),
        *("--host", "127.0.0.1", "--port", "{port}"),
        # Without captured graphs: they cost memory that a slice hasn't got.
        "--enforce-eager",
        *("--gpu-memory-utilization", _share(model)),
        *("--max-model-len", str(model.max_tokens)),
    ]


def _llama(model: Model) -> list[str]:
    return [
        *("llama-server", "--model", model.path, "--alias", model.name),
        *("--host", "127.0.0.1", "--port", "{port}"),
        *("--n-gpu-layers", "999", "--ctx-size", str(model.max_tokens)),
    ]


def _sglang(model: Model) -> list[str]:
    return [
        *("python", "-m", "sglang.launch_server", "--model-path", model.path),
        *("--served-model-name", model.name, "--host", "127.0.0.1", "--port", "{port}"),
        "--disable-cuda-graph",
        *("--mem-fraction-static", _share(model)),
        *("--context-length", str(model.max_tokens)),
    ]


def _tgi(model: Model) -> list[str]:
    return [
        *("text-generation-launcher", "--model-id", model.path),
        *("--hostname", "127.0.0.1", "--port", "{port}", "--cuda-graphs", "0"),
        *("--cuda-memory-fraction", _share(model)),
        *("--max-input-tokens", str(max(model.max_tokens - 1, 1))),
        *("--max-total-tokens", str(model.max_tokens)),
    ]


def _share(model: Model) -> str:
    return f"{{slice:{model.utilization_permille / 1000:.2f}}}"


TEMPLATES: dict[str, EngineTemplate] = {
    template.id: template
    for template in (
        EngineTemplate(id="vllm", label="vLLM", command=_vllm),
        EngineTemplate(id="llama", label="llama.cpp", command=_llama, start_timeout_s=600),
        EngineTemplate(id="sglang", label="SGLang", command=_sglang),
        EngineTemplate(id="tgi", label="TGI", command=_tgi),
    )
}
