"""What the default classifier adds to the network: graphs, propagation, predictors, fusion."""
