#!/usr/bin/env bash
# sbatch slurm/dapo_posh.sh configs/dapo/qwen2_5_vl_7b.yaml [flags of recipes/dapo_posh.py]
#
# One node with eight 80 GB cards; submitted again, it goes on from the newest checkpoint. Not run
# yet: no such machine was at hand.
#SBATCH --job-name=posh-dapo
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --mem=900G
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail
source .venv/bin/activate
# srun does not pass --cpus-per-task on by itself, and torchrun would give each rank one thread.
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / 8))
srun accelerate launch --config_file configs/accelerate/zero3_8gpu.yaml recipes/dapo_posh.py --config "$@"
