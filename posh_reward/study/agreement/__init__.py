"""Agreement of metrics with people, by the paper's procedures (section 5, A.3).

::

    judgment_files    files and datasets of the hub -> rows      author_layouts  the authors' files
    metric_scores     texts to score, and columns of scores      measures        metrics that score
    preferences       rows -> pairs that people compared         caparena        battles of models
    ratings           rows -> texts that people rated
    localisation      rows -> texts in which people marked spans
    rater_agreement   between raters: alpha, relaxed F1
    correlation  compare                                         figures with paired intervals
    agreement_report  agreement_page                             figures -> text, page, plot, JSON
    baselines/        other metrics
"""
