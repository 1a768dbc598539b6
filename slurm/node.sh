#!/usr/bin/env bash
# srun --ntasks-per-node=1 bash slurm/node.sh RECIPE [flags]
#
# Starts the ranks of one node, one for each of its cards, or PROCESSES_PER_NODE without cards.
set -euo pipefail
source slurm/common.sh
processes=$(ranks_here)
threads=$((SLURM_CPUS_PER_TASK / processes))
# torchrun would give each rank one thread.
export OMP_NUM_THREADS=$((threads > 0 ? threads : 1))
# USR1 asks the ranks to stop. The launcher, and judges in processes of their own, would die of it;
# those who do not ask for it ignore it from here on.
trap '' USR1
# DeepSpeed's own launchers over nodes use ssh: srun has started this on each node already.
exec accelerate launch \
  --config_file "${ACCELERATE_CONFIG:-configs/accelerate/zero3_8gpu.yaml}" \
  --num_machines "$SLURM_STEP_NUM_NODES" --num_processes "$((SLURM_STEP_NUM_NODES * processes))" \
  --machine_rank "$SLURM_NODEID" --same_network --deepspeed_multinode_launcher standard \
  --main_process_ip "$(first_node)" \
  --main_process_port "$(meeting_port)" \
  "$@"
