"""HarmonicEval, the rubric judge and PROVE, with their rewards, tables and pages."""
