#!/usr/bin/env bash
# srun --ntasks-per-node=1 bash slurm/node.sh RECIPE [flags]
#
# Starts the ranks of one node: one per GPU, or PROCESSES_PER_NODE without GPUs.
set -euo pipefail
source slurm/common.sh
processes=$(ranks_here)
threads=$((SLURM_CPUS_PER_TASK / processes))
# torchrun's default is one thread per rank.
export OMP_NUM_THREADS=$((threads > 0 ? threads : 1))
# USR1 asks the ranks to stop. It would kill the launcher and judges in separate processes, so all
# processes ignore it by default; the ranks install a handler.
trap '' USR1
# The flags without "RECIPE ... --config": the configuration comes first.
for ((place = 1; place < $#; place++)); do
  if [[ ${!place} == --config ]]; then offline_if_fetched "${@:place+1}" "${@:2:place-2}"; fi
done
# DeepSpeed's own multi-node launchers use ssh, but srun has already started this on each node.
exec accelerate launch \
  --config_file "${ACCELERATE_CONFIG:-configs/accelerate/zero3_8gpu.yaml}" \
  --num_machines "$SLURM_STEP_NUM_NODES" --num_processes "$((SLURM_STEP_NUM_NODES * processes))" \
  --machine_rank "$SLURM_NODEID" --same_network --deepspeed_multinode_launcher standard \
  --main_process_ip "$(first_node)" \
  --main_process_port "$(meeting_port)" \
  "$@"
