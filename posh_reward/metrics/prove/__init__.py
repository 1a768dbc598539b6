"""PROVE: helpful and truthful answers about images (paper: Trust but Verify).

::

    prove            Prove: responses, answers, questions, captions (, images) -> scores
    tuples           texts -> tuples, from our scene graphs or written by a model
    tuple_scenes     tuples, or a graph in a file -> scene graph for programs
    entailment       probability, by a vision model, that an image shows a claim
    equations        similarities of tuples -> the two scores
    pair_maker       captions -> questions, answers and verifying programs; checks of existing ones
    prove_prompts    prompts, and the reader of the writer's reply
    sifting          reasons to drop a candidate
    programs/        sandbox for programs that a model wrote
"""
