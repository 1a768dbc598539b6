"""Parts of DAPO that TRL lacks: dynamic sampling (``sampling``), span credit (``credit``).

``trainer.DapoTrainer`` is TRL's ``GRPOTrainer`` with both, each off by default.
"""
