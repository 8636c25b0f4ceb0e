"""Train on a table with wrong labels: our scikit-learn classifier, scikit-learn's own network, and cleanlab.

python examples/tabular.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tnlpad.integrations.sklearn import TnlpadClassifier

features, clean = load_breast_cancer(return_X_y=True)
train, test, given, truth = train_test_split(features, clean, test_size=0.3, stratify=clean, random_state=0)

# Flip 30 % of the training labels. The test labels stay clean and are not used for selection.
wrong = np.random.default_rng(0).random(len(given)) < 0.3
given = np.where(wrong, 1 - given, given)

plain = make_pipeline(StandardScaler(), MLPClassifier((128, 128), random_state=0)).fit(train, given)
print(f"MLPClassifier     {plain.score(test, truth):.1%} of the test samples are right")

ours = GridSearchCV(TnlpadClassifier(random_state=0), {"c2": [0.2, 0.6, 2.0]}, cv=3).fit(train, given)
print(f"TnlpadClassifier  {ours.score(test, truth):.1%}, with c2 = {ours.best_params_['c2']} chosen on noisy labels")

try:
    from cleanlab.classification import CleanLearning
except ImportError:
    print("pip install 'tnlpad[compare]' to see which labels cleanlab finds with it")
else:
    one_process = {"n_jobs": 1}  # others, which cleanlab forks, may hang beside torch's threads
    finder = CleanLearning(TnlpadClassifier(random_state=0), seed=0, find_label_issues_kwargs=one_process)
    issues = finder.find_label_issues(train, given)
    found = issues["is_label_issue"].to_numpy()
    print(f"cleanlab with it  {found.sum()} labels found, {wrong[found].mean():.0%} of them wrong")
