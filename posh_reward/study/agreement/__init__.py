"""Agreement of metrics with people, by the paper's procedures (section 5, A.3).

::

    judgment_files    files, datasets of the hub and the authors' own layouts -> rows
    metric_scores     texts to score, metrics that score them, columns of scores
    preferences       rows -> pairs that people compared         caparena        battles of models
    ratings           rows -> texts that people rated
    localisation      rows -> texts in which people marked spans
    rater_agreement   between raters: alpha, relaxed F1
    correlation  compare                                         figures with paired intervals
    agreement_report  agreement_page                             figures -> text, page, plot, JSON
    baselines/        other metrics
"""
