"""PROVE: how helpful an answer about an image is, and how truthful (paper: Trust but Verify).

::

    metric      responses, answers, questions, captions (, images) -> scores
    tuples      texts -> tuples of their scene graphs, or of a model
    likeness    tuples -> similarities, by an encoder
    entailment  does the image show it? a model that sees answers
    equations   similarities -> the two scores
    records     what scores are made of
    pipeline    captions -> questions, answers and programs that verify them
    writing     what the writer is asked, and how its reply is read
    sifting     which candidates are dropped, and why
    checks      what of that can be said without a model     kinds   of attributes: color, count
    asking      how models are asked
    scenes      tuples -> the scene graph that programs see
    programs/   programs of a model, run without trusting them
"""
