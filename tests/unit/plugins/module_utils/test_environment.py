# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the trainer's environment."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _environment, _supervisor
from ansible_collections.trainyard.swift.plugins.module_utils._job import JobSpec

EIGHT = list(range(8))
SEED = {
    "NCCL_DEBUG": "INFO",
    "NCCL_IB_DISABLE": 0,
    "NCCL_IB_HCA": "mlx5",
    "NCCL_SOCKET_IFNAME": "bond0",
    "OMP_NUM_THREADS": 16,
    "IMAGE_MAX_TOKEN_NUM": 1280,
}


def spec(**changes: Any) -> JobSpec:
    facts = {"name": "j", "nnodes": 4, "node_rank": 2, "master_addr": "10.112.36.7", **changes}
    return JobSpec(**facts)


def test_the_seeds_environment() -> None:
    derived = _environment.derive(spec(environment=SEED, socket_interface="bond0"), 192, EIGHT)
    assert derived.warnings == []
    assert derived.values == {
        "NNODES": "4",
        "NODE_RANK": "2",
        "MASTER_ADDR": "10.112.36.7",
        "MASTER_PORT": "29500",
        "NPROC_PER_NODE": "8",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "OMP_NUM_THREADS": "16",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "PYTHONUNBUFFERED": "1",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": "mlx5",
        "NCCL_SOCKET_IFNAME": "bond0",
        "GLOO_SOCKET_IFNAME": "bond0",
        "IMAGE_MAX_TOKEN_NUM": "1280",
    }


@pytest.mark.parametrize(
    ("changes", "cores", "gpus", "expected"),
    [
        pytest.param(
            {}, 4, [], {"NPROC_PER_NODE": "1", "CUDA_VISIBLE_DEVICES": None, "OMP_NUM_THREADS": "4"}, id="no GPU"
        ),
        pytest.param({"nproc_per_node": 2}, 4, [], {"NPROC_PER_NODE": "2", "OMP_NUM_THREADS": "2"}, id="two on CPUs"),
        pytest.param({"nproc_per_node": 8}, 4, [], {"OMP_NUM_THREADS": "1"}, id="more processes than cores"),
        pytest.param(
            {"nproc_per_node": 4}, 64, EIGHT, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, id="as many GPUs as processes"
        ),
        pytest.param(
            {"gpus": [6, 7]}, 64, EIGHT, {"CUDA_VISIBLE_DEVICES": "6,7", "NPROC_PER_NODE": "2"}, id="given GPUs"
        ),
        pytest.param({"gpus": []}, 64, EIGHT, {"CUDA_VISIBLE_DEVICES": "", "NPROC_PER_NODE": "1"}, id="no GPUs wanted"),
        pytest.param(
            {"environment": {"CUDA_VISIBLE_DEVICES": "5"}},
            8,
            EIGHT,
            {"CUDA_VISIBLE_DEVICES": "5", "NPROC_PER_NODE": "1", "OMP_NUM_THREADS": "8"},
            id="the user's word counts",
        ),
        pytest.param(
            {"environment": {"CUDA_VISIBLE_DEVICES": "0, 1,2,3,"}, "gpus": EIGHT},
            8,
            EIGHT,
            {"NPROC_PER_NODE": "4"},
            id="a process for each GPU named",
        ),
        pytest.param(
            {"environment": {"CUDA_VISIBLE_DEVICES": ""}}, 8, EIGHT, {"NPROC_PER_NODE": "1"}, id="every GPU hidden"
        ),
        pytest.param(
            {}, 8, [], {"NCCL_SOCKET_IFNAME": None, "GLOO_SOCKET_IFNAME": None, "NCCL_HOSTID": None}, id="no interface"
        ),
        pytest.param(
            {"socket_interface": "bond0"},
            8,
            [],
            {"NCCL_SOCKET_IFNAME": "=bond0", "GLOO_SOCKET_IFNAME": "bond0"},
            id="exact name",
        ),
        pytest.param({"colocated": True}, 8, [], {"NCCL_HOSTID": "node2"}, id="two hosts to NCCL"),
        pytest.param(
            {"environment": {"PYTORCH_ALLOC_CONF": "x"}},
            8,
            [],
            {"PYTORCH_CUDA_ALLOC_CONF": None},
            id="the newer name given",
        ),
        pytest.param({"environment": {"USE_HF": True, "A": None}}, 8, [], {"USE_HF": "true", "A": None}, id="text"),
    ],
)
def test_derive(changes: dict[str, Any], cores: int, gpus: list[int], expected: dict[str, str | None]) -> None:
    derived = _environment.derive(spec(**changes), cores, gpus)
    assert {name: derived.values.get(name) for name in expected} == expected
    assert derived.warnings == []


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"NODE_RANK": "0"}, "NODE_RANK='0', which does not count: NODE_RANK='2' follows from the inventory"),
        ({"MASTER_ADDR": "127.0.0.1"}, "MASTER_ADDR='127.0.0.1'"),
        ({"OMP_NUM_THREADS": 64}, "is kept, but 2 processes with 64 threads each make 128 threads on 16 cores"),
        ({"OMP_NUM_THREADS": "many"}, "is not a number of threads. Give an integer such as 8"),
        ({"OMP_NUM_THREADS": "0"}, "is not a number of threads"),
    ],
)
def test_warnings(given: dict[str, Any], part: str) -> None:
    derived = _environment.derive(spec(environment=given, nproc_per_node=2), 16, [])
    (warning,) = derived.warnings
    assert part in warning
    assert derived.values["NODE_RANK"] == "2"
    assert derived.values["MASTER_ADDR"] == "10.112.36.7"


def test_equal_rank_facts_are_no_reason_to_warn() -> None:
    assert _environment.derive(spec(environment={"NNODES": 4, "OMP_NUM_THREADS": 8}), 16, []).warnings == []


@pytest.mark.parametrize(
    ("cores", "processes", "threads"), [(192, 8, 16), (64, 8, 8), (2, 1, 2), (2, 8, 1), (0, 0, 1), (1000, 1, 16)]
)
def test_threads(cores: int, processes: int, threads: int) -> None:
    assert _environment.threads(cores, processes) == threads


def _kept(inherited: dict[str, str]) -> dict[str, str]:
    """What a trainer inherits of this, as the supervisor applies the list."""
    rules = {"drop": list(_environment.DROPPED), "environment": {}, "marker": {}}
    return _supervisor.trainer_environment(rules, inherited, {})


@pytest.mark.parametrize(
    "name",
    [
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "PET_NNODES",
        "PET_LOG_DIR",
        "TORCHELASTIC_RUN_ID",
        "GROUP_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NNODES",
        "NODE_RANK",
        "NPROC_PER_NODE",
        "http_proxy",
        "HTTPS_PROXY",
        "no_proxy",
        "ALL_PROXY",
        "SLURM_PROCID",
        "OMPI_COMM_WORLD_RANK",
    ],
)
def test_dropped(name: str) -> None:
    assert _kept({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("name", ["PATH", "HOME", "LD_LIBRARY_PATH", "NCCL_DEBUG", "CUDA_HOME", "RANKING", "proxy"])
def test_inherited(name: str) -> None:
    assert _kept({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nproc_per_node", "NPROC_PER_NODE"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("Nccl_Ib_Hca", "NCCL_IB_HCA"),
        ("NCCL_IB_HCAS", "NCCL_IB_HCA"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NPROC_PER_NODES", "NPROC_PER_NODE"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("PYTORCH_CUDA_ALOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
        ("NCCL-DEBUG", "NCCL_DEBUG"),
        ("MASTER_ADDRESS", "MASTER_ADDR"),
    ],
)
def test_near_misses(name: str, meant: str) -> None:
    assert f"Write {meant!r}" in str(_environment.name_problem(name))


@pytest.mark.parametrize(
    "name",
    [
        *_environment.KNOWN,
        "MY_OWN",
        "HF_TOKEN",
        "WANDB_ENTITY",
        "A",
        "NCCL_IB_PCI_RELAXED_ORDERING",
        # Near to known names, and read by NCCL, Transformer Engine or PyTorch all the same.
        "NCCL_MAX_P2P_NCHANNELS",
        "NCCL_P2P_NVL_CHUNKSIZE",
        "NVTE_FLASH_ATTN_V3",
        "PYTORCH_HIP_ALLOC_CONF",
        "no_such_thing",
        "PATH",
    ],
)
def test_names_that_are_fine(name: str) -> None:
    assert _environment.name_problem(name) is None


@pytest.mark.parametrize("name", ["", "A=B", "A\0", None, 7])
def test_impossible_names(name: Any) -> None:
    assert "cannot be used" in str(_environment.name_problem(name))


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"NCCL_SOCKET_IFNAME": "^docker0"}, "Write ^docker0,lo"),
        ({"NCCL_IB_HCA": "^=mlx5_0,^=mlx5_1"}, "count at the very beginning only"),
        ({"NCCL_SOCKET_IFNAME": "=eth0,=eth1"}, "count at the very beginning only"),
    ],
)
def test_value_warnings(values: dict[str, str], part: str) -> None:
    (warning,) = _environment.value_warnings(values)
    assert part in warning


@pytest.mark.parametrize("values", [{}, {"NCCL_SOCKET_IFNAME": "^docker0,lo"}, {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}])
def test_no_value_warnings(values: dict[str, str]) -> None:
    assert _environment.value_warnings(values) == []
