"""The reward in other trainers and environments, the metric in other evaluators and engines."""
