"""WordNet 3.0 as a compact table, with word lists, for the judge, the reward and the baselines."""
