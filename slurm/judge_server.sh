#!/usr/bin/env bash
# bash slurm/judge_server.sh PORT
#
# The judge of configs/judge/server.yaml: one copy per GPU of this node, behind one port. Without
# FlashInfer's sampler, which would be compiled at the start and needs a CUDA toolkit on the node.
trap '' USR1 # asks the trainer to stop, but is sent to the whole job: the server must survive it
export VLLM_USE_FLASHINFER_SAMPLER="${VLLM_USE_FLASHINFER_SAMPLER:-0}" VLLM_NO_USAGE_STATS=1
exec vllm serve Qwen/Qwen3-14B --dtype bfloat16 --max-model-len 8192 --generation-config vllm \
  --enable-prompt-tokens-details --data-parallel-size "${SLURM_GPUS_ON_NODE:-1}" --port "$1"
