"""What the default classifier adds to the network: graphs, label propagation, predictors, fusion.

`build_graph` takes the rows of a view, `fit_predictors` the graphs and labels of all views, and
`ViewPredictors.predict_log_proba` new rows; no network is needed.
"""
