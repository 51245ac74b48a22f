# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of the training processes: what they get, what they never inherit, and which names are known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.trainyard.swift.plugins.module_utils._job import JobSpec, environment_text

MAX_THREADS = 16

#: Names that only the inventory and the job's settings decide; a value in the job's environment does not count.
RANK_FACTS: tuple[str, ...] = ("NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "NPROC_PER_NODE")

#: Names never inherited by a trainer; with a C(*) at an end, all names with this beginning or end.
DROPPED: tuple[str, ...] = (
    *RANK_FACTS,
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "GROUP_*",
    "PET_*",
    "TORCHELASTIC_*",
    "MASTER_*",
    "SLURM_*",
    "OMPI_*",
    "PMI_*",
    "SWIFT_CONFIG_FILE",
    "*_proxy",
    "*_PROXY",
)

#: Names that cannot be given, since they would set the job's layout anew, each with the reason.
REFUSED: dict[str, str] = {
    "NODE_RANK": "ranks come from the order of the inventory (or swift_node_rank)",
    "RANK": "torchrun gives it to each process",
    "LOCAL_RANK": "torchrun gives it to each process",
    "WORLD_SIZE": "it follows from the nodes and nproc_per_node",
    "LOCAL_WORLD_SIZE": "it follows from nproc_per_node",
    "PET_NNODES": "the number of nodes is that of the inventory",
    "PET_NODE_RANK": "ranks come from the order of the inventory (or swift_node_rank)",
    "PET_NPROC_PER_NODE": "use nproc_per_node",
    "PET_MASTER_ADDR": "use master_addr",
    "PET_MASTER_PORT": "use master_port",
    "PET_STANDALONE": "each node would train alone",
    "PET_RDZV_BACKEND": "another rendezvous would number the ranks anew",
    "PET_RDZV_ENDPOINT": "another rendezvous would number the ranks anew",
}

KNOWN: tuple[str, ...] = (
    *RANK_FACTS,
    "ASCEND_RT_VISIBLE_DEVICES",
    "ASCEND_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_HOME",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "DISABLE_MP_DDP",
    "FPS",
    "FPS_MAX_FRAMES",
    "FPS_MIN_FRAMES",
    "GLOO_SOCKET_IFNAME",
    "HF_DATASETS_CACHE",
    "HF_DATASETS_OFFLINE",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "IMAGE_MAX_TOKEN_NUM",
    "IMAGE_MIN_TOKEN_NUM",
    "LD_LIBRARY_PATH",
    "LOG_LEVEL",
    "MAX_FRAMES",
    "MAX_PIXELS",
    "MCORE_READER_MAX_WORKERS",
    "MEGATRON_LM_PATH",
    "MIN_PIXELS",
    "MKL_NUM_THREADS",
    "MODELSCOPE_API_TOKEN",
    "MODELSCOPE_CACHE",
    "MODELSCOPE_DOMAIN",
    "MODELSCOPE_SDK_TOKEN",
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECKS_DISABLE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COMM_BLOCKING",
    "NCCL_CONF_FILE",
    "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_CUMEM_MC_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_HOSTID",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_CUDA_SUPPORT",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SL",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_WARN_RAIL_LOCAL",
    "NCCL_LAUNCH_MODE",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS",
    "NCCL_NVB_DISABLE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_NVLS_ENABLE",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_PROTO",
    "NCCL_PXN_DISABLE",
    "NCCL_RAS_ENABLE",
    "NCCL_RINGS",
    "NCCL_SET_STACK_SIZE",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_TIMEOUT",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_PLUGIN",
    "NCCL_VERSION",
    "NCCL_WORK_FIFO_DEPTH",
    "NVTE_DEBUG",
    "NVTE_DEBUG_LEVEL",
    "NVTE_FLASH_ATTN",
    "NVTE_FLASH_ATTN_V3",
    "NVTE_FUSED_ATTN",
    "NVTE_FUSED_ATTN_CK",
    "NVTE_UNFUSED_ATTN",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PET_LOG_DIR",
    "PET_MAX_RESTARTS",
    "PET_RDZV_CONF",
    "PET_REDIRECTS",
    "PET_TEE",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "SWANLAB_API_KEY",
    "SWIFT_SINGLE_DEVICE_MODE",
    "TOKENIZERS_PARALLELISM",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TRANSFORMERS_OFFLINE",
    "TRITON_CACHE_DIR",
    "USE_HF",
    "USE_MODELSCOPE_HUB",
    "VIDEO_MAX_PIXELS",
    "VIDEO_MAX_TOKEN_NUM",
    "VIDEO_MIN_PIXELS",
    "VIDEO_MIN_TOKEN_NUM",
    "VIDEO_TOTAL_PIXELS",
    "WANDB_API_KEY",
    "WANDB_DIR",
    "WANDB_ENTITY",
    "WANDB_MODE",
    "WANDB_PROJECT",
)

#: Names that people write for a known one.
_ALIASES = {"MASTER_ADDRESS": "MASTER_ADDR", "MASTER_IP": "MASTER_ADDR", "NNODE": "NNODES", "NUM_NODES": "NNODES"}


@dataclass(frozen=True)
class Environment:
    """Variables for the trainer (all text) and what the user should know about them."""

    values: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def process_count(spec: JobSpec, visible_gpus: Sequence[int]) -> int:
    """Training processes on this node: as asked for, else one for each GPU that they may use, else one."""
    if spec.nproc_per_node is not None:
        return spec.nproc_per_node
    named = environment_text(spec.environment).get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return max(1, len([word for word in named.split(",") if word.strip()]))
    return max(1, len(spec.gpus if spec.gpus is not None else visible_gpus))


def derive(spec: JobSpec, cores: int, visible_gpus: Sequence[int]) -> Environment:
    """The variables of one node's part of a job. The job's own environment wins, except for the rank facts."""
    processes = process_count(spec, visible_gpus)
    given = environment_text(spec.environment)
    facts = _rank_facts(spec, processes)
    values = {**_defaults(spec, cores, visible_gpus, processes, given), **given, **facts}
    warnings = [_overruled(name, given[name], used) for name, used in facts.items() if given.get(name, used) != used]
    warnings.extend(_thread_warnings(given.get("OMP_NUM_THREADS"), cores, processes))
    return Environment(values=values, warnings=warnings)


def problems(environment: Mapping[str, object], secrets: Iterable[str]) -> list[str]:
    """What is wrong with the names of a job's variables; of the secrets only the names are looked at."""
    found = [name_problem(name) or refusal(name) for name in environment]
    for name in secrets:
        found += [name_problem(name), secret_refusal(name)]
        if name in environment:
            found.append(f"{name} is in secrets and in environment, where it would be seen. Keep it in secrets only.")
    return [problem for problem in found if problem]


def refusal(name: str) -> str | None:
    """Why a variable of this name cannot be given, or nothing."""
    return f"{name} cannot be given: {REFUSED[name]}. Remove it." if name in REFUSED else None


def secret_refusal(name: str) -> str | None:
    """Why a secret cannot have this name, or nothing."""
    if name in REFUSED or name in RANK_FACTS:
        return f"{name} is not a secret but a part of the job's layout. Remove it."
    return None


def name_problem(name: object) -> str | None:
    """Why this environment variable's name is surely a mistake, or nothing."""
    if not isinstance(name, str) or not name or "=" in name or "\x00" in name:
        return f"The environment variable name {name!r} cannot be used. Use letters, digits and '_'."
    if is_known(name):
        return None
    meant = _meant(name)
    if meant is None:
        return None
    return (
        f"The environment variable {name!r} is not known and would have no effect: names are case-sensitive. "
        f"Write {meant!r}, if that is what was meant."
    )


def value_warnings(environment: Mapping[str, str]) -> list[str]:
    """Values of known variables that do something else than what was probably meant."""
    found: list[str] = []
    interfaces = environment.get("NCCL_SOCKET_IFNAME", "")
    if interfaces.startswith("^") and "lo" not in interfaces[1:].split(","):
        found.append(
            f"NCCL_SOCKET_IFNAME={interfaces} replaces NCCL's own exclusions, so that it may choose lo, the loopback. "
            f"Write {interfaces},lo, or better the name of the one interface to use."
        )
    for name in ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"):
        items = environment.get(name, "").split(",")
        if any(item.strip().startswith(("^", "=")) for item in items[1:]):
            found.append(
                f"{name}={environment[name]}: '^' and '=' count at the very beginning only, for the whole list."
            )
    return found


def is_known(name: str) -> bool:
    """Whether the trainer or a library below it reads a variable of exactly this name."""
    return name in KNOWN


def _meant(name: str) -> str | None:
    upper = name.upper().replace("-", "_")
    if upper in KNOWN:
        return upper
    if upper in _ALIASES:
        return _ALIASES[upper]
    if len(name) < 6:
        return None
    close = difflib.get_close_matches(upper, KNOWN, n=1, cutoff=0.9)
    return close[0] if close else None


def _rank_facts(spec: JobSpec, processes: int) -> dict[str, str]:
    return {
        "NNODES": str(spec.nnodes),
        "NODE_RANK": str(spec.node_rank),
        "MASTER_ADDR": spec.master_addr,
        "MASTER_PORT": str(spec.master_port),
        "NPROC_PER_NODE": str(processes),
    }


def _defaults(
    spec: JobSpec, cores: int, visible_gpus: Sequence[int], processes: int, given: Mapping[str, str]
) -> dict[str, str]:
    values = {"OMP_NUM_THREADS": str(threads(cores, processes)), "PYTHONUNBUFFERED": "1"}
    if "PYTORCH_ALLOC_CONF" not in given:
        values["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    gpus = spec.gpus if spec.gpus is not None else list(visible_gpus)[:processes]
    if gpus or spec.gpus is not None:
        # Without any, training is meant to run on the CPUs of a node that has GPUs.
        values["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in gpus)
    if spec.socket_interface:
        # NCCL takes a bare name as a beginning of names (bond0 would be bond0.2093 as well); '=' makes it exact.
        values["NCCL_SOCKET_IFNAME"] = f"={spec.socket_interface}"
        values["GLOO_SOCKET_IFNAME"] = spec.socket_interface
    if spec.colocated:
        values["NCCL_HOSTID"] = f"node{spec.node_rank}"
    return values


def threads(cores: int, processes: int) -> int:
    """Threads for each process: its share of the cores, at least 1 and at most 16."""
    return max(1, min(MAX_THREADS, cores // max(1, processes)))


def _overruled(name: str, given: str, used: str) -> str:
    return (
        f"The environment of the job gives {name}={given!r}, which does not count: {name}={used!r} follows from the "
        "inventory and the job's settings. Remove it from the environment."
    )


def _thread_warnings(given: str | None, cores: int, processes: int) -> list[str]:
    if given is None:
        return []
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        share = threads(cores, processes)
        return [f"OMP_NUM_THREADS={given!r} is not a number of threads. Give an integer such as {share}."]
    wanted = int(given) * processes
    if wanted <= cores:
        return []
    return [
        f"OMP_NUM_THREADS={given} is kept, but {processes} processes with {given} threads each make {wanted} threads "
        f"on {cores} cores, which can slow preprocessing down a lot. {threads(cores, processes)} would fit."
    ]
