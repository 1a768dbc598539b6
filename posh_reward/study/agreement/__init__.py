"""How well metrics agree with people, by the paper's procedures (section 5, A.3).

::

    items        what metrics score, and columns of what they gave
    sources      files and datasets of the hub -> rows
    pairs        rows -> pairs that people compared    caparena  battles of models
    ratings      rows -> texts that people rated       localise  rows -> texts that people marked
    graphs       answers                               the paper's Tables 8 and 9
    mmhe         HarmonicEval's judgments on five criteria, and their report
    harmonic     HarmonicEval as one of the metrics
    correlation  pairwise  elo                         one figure of scores and people's numbers
    compare      figures of many metrics with paired intervals, tested against each other
    reliability  spans                                 between raters: alpha, relaxed F1
    published    the paper's tables
    table        page  plot                            what people see
    baselines/   other metrics
"""
