"""Jobs as the trainer sees them: how data is prepared and dealt out, the loss, and the validation."""
