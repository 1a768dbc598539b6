"""PROVE: helpful and truthful answers about images (paper: Trust but Verify).

::

    prove            Prove: responses, answers, questions, captions (, images) -> scores
    tuples           texts -> tuples, from our scene graphs or a model -> scene graph for programs
    equations        similarities of tuples, and what the image shows -> the two scores
    pair_maker       captions -> questions, answers and verifying programs; checks of existing ones
    prove_prompts    prompts, and the reader of the writer's reply
    sifting          reasons to drop a candidate
    programs/        sandbox for programs that a model wrote
"""
