#!/usr/bin/env bash
# sbatch slurm/distill_judge.sh configs/distill/qwen3_0_6b.yaml [flags of recipes/distill_judge.py]
#
# One GPU. Like slurm/dapo_posh.sh, without the doctor, which checks what several GPUs need.
#SBATCH --job-name=posh-distill
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=12
#SBATCH --mem=110G
#SBATCH --time=12:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
set -euo pipefail
source slurm/common.sh
prepare
export ACCELERATE_CONFIG=${ACCELERATE_CONFIG:-configs/accelerate/one_gpu.yaml}
status=0
srun_training recipes/distill_judge.py --resume_from_checkpoint latest --config "$@" || status=$?
leave "$status"
