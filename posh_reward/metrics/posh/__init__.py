"""POSH: how truthful and how complete a description is against a reference (paper, section 3).

::

    metric      PoSh: texts -> scores                          tasks       which can be examined
    examine     one direction of one pair, in three passes     questions   what is asked
    search      one pass of them, candidate by candidate       asking      how much at a time
    roster      a graph's names, parents and namesakes         claims      elements being graded
    witness     two more passes, about the image
    lockstep    many examinations share each call to the judge
    presets     wording of the questions (prompts/)            aggregate   grades -> means
    judges/     who answers                                    figures     what a run logs
    collector   garbage is collected less often meanwhile
"""
