#!/usr/bin/env bash
# bash slurm/judge_server.sh PORT
#
# The judge of configs/judge/server.yaml: one copy on each card of this node, behind one port.
exec vllm serve Qwen/Qwen3-14B --dtype bfloat16 --max-model-len 8192 --generation-config vllm \
  --enable-prompt-tokens-details --data-parallel-size "${SLURM_GPUS_ON_NODE:-1}" --port "$1"
