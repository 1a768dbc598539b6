"""Which variables a child gets."""

import pytest

from posh_reward.process.child import child_variables, gpu_index

NEEDED = (
    "PATH HOME LANG LC_ALL TMPDIR XDG_CACHE_HOME LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES CUDA_HOME "
    "NVIDIA_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS TORCH_HOME TORCHINDUCTOR_CACHE_DIR "
    "PYTORCH_ALLOC_CONF TRITON_CACHE_DIR HF_HOME HF_HUB_OFFLINE HUGGINGFACE_HUB_CACHE "
    "TRANSFORMERS_CACHE HTTPS_PROXY https_proxy no_proxy SSL_CERT_FILE NCCL_SOCKET_IFNAME"
).split()
NOT_FOR_IT = (
    "WANDB_API_KEY WANDB_MODE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY OPENAI_API_KEY "
    "POSH_JUDGE_API_KEY GITHUB_TOKEN RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK "
    "MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCH_NCCL_ASYNC_ERROR_HANDLING "
    "NCCL_ASYNC_ERROR_HANDLING ACCELERATE_USE_FSDP FSDP_VERSION PMI_RANK OMPI_COMM_WORLD_RANK "
    "SLURM_PROCID VLLM_CACHE_ROOT PATHOLOGY"
).split()
TOKENS = "HF_TOKEN HF_TOKEN_PATH HUGGING_FACE_HUB_TOKEN".split()
ALL = dict.fromkeys([*NEEDED, *NOT_FOR_IT, *TOKENS, "PYTHONPATH", "PYTHONHASHSEED"], "value")


def test_a_child_gets_what_it_needs_by_name() -> None:
    assert set(child_variables(ALL, "/another/python", hub=False)) == set(NEEDED)
    more = child_variables(ALL, "/another/python", hub=False, also=("VLLM_",))
    assert set(more) == {*NEEDED, "VLLM_CACHE_ROOT"}


def test_only_a_child_that_downloads_gets_the_key_to_the_hub() -> None:
    assert set(child_variables(ALL, "/another/python", hub=True)) == {*NEEDED, *TOKENS}


@pytest.mark.parametrize(
    ("visible", "rank", "place"),
    [(None, None, 0), (None, "3", 3), ("0,1,2,3", "3", 3), ("6", "3", 0), ("", "3", 0)],
)
def test_the_card_of_a_rank_has_a_place_among_those_it_sees(
    visible: str | None, rank: str | None, place: int
) -> None:
    given = {"CUDA_VISIBLE_DEVICES": visible, "LOCAL_RANK": rank}
    assert gpu_index({k: v for k, v in given.items() if v is not None}) == place
