"""The surroundings of a trainer, for the recipes and for scripts of your own.

::

    from posh_reward import RefuseLostWeights, StopWithCheckpoint, finish, load_processor, train

    trainer = GRPOTrainer(..., processing_class=load_processor(name),
                          callbacks=[StopWithCheckpoint(reward), RefuseLostWeights()])
    train(trainer)   # resumes as ``resume_from_checkpoint`` says, with the checkpoint's weights
    finish(trainer)  # at the very end: closes trackers and the process group
"""
