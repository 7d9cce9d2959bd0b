"""A real Kubernetes cluster out of processes: see ../README.md for the map of these files."""
