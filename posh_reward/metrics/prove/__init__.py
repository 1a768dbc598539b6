"""PROVE: helpful and truthful answers about images (paper: Trust but Verify).

::

    prove            Prove: responses, answers, questions, captions (, images) -> scores
    tuples           texts -> tuples of their scene graphs, or of a model
    tuple_scenes     tuples, or a graph in a file -> the scene graph that programs see
    entailment       probability that the image shows a claim, by a model that sees
    equations        similarities of tuples -> the two scores
    pair_maker       captions -> questions, answers and programs that verify them; verified again
    prove_prompts    prompts, and the writer's reply read
    sifting          reasons to drop a candidate
    programs/        programs of a model, run without trusting them
"""
