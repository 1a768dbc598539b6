#!/usr/bin/env bash
# sbatch slurm/sft.sh configs/sft/qwen2_5_vl_7b.yaml [flags of recipes/sft.py]
#
# Like slurm/dapo_posh.sh.
#SBATCH --job-name=posh-sft
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
srun_doctor "$@" || leave 1
status=0
srun_training recipes/sft.py --resume_from_checkpoint latest --config "$@" || status=$?
leave "$status"
