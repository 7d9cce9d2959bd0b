"""A real Kubernetes cluster made of processes: see ../README.md for the map of these files."""
