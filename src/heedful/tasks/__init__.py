"""Jobs as the trainer sees them: how data is prepared and split into batches, the loss, and the validation."""
