"""Homes of names that are not built yet; the list must end empty."""

PENDING = {
    "actorgraph.BaseCheckpointSaver",
    "actorgraph.ChannelVersions",
    "actorgraph.Checkpoint",
    "actorgraph.CheckpointMetadata",
    "actorgraph.CheckpointTuple",
    "actorgraph.Checkpointer",
    "actorgraph.FullKey",
    "actorgraph.SerializerProtocol",
    "actorgraph.create_checkpoint",
    "actorgraph.empty_checkpoint",
    "actorgraph.get_checkpoint_id",
    "actorgraph.uuid6",
}
