"""``tinyattn train --minutes N``: the size of the model, the steps and the regularization follow from the time.

``rule.py`` is the rule, a pure function of the time, the text and the speed of the machine. ``trial.py`` measures the
speed with a few training steps of candidate sizes. ``time_budget.py`` applies both when a run begins. The result is an
ordinary configuration: the number of steps is stored with the run and does not depend on the clock afterwards.
"""
