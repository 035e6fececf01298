"""What each job is, described once: its data, models, metrics, pipeline and trainer, and the verbs that use its models."""
