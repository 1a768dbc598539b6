#!/usr/bin/env bash
# sbatch --array=0-7 slurm/generate_score.sh runs/said [flags of recipes/generate.py] -- [flags of posh-reward score]
#
# Describes a split's images with one or more models (--models A B) and scores the descriptions. Each
# job of the array does one part of the images, on its own GPU; the last to finish merges all parts
# into runs/said/scores.jsonl.
# To run some parts again: SHARDS=8 sbatch --array=3,5 and so on; finished rows are kept.
#SBATCH --job-name=posh-generate
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=12
#SBATCH --mem=110G
#SBATCH --time=12:00:00
#SBATCH --output=%x-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
set -euo pipefail
source slurm/common.sh
prepare
shards=${SHARDS:-$SLURM_ARRAY_TASK_COUNT}
folder=$1
shift
generating=()
while (($#)) && [[ $1 != -- ]]; do
  generating+=("$1")
  shift
done
part=$folder/$SLURM_ARRAY_TASK_ID-of-$shards
python recipes/generate.py --output "$part.said.jsonl" \
  --shard "$SLURM_ARRAY_TASK_ID" --shards "$shards" "${generating[@]}"
status=0
posh-reward score "$part.said.jsonl" --output "$part.scores.jsonl" --id id --elements "${@:2}" || status=$?
((status == 0 || status == 3)) || exit "$status" # 3: some pairs have no score; their rows say why
touch "$part.done"

parts=()
for ((shard = 0; shard < shards; shard++)); do
  [[ -e $folder/$shard-of-$shards.done ]] || exit 0
  parts+=("$folder/$shard-of-$shards.scores.jsonl")
done
# Two parts that finish together both write the same file.
cat "${parts[@]}" >"$part.merged"
mv "$part.merged" "$folder/scores.jsonl"
echo "all $shards parts are in $folder/scores.jsonl; to view them:" \
  "posh-reward report $folder/scores.jsonl -o $folder/report.html --plots $folder/plots"
