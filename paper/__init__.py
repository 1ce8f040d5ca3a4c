"""Reproduction of Luo, Xu and Carin (2020): experiments, results and the page about them."""
