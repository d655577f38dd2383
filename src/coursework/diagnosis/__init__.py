"""From answers to points, names of mistakes, and the smallest input that shows one. It runs no submission."""
