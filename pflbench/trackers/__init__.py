"""Experiment trackers: what runs have recorded, written to TensorBoard, MLflow or Weights & Biases."""
