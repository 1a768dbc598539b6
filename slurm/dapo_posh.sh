#!/usr/bin/env bash
# sbatch slurm/dapo_posh.sh configs/dapo/qwen2_5_vl_7b.yaml [flags of recipes/dapo_posh.py]
#
# Nodes with eight 80 GB GPUs; --nodes=2 uses two. Stops 15 minutes before its time is up
# (--stop_before), saves a checkpoint, and requeues itself to continue; see docs/slurm.md.
#SBATCH --job-name=posh-dapo
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --mem=900G
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
set -euo pipefail
source slurm/common.sh
prepare
export JUDGE_NEXT_TO_TRAINER=1
srun_doctor "$@" || leave 1
status=0
srun_training recipes/dapo_posh.py --resume_from_checkpoint latest --config "$@" || status=$?
leave "$status"
