"""The gRPC service: what it answers (application), how it is reached (dispatch, runtime) and how it is watched."""
